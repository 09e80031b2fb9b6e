// Uses a report as a reader would, offline in chromium, and compares what it shows with the JSON.
// node report.mjs FOLDER_WITH_NODE_MODULES REPORT_FOLDER SCREENSHOT_FOLDER REPORT_JSON_IT_IS_COMPARED_WITH
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { picture, start } from "./browser.mjs";

const [modules, folder, pictures, otherFile] = process.argv.slice(2).map((p) => path.resolve(p));
const json = JSON.parse(readFileSync(path.join(folder, "report.json"), "utf8"));
const report = json.report;
const other = JSON.parse(readFileSync(otherFile, "utf8"));
const url = pathToFileURL(path.join(folder, "report.html")).href;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const points = report.steps.path.length + 1;

function live(tile, point) {  // indexes into the tile's list
  const list = report.lists[report.tiles.list[tile]];
  return [list, list.tensor.map((_, i) => i).filter((i) => list.first[i] <= point && point <= list.last[i])];
}

const { browser, page, problems } = await start(modules);

const value = async (selector) => Number(await page.locator(selector).first().getAttribute("value"));
const values = (selector) => page.locator(selector).evaluateAll((all) => all.map((x) => Number(x.getAttribute("value"))));
const open = (view) => page.click(`#tab-${view}`);
const fact = (root, term) => value(`${root} .facts > div:has(dt:text-is("${term}")) data`);
async function setStep(point) {
  await page.locator("#step").fill(String(point));
}

async function load() {
  const start = Date.now();
  await page.goto(url);
  await page.waitForSelector("#peak-bytes");
  console.log(`loaded in ${Date.now() - start} ms`);
}

async function summary() {
  assert.equal(await value("#peak-bytes"), json.compile.memory.peak_tensor_bytes);
  assert.match(await page.locator("h1").innerText(), new RegExp(json.compile.model.name));
}

// The fullest tile has the last colour of the scale, the emptiest the first.
async function checkColours() {
  await page.selectOption("#colour", "peak_bytes");
  const peaks = report.tiles.peak_bytes;
  const rows = Math.ceil(peaks.length / 64);
  for (const [figure, want] of [[Math.max(...peaks), [254, 232, 56]], [Math.min(...peaks), [0, 34, 78]]]) {
    const tile = peaks.lastIndexOf(figure);  // the first is marked
    const seen = await page.locator("#floor-chart").evaluate(async (chart, [x, y, rows]) => {
      for (let frame = 0; frame < 3; ++frame) await new Promise(requestAnimationFrame);
      const at = [56 + ((chart.clientWidth - 68) * (x + 0.5)) / 64, 10 + ((chart.clientHeight - 106) * (y + 0.5)) / rows];
      const layers = [...chart.querySelectorAll("canvas")].map((canvas) => {
        const scale = canvas.width / canvas.clientWidth;
        return [...canvas.getContext("2d").getImageData(at[0] * scale, at[1] * scale, 1, 1).data];
      });
      return layers.find((pixel) => pixel[3] === 255)?.slice(0, 3);
    }, [tile % 64, Math.floor(tile / 64), rows]);
    assert.deepEqual(seen, want, `tile ${tile}`);
  }
}

// Bytes by class at some step add up to the tile's memory; tensors are those of its list.
async function checkSplit(tile) {
  const point = Math.floor(points / 2);
  await setStep(point);
  const [list, alive] = live(tile, point);
  const shown = async (term) => value(`#tile-bytes .facts > div:has(dt:text-is("${term}")) data`);
  assert.equal(await shown("parameters"), sum(alive.filter((i) => list.parameter[i]).map((i) => list.bytes[i])));
  assert.equal(await shown("activations and other tensors of some steps"), sum(alive.filter((i) => !list.parameter[i]).map((i) => list.bytes[i])));
  assert.equal(await shown("tails and padding of tensors"), sum(alive.map((i) => list.taken[i] - list.bytes[i])));
  assert.equal(await shown("exchange table"), report.tiles.table_bytes[tile]);
  const all = report.device.memory_end - report.device.memory_base;
  assert.equal(await shown("all"), all);
  assert.equal(sum((await values("#tile-bytes .facts data")).slice(0, 9)), all);
}

async function floor() {
  await open("floor");
  assert.equal(Number(await page.inputValue("#tile")), report.fullest.tile[report.fullest.bytes.indexOf(Math.max(...report.fullest.bytes))]);
  const box = await page.locator("#floor-chart").boundingBox();
  const rows = Math.ceil(report.tiles.list.length / 64);
  const [x, y] = [10, Math.min(5, rows - 1)];
  await page.mouse.click(box.x + 56 + ((box.width - 68) * (x + 0.5)) / 64, box.y + 10 + ((box.height - 106) * (y + 0.5)) / rows);
  const tile = 64 * y + x;
  assert.equal(Number(await page.inputValue("#tile")), tile);
  assert.equal(await fact("#tile-facts", "live at its peak"), report.tiles.peak_bytes[tile]);
  assert.equal(await fact("#tile-facts", "exchange table"), report.tiles.table_bytes[tile]);
  assert.equal(await fact("#tile-facts", "kernel cycles of a call"), report.tiles.kernel_cycles[tile]);
  await checkSplit(tile);
  for (const [colour, figures] of [["table_bytes", report.tiles.table_bytes], ["kernel_cycles", report.tiles.kernel_cycles],
    ["fragments", report.tiles.messages.map((m, t) => m + report.tiles.windows[t])]]) {
    await page.selectOption("#colour", colour);
    assert.equal(await fact(".side", "most"), Math.max(...figures), colour);
    assert.equal(await fact(".side", "least"), Math.min(...figures), colour);
  }
  await checkColours();
  await page.locator("#floor-chart").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(Number(await page.inputValue("#tile")), tile + 1);
}

async function liveness() {
  await open("liveness");
  const tile = report.fullest.tile[report.fullest.bytes.indexOf(Math.max(...report.fullest.bytes))];
  for (const point of [0, Math.floor(points / 2), points - 1, report.tiles.peak_step[tile]]) {
    await page.click("#fullest");
    await setStep(point);
    const [list, alive] = live(tile, point);
    const taken = alive.map((i) => list.taken[i]);
    assert.equal(await fact("#live", "live"), sum(taken), `step ${point}`);
    assert.equal(await fact("#live", "standard"), sum(alive.filter((i) => !list.interleaved[i]).map((i) => list.taken[i])));
    const shown = await values("#live tbody td:nth-child(3) data");
    assert.deepEqual(shown, taken.sort((a, b) => b - a).slice(0, 400));
  }
  assert.equal(await fact("#live", "live"), report.tiles.peak_bytes[tile]);
}

async function memory() {
  await open("memory");
  for (const tile of [0, 3, report.tiles.list.length - 1]) {
    await page.fill("#tile", String(tile));
    await page.keyboard.press("Enter");
    await setStep(Math.floor(points / 3));
    const bytes = await values("#memory-table tbody td:nth-child(2) data");
    const from = await values("#memory-table tbody td:nth-child(1) data");
    assert.equal(sum(bytes), report.device.memory_end - report.device.memory_base, "memory has gaps or overlaps");
    for (let i = 1; i < from.length; ++i) assert.equal(from[i], from[i - 1] + bytes[i - 1]);
    await page.click("#tile-peak");
    assert.equal(await fact("#memory-table", "free"), report.tiles.free_bytes[tile]);
    assert.equal(await fact("#memory-table", "largest hole"), report.tiles.largest_hole_bytes[tile]);
  }
}

async function phases() {
  await open("phases");
  assert.deepEqual(await values("#phase-table tbody td:nth-child(8) data"), report.phases.exchange_cycles);
  assert.deepEqual(await values("#phase-table tbody td:nth-child(6) data"), report.phases.bound);
  assert.deepEqual(await values("#phase-table tbody td:nth-child(9) data"), report.phases.before_cycles);
  assert.equal(await fact("#view", "one call"), report.cycles);
  assert.equal(await fact("#view", "in exchange"), sum(report.phases.exchange_cycles));
  await page.selectOption("#order", "words");
  const words = report.phases.words.map((w, i) => w * report.phases.iterations[i]);
  assert.equal((await values("#phase-table tbody td:nth-child(1) data"))[0], words.indexOf(Math.max(...words)));
}

// From a phase to its operation, to the step, and to who sends what to whom.
async function follow() {
  await open("phases");
  const phase = Math.floor(report.phases.step.length / 2);
  await page.selectOption("#order", "program");
  const row = page.locator("#phase-table tbody tr").nth(phase);
  const operation = report.steps.paths[report.steps.path[report.phases.step[phase] - 1]];
  await row.locator("td:nth-child(2) button").click();
  assert.equal(await page.locator('#operation-table [aria-current="true"] td').first().innerText(), operation);
  await page.locator("#kernel-table button.link", { hasText: new RegExp(`^${phase}$`) }).click();  // and back to its exchange
  assert.equal(Number(await page.inputValue("#phase")), phase);
  await open("phases");
  await row.locator("td:nth-child(3) button").click();
  assert.equal(Number(await page.inputValue("#step")), report.phases.step[phase]);
  await open("phases");
  await page.locator("#phase-table tbody tr").nth(phase).locator("td:nth-child(1) button").focus();
  await page.keyboard.press("Enter");
  assert.equal(Number(await page.inputValue("#phase")), phase);
  assert.equal(await fact("#phase-facts", "horizon, cycles"), report.phases.horizon[phase]);
}

const operationOf = (phase) => report.steps.paths[report.steps.path[report.phases.step[Math.min(phase, report.phases.step.length - 1)] - 1]];

async function operations() {
  await open("operations");
  const all = await page.locator("#all-operations");
  if (await all.count()) await all.click();
  const k = report.kernels;
  const rows = (of) => k.names.map((name, i) => {
    const own = k.kernel.map((_, j) => j).filter((j) => k.kernel[j] === i && of(operationOf(k.phase[j])));
    return { name, calls: sum(own.map((j) => k.calls[j])), cycles: sum(own.map((j) => k.cycles[j])), macs: sum(own.map((j) => k.macs[j])) };
  }).filter((r) => r.calls > 0).sort((a, b) => b.cycles - a.cycles);
  const check = async (of) => {
    const want = rows(of);
    assert.deepEqual(await page.locator("#kernel-table tbody td:nth-child(1)").allInnerTexts(), want.map((r) => r.name));
    assert.deepEqual(await values("#kernel-table tbody td:nth-child(2) data"), want.map((r) => r.calls));
    assert.deepEqual(await values("#kernel-table tbody td:nth-child(3) data"), want.map((r) => r.cycles));
    assert.deepEqual((await values("#kernel-table tbody td:nth-child(6) data")).filter((x) => x > 0), want.map((r) => r.macs).filter((x) => x > 0));
  };
  await check(() => true);
  const listed = json.compile.cycles.operations;
  assert.deepEqual(await values("#operation-table tbody td:nth-child(2) data"), listed.map((o) => o.scheduled));
  assert.deepEqual(await values("#operation-table tbody td:nth-child(9) data"), listed.map((o) => o.macs));
  // Limits: useful multiply-adds at 128 (F8) or 64 (F16) a cycle on the tiles offered.
  const products = k.kernel.map((kernel, j) => [operationOf(k.phase[j]), k.names[kernel], k.macs[j]]).filter(([, name]) => name.startsWith("Gemm"));
  const limits = listed.map((o) => {
    const own = products.filter(([path]) => path === o.path);
    const executed = sum(own.map((p) => p[2]));
    return executed === 0 ? 0 : ((o.macs / executed) * sum(own.map(([, name, macs]) => macs / (name === "GemmF8" ? 128 : 64)))) / json.compile.target.tiles;
  });
  const shown = await values("#operation-table tbody td:nth-child(11) data");
  shown.forEach((x, i) => assert.ok(Math.abs(x - limits[i]) <= 1e-9 * limits[i], listed[i].path));
  assert.ok(Math.abs((await fact("#view", "arithmetic limit of its products")) - sum(limits)) < 1e-6 * sum(limits));
  const row = page.locator("#operation-table tbody tr").nth(3);
  await row.focus();
  await page.keyboard.press("Enter");
  await check((path) => path === listed[3].path);
}

// Words that each tile hears from each sender, summed up from the columns.
function heard(phase) {
  const x = report.exchange, rows = x.phases[phase];
  return rows.tile.flatMap((tile, i) => {
    const sources = x.sources[rows.sources[i]], words = x.words[rows.words[i]];
    return sources.map((source, w) => ({ tile, source, words: words[w] }));
  });
}

const wordsBy = (list, key) => Object.entries(list.reduce((a, w) => ({ ...a, [w[key]]: (a[w[key]] ?? 0) + w.words }), {}))
  .map(([tile, words]) => [Number(tile), words]).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
const tableWords = async (root) => {
  const tiles = await values(`${root} tbody td:nth-child(1) data`), words = await values(`${root} tbody td:nth-child(2) data`);
  return tiles.map((tile, i) => [tile, words[i]]);
};

async function exchange() {
  await open("exchange");
  for (const phase of [0, report.phases.step.length - 1, report.phases.exchange_cycles.indexOf(Math.max(...report.phases.exchange_cycles))]) {
    await page.locator("#phase").fill(String(phase));
    assert.equal(await fact("#phase-facts", "bound, words"), report.phases.bound[phase]);
    assert.equal(await fact("#phase-facts", "receive windows"), report.phases.windows[phase]);
    await page.click("#busiest");
    const tile = report.phases.bound_tile[phase];
    assert.equal(Number(await page.inputValue("#tile")), tile);
    const all = heard(phase);
    const [from, to] = [all.filter((w) => w.tile === tile), all.filter((w) => w.source === tile)];
    const rows = report.exchange.phases[phase];
    assert.equal(await fact("#exchange-tile", "words received"), sum(from.map((w) => w.words)));
    assert.equal(await fact("#exchange-tile", "words sent"), rows.sent[rows.tile.indexOf(tile)]);
    assert.deepEqual(await tableWords("#hears-from"), wordsBy(from, "source").slice(0, 200));
    assert.deepEqual(await tableWords("#tells"), wordsBy(to, "tile").slice(0, 200));
  }
  for (const picture of ["sent", "received", "events", "bytes", "partners"]) await page.selectOption("#picture", picture);
  await timeline();
}

// The longest window of the chosen tile as a bar: a click goes to its sender.
async function timeline() {
  const phase = Number(await page.inputValue("#phase")), tile = Number(await page.inputValue("#tile"));
  const x = report.exchange, rows = x.phases[phase], i = rows.tile.indexOf(tile);
  const [gaps, words, sources] = ["gaps", "words", "sources"].map((key) => x[key][rows[key][i]]);
  const longest = words.indexOf(Math.max(...words));
  const begin = sum(gaps.slice(0, longest + 1)) + sum(words.slice(0, longest));
  const box = await page.locator("#exchange-time").boundingBox();
  const left = 84 + ((box.width - 84 - 24) * (begin + words[longest] / 2)) / report.phases.horizon[phase];
  await page.locator("#exchange-time").click({ position: { x: left, y: 186 + 116 / 4 } });
  assert.equal(Number(await page.inputValue("#tile")), sources[longest]);
  await page.locator("#hears-from tbody tr, #tells tbody tr").first().focus();
  const partner = await value("#hears-from tbody td data, #tells tbody td data");
  await page.keyboard.press("Enter");
  assert.equal(Number(await page.inputValue("#tile")), partner);
}

// Figures of both reports and their differences, computed from the two JSONs.
async function compare() {
  await open("compare");
  const figures = async (label) => {
    const row = page.locator("#compare-summary tbody tr", { has: page.locator(`span:text-is("${label}")`) });
    return row.locator("data").evaluateAll((all) => all.map((x) => Number(x.getAttribute("value"))));
  };
  const pair = (of) => [of(json), of(other), of(json) - of(other)];
  assert.deepEqual(await figures("live bytes of the fullest tile"), pair((j) => Math.max(...j.report.tiles.peak_bytes)));
  assert.deepEqual(await figures("cycles of one call"), pair((j) => j.report.cycles));
  assert.deepEqual(await figures("largest exchange table"), pair((j) => Math.max(...j.report.tiles.table_bytes)));
  assert.deepEqual(await figures("words sent, static phases"), pair((j) => sum(j.report.tiles.words)));
  const cycles = (j) => new Map(j.compile.cycles.operations.map((o) => [o.path, o.scheduled]));
  const [mine, theirs] = [cycles(json), cycles(other)];
  const names = [...new Set([...mine.keys(), ...theirs.keys()])];
  assert.deepEqual(await page.locator("#compare-operations tbody td:nth-child(1)").allInnerTexts(), names);
  assert.deepEqual(await values("#compare-operations tbody td:nth-child(4) data"), names.map((n) => (mine.has(n) && theirs.has(n) ? mine.get(n) - theirs.get(n) : 0)));
  await page.selectOption("#contrast", "table_bytes");
  const differences = report.tiles.table_bytes.map((b, t) => b - other.report.tiles.table_bytes[t]);
  assert.equal(Number(await page.locator("#compare-plan ~ .note data").first().getAttribute("value")), differences.filter((d) => d > 0).length);
  await page.locator("#compare-plan").focus();
  await page.keyboard.press("ArrowDown");
  const tile = Number(await page.inputValue("#tile"));
  const row = page.locator("#compare-tile tbody tr", { has: page.locator('span:text-is("exchange table")') });
  assert.equal(Number(await row.locator("td:nth-child(4) data").getAttribute("value")), differences[tile]);
  const peak = (j, name) => Math.max(...j.report.fullest.bytes.filter((_, p) => p > 0 && j.report.steps.paths[j.report.steps.path[p - 1]] === name));
  const shown = await page.locator("#compare-live-table tbody tr").evaluateAll((rows) => rows.map((r) => [r.cells[0].innerText, Number(r.cells[3].querySelector("data").getAttribute("value"))]));
  for (const [name, difference] of shown.filter(([n]) => mine.has(n) && theirs.has(n))) assert.equal(difference, peak(json, name) - peak(other, name), name);
}

async function units() {
  await open("summary");
  await page.getByRole("button", { name: "KiB" }).click();
  assert.match(await page.locator("#peak-bytes").innerText(), /^[\d,.]+ KiB$/);
  assert.equal(await value("#peak-bytes"), json.compile.memory.peak_tensor_bytes);
  await page.reload();
  assert.match(await page.locator("#peak-bytes").innerText(), /KiB$/);  // the address keeps the choice
  await page.getByRole("button", { name: "B", exact: true }).click();
}

async function keyboard() {
  await page.locator("#tab-summary").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator("#tab-floor").getAttribute("aria-selected"), "true");
  await page.locator("#step").focus();
  const before = Number(await page.inputValue("#step"));
  await page.keyboard.press(before > 0 ? "ArrowLeft" : "ArrowRight");
  assert.equal(Number(await page.inputValue("#step")), before > 0 ? before - 1 : 1);
}

async function screenshots() {
  const views = ["summary", "floor", "liveness", "memory", "phases", "exchange", "operations", "compare"];
  await picture(page, pictures, views.map((view) => ({ name: view, url: `${url}#view=${view}` })));
}

await load();
for (const part of [summary, floor, liveness, memory, phases, follow, operations, exchange, compare, units, keyboard, screenshots]) {
  await part();
  console.log(`${part.name}: good`);
}
await browser.close();
assert.deepEqual(problems, []);
