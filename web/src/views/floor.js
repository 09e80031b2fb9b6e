import { argMax, live, points, stepName, tileCount, tiles } from "../data.js";
import { el, facts, path, table } from "../dom.js";
import { amounts, makeFloor } from "../floorplan.js";
import { byteUnit, bytes, count, short, shortBytes } from "../format.js";
import { change, state } from "../state.js";

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
  const note = el("p", { class: "note" });
  root.append(el("div", { class: "split" },
    el("section", { class: "panel" }, el("div", { class: "bar" }, heading, picker()), node, note), side));
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
  };
  show();
  return show;
}
