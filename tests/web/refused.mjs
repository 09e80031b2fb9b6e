// Uses the report of a model that does not fit as a reader would, offline in chromium.
// node refused.mjs FOLDER_WITH_NODE_MODULES REPORT_FOLDER SCREENSHOT_FOLDER
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { picture, start } from "./browser.mjs";

const [modules, folder, pictures] = process.argv.slice(2).map((p) => path.resolve(p));
const { error, report } = JSON.parse(readFileSync(path.join(folder, "report.json"), "utf8"));
const url = pathToFileURL(path.join(folder, "report.html")).href;
const { browser, page, problems } = await start(modules);

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

// An address opens at its tile and step.
const chosen = async () => {
  assert.equal(Number(await page.inputValue("#tile")), error.physical_tile);
  assert.equal(Number(await page.inputValue("#step")), error.step);
};
await picture(page, pictures, ["summary", "floor", "liveness", "memory"].map((view) => ({
  name: `refused-${view}`,
  url: `${url}#view=${view}&tile=${error.physical_tile}&step=${error.step}`,
  look: view === "summary" ? undefined : chosen,
})));
await browser.close();
assert.deepEqual(problems, []);
