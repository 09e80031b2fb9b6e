// Opens a trace with speedscope, offline in chromium, and saves what its importer made of it.
// node trace.mjs FOLDER_WITH_NODE_MODULES TRACE_FILE RESULT_FILE
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, trace, result] = process.argv.slice(2).map((p) => path.resolve(p));
const require = createRequire(path.join(modules, "package.json"));
const { chromium } = require("playwright-core");
const viewer = path.join(modules, "node_modules/speedscope/dist/release/index.html");

const browser = await chromium.launch({ executablePath: process.env.TW_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--allow-file-access-from-files"] });
const context = await browser.newContext({ offline: true, acceptDownloads: true });
const page = await context.newPage();
const problems = [];
page.on("pageerror", (e) => problems.push(String(e)));
const imported = new Promise((done) => page.on("console", (m) => {
  // Slices that it cannot nest; that an end without arguments closes its slice is as the format says.
  if (/Doing nothing instead|still open|error/i.test(m.text()) && !m.text().includes("GL Driver")) problems.push(m.text());
  if (m.type() === "timeEnd" && m.text().startsWith("import")) done();
}));
await page.goto(pathToFileURL(viewer).href);
await page.setInputFiles("input[type=file]", trace);
await imported;
await page.waitForSelector("canvas");
const saved = page.waitForEvent("download");
await page.keyboard.press("Control+s");
await (await saved).saveAs(result);
await browser.close();
assert.deepEqual(problems, []);
