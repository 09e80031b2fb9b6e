import { argMax, device, live, points, split, stepName, tileCount, tiles } from "../data.js";
import { el, facts, path, table } from "../dom.js";
import { amounts, makeFloor } from "../floorplan.js";
import { byteUnit, bytes, count, percent, short, shortBytes } from "../format.js";
import { change, state } from "../state.js";
import { classes } from "../theme.js";

export const title = "Floor plan";

const measures = {
  peak_bytes: { label: "Live bytes at the tile’s own peak", bytes: true, of: (t) => tiles.peak_bytes[t] },
  live: { label: "Live bytes at the chosen step", bytes: true, of: (t) => live(t).total[state.point], step: true },
  table_bytes: { label: "Exchange table", bytes: true, of: (t) => tiles.table_bytes[t] },
  fragments: { label: "Messages sent and receive windows", unit: "of the static phases",
    of: (t) => tiles.messages[t] + tiles.windows[t] },
  kernel_cycles: { label: "Kernel cycles", unit: "cycles of one call", of: (t) => tiles.kernel_cycles[t] },
  row_cycles: { label: "Cycles of the tile’s own exchange rows", unit: "cycles of one call", of: (t) => tiles.row_cycles[t] },
  free_bytes: { label: "Free bytes at the tile’s peak", bytes: true, of: (t) => tiles.free_bytes[t] },
  largest_hole_bytes: { label: "Largest hole at the tile’s peak", bytes: true, of: (t) => tiles.largest_hole_bytes[t] },
};

const measure = () => measures[state.colour] ?? measures.peak_bytes;
const text = (m, n) => (m.bytes ? bytes(n) : count(n));

function picker() {
  const select = el("select", { id: "colour", change: (e) => change({ colour: e.target.value }) },
    Object.entries(measures).map(([key, m]) =>
      el("option", { value: key, selected: measure() === m }, m.label)));
  return el("div", { class: "field" }, el("label", { for: "colour" }, "Colour"), select);
}

function options(values) {
  const m = measure();
  let low = Infinity, high = -Infinity;
  for (const v of values) low = Math.min(low, v), high = Math.max(high, v);
  return amounts(values, { min: low, max: high, ends: [text(m, low), text(m, high)], label: (v) => (m.bytes ? shortBytes(v) : short(v)) },
    (t) => `tile ${t} · logical ${tiles.logical[t]}<br><b>${text(m, values[t])}</b>`);
}

function details() {
  const t = state.tile;
  const at = live(t).total[state.point];
  return el("section", { class: "panel", id: "tile-facts", "aria-live": "polite" },
    el("h2", {}, `Tile ${t}`), el("p", { class: "muted" },
      `logical ${tiles.logical[t]}; fabric row ${t >> 6}, column ${(t >> 2) & 15}`),
    facts([
      ["live at the chosen step", at, bytes(at)],
      ["live at its peak", tiles.peak_bytes[t], bytes(tiles.peak_bytes[t])],
      ["its peak is at step", tiles.peak_step[t], String(tiles.peak_step[t])],
      ["there runs", undefined, path(stepName(tiles.peak_step[t]))],
      ["resident tensors", tiles.resident_bytes[t], bytes(tiles.resident_bytes[t])],
      ["free at its peak", tiles.free_bytes[t], bytes(tiles.free_bytes[t])],
      ["holes, largest", tiles.largest_hole_bytes[t], `${tiles.holes[t]}, ${bytes(tiles.largest_hole_bytes[t])}`],
      ["exchange table", tiles.table_bytes[t], bytes(tiles.table_bytes[t])],
      ["program", tiles.program_bytes[t], bytes(tiles.program_bytes[t])],
      ["messages sent", tiles.messages[t], count(tiles.messages[t])],
      ["words sent", tiles.words[t], count(tiles.words[t])],
      ["receive windows", tiles.windows[t], count(tiles.windows[t])],
      ["kernel cycles of a call", tiles.kernel_cycles[t], count(tiles.kernel_cycles[t])],
      ["cycles of its rows", tiles.row_cycles[t], count(tiles.row_cycles[t])],
    ]),
    el("button", { type: "button", class: "link", click: () => change({ view: "memory", point: tiles.peak_step[t] }) },
      "Address map of this tile"));
}

// Every byte of the tile at the chosen step.
function bytesByClass() {
  const t = state.tile, p = state.point;
  const parts = split(t, p), all = device.memory_end - device.memory_base;
  const bar = el("div", { class: "meter parts", role: "img", "aria-label": "bytes of the tile by class" }, Object.entries(classes).map(([key, c]) =>
    el("span", { style: `width:${(100 * parts[key]) / all}%;background:${c.color}`, title: `${c.label}: ${bytes(parts[key])}` })));
  const row = ([key, c]) => el("div", {}, el("dt", {}, el("span", { class: `swatch ${key === "free" ? "hole" : ""}`, style: `background:${c.color}` }), c.label),
    el("dd", {}, el("data", { value: parts[key] }, bytes(parts[key])), " ", el("span", { class: "muted share" }, percent(parts[key], all))));
  const line = (term, n) => el("div", {}, el("dt", {}, term), el("dd", {}, el("data", { value: n }, bytes(n))));
  return el("section", { class: "panel", id: "tile-bytes" }, el("h2", {}, `Bytes of tile ${t} at step ${p}`), bar,
    el("dl", { class: "facts" }, Object.entries(classes).map(row), line("all", all),
      line("live, asking for standard memory", live(t).standard[p]), line("live, asking for interleaved memory", live(t).interleaved[p])));
}

function ranking(values) {
  const m = measure();
  const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a]);
  const sorted = Float64Array.from(values).sort();
  const middle = sorted[Math.floor(sorted.length / 2)];
  const mean = sorted.reduce((a, b) => a + b, 0) / sorted.length;
  return el("section", { class: "panel" }, el("h2", {}, m.label),
    facts([["most", sorted.at(-1), text(m, sorted.at(-1))], ["median", middle, text(m, middle)],
      ["mean", mean, text(m, mean)], ["least", sorted[0], text(m, sorted[0])]]),
    table("Tiles with most", [
      { title: "tile", number: true, value: (t) => t, text: (t) => String(t) },
      { title: "logical", number: true, text: (t) => String(tiles.logical[t]) },
      { title: m.bytes ? "bytes" : "number", number: true, value: (t) => values[t], text: (t) => text(m, values[t]) },
    ], order, { limit: 10, quiet: true, marked: (t) => t === state.tile, onPick: (tile) => change({ tile }) }));
}

export function mount(root) {
  const node = el("div", { class: "chart floor", tabindex: "0", id: "floor-chart" });
  const side = el("div", { class: "side" });
  const heading = el("h2", {});
  const below = el("div", {});
  const note = el("p", { class: "note" });
  root.append(el("div", { class: "split" },
    el("section", { class: "panel" }, el("div", { class: "bar" }, heading, picker()), node, note, below), side));
  const chart = makeFloor(node, "Floor plan: one cell for each tile, coloured by the chosen figure");
  const show = () => {
    const m = measure();
    const values = Array.from({ length: tileCount }, (_, t) => m.of(t));
    heading.textContent = `${m.label}${m.bytes ? ` (${byteUnit()})` : `, ${m.unit}`}`;
    note.textContent = (m.step ? `At step ${state.point} of ${points - 1}. ` : "") +
      "Click a tile, or move with the arrow keys while the plan has the focus. " +
      `The brightest cell is tile ${argMax(values)}.`;
    chart.setOption(options(values), true);
    side.replaceChildren(details(), ranking(values));
    below.replaceChildren(bytesByClass());
  };
  show();
  return show;
}
