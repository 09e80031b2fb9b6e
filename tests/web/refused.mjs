// Uses the report of a model that does not fit as a reader would, offline in chromium.
// node refused.mjs FOLDER_WITH_NODE_MODULES REPORT_FOLDER SCREENSHOT_FOLDER
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, folder, pictures] = process.argv.slice(2).map((p) => path.resolve(p));
const { chromium } = createRequire(path.join(modules, "package.json"))("playwright-core");
const { error, report } = JSON.parse(readFileSync(path.join(folder, "report.json"), "utf8"));
const url = pathToFileURL(path.join(folder, "report.html")).href;
const browser = await chromium.launch({ executablePath: process.env.TW_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, offline: true })).newPage();
const problems = [];
page.on("pageerror", (e) => problems.push(String(e)));
page.on("console", (m) => m.type() === "error" && problems.push(m.text()));

await page.goto(url);
const text = await page.locator("#refusal").innerText();
assert.equal(Number(await page.locator("#missing-bytes").getAttribute("value")), error.missing_bytes);
assert.ok(text.includes(error.kind) && text.includes(error.cause));
for (const s of error.suggestions) assert.ok(text.includes(s.change), s.change);
for (const t of error.live) assert.ok(text.includes(t.tensor), t.tensor);
assert.deepEqual(await page.locator("[role=tab]").allInnerTexts(), ["Summary", "Floor plan", "Liveness", "Address map"]);

// From the message to the tile and step it names; what found no place there is listed, the rest is drawn.
await page.click("#refusal button.link");
assert.equal(Number(await page.inputValue("#tile")), error.physical_tile);
assert.equal(Number(await page.inputValue("#step")), error.step);
const list = report.lists[report.tiles.list[error.physical_tile]];
const without = list.address.map((a, i) => i).filter((i) => list.address[i] === 0 && list.first[i] <= error.step && error.step <= list.last[i]);
assert.ok(without.length > 0);
const rows = await page.locator("#memory-table .alert tbody tr").allInnerTexts();
assert.equal(rows.length, without.length);
for (const i of without) assert.ok(rows.some((r) => r.includes(report.tensors[list.tensor[i]])), report.tensors[list.tensor[i]]);

for (const [width, height] of [[1280, 800], [1920, 1080]]) {
  await page.setViewportSize({ width, height });
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const view of ["summary", "floor", "liveness", "memory"]) {
      await page.goto(`${url}#view=${view}&tile=${error.physical_tile}&point=${error.step}`);
      await page.reload();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      assert.equal(wide, false, `${view} is wider than ${width}`);
      await page.screenshot({ path: path.join(pictures, `refused-${view}-${width}-${scheme}.png`), fullPage: true });
    }
  }
}
await browser.close();
assert.deepEqual(problems, []);
