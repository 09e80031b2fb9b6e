// Opens a trace with speedscope, offline in chromium, and saves what its importer made of it.
// node trace.mjs FOLDER_WITH_NODE_MODULES TRACE_FILE RESULT_FILE
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./browser.mjs";

const [modules, trace, result] = process.argv.slice(2).map((p) => path.resolve(p));
const viewer = path.join(modules, "node_modules/speedscope/dist/release/index.html");

const { browser, page, problems } = await start(modules, {
  args: ["--allow-file-access-from-files"],
  context: { acceptDownloads: true },
  // Slices that it cannot nest; that an end without arguments closes its slice is as the format says.
  isProblem: (m) => /Doing nothing instead|still open|error/i.test(m.text()) && !m.text().includes("GL Driver"),
});
const imported = new Promise((done) => page.on("console", (m) => {
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
