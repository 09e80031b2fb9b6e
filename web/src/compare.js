// Two reports side by side: "this" is the report of the page, "other" the one given with --compare. Differences are
// this minus other.
import { main, other } from "./data.js";
import { operationsOf } from "./operations.js";

export function nameOf(data) {
  const m = data.compile?.model;
  if (!m) return "package without a summary";
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : word === "batch" ? "" : "s"}`;
  return `${m.name} · ${many(m.layers, "layer")} · batch ${m.batch} · ${data.compile.precision} · policy ${data.compile.policy}`;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const work = new Map([main, other].filter(Boolean).map((data) => [data, operationsOf(data)]));

// Summary figures: label, kind (bytes, count or ratio), value of a report; undefined where it does not tell.
const figures = [
  ["live bytes of the fullest tile", "bytes", (d) => d.report.fullest.bytes[d.peakPoint]],
  ["free there at that step", "bytes", (d) => d.tiles.free_bytes[d.peakTile]],
  ["largest hole there", "bytes", (d) => d.tiles.largest_hole_bytes[d.peakTile]],
  ["bytes that tensors may use", "bytes", (d) => d.compile?.memory?.budget_bytes],
  ["resident parameters, all tiles", "bytes", (d) => d.compile?.memory?.parameter_bytes_total],
  ["largest exchange table", "bytes", (d) => Math.max(...d.tiles.table_bytes)],
  ["mean exchange table", "bytes", (d) => sum(d.tiles.table_bytes) / d.tileCount],
  ["largest program", "bytes", (d) => Math.max(...d.tiles.program_bytes)],
  ["package", "bytes", (d) => (d.report.package.file ? d.report.package.bytes : undefined)],
  ["cycles of one call", "count", (d) => work.get(d).callCycles],
  ["of it in exchange", "count", (d) => sum(d.report.phases.exchange_cycles)],
  ["of it kernels of the busiest tile", "count", (d) => sum(d.report.phases.kernel_cycles_max) + (d.report.kernel_cycles_after ?? 0)],
  ["kernels, mean over the tiles", "count", (d) => sum(d.tiles.kernel_cycles) / d.tileCount],
  ["arithmetic limit of the products", "count", (d) => work.get(d).limit ?? undefined],
  ["exchange phases", "count", (d) => d.phases.length],
  ["words sent, static phases", "count", (d) => sum(d.tiles.words)],
  ["messages sent, static phases", "count", (d) => sum(d.tiles.messages)],
  ["receive windows, static phases", "count", (d) => sum(d.tiles.windows)],
  ["phase length over its bound, mean", "ratio", (d) => d.compile?.exchange?.horizon_over_bound_mean],
  ["phase length over its bound, worst", "ratio", (d) => d.compile?.exchange?.horizon_over_bound_worst],
];
const number = (x) => (Number.isFinite(x) ? x : null);
const difference = (a, b) => (a === null || b === null ? null : a - b);
const pair = (a, b) => ({ mine: number(a), theirs: number(b), difference: difference(number(a), number(b)) });

export const summary = () => figures.map(([label, kind, of]) => ({ label, kind, ...pair(of(main), of(other)) }));

// Cycles of each operation, those of this report first.
export function operationPairs() {
  const [mine, theirs] = [main, other].map((d) => new Map(work.get(d).operations.map((o) => [o.name, o])));
  return [...new Set([...mine.keys(), ...theirs.keys()])].map((name) => {
    const a = mine.get(name), b = theirs.get(name);
    const part = (key) => pair(a?.[key], b?.[key]);
    return { name, cycles: part("cycles"), kernel: part("kernel"), exchange: part("exchange") };
  });
}

// Most live bytes of any tile during each operation.
function peaks(data) {
  const out = new Map();
  data.report.fullest.bytes.forEach((bytes, point) => {
    const name = data.stepName(point);
    out.set(name, Math.max(out.get(name) ?? 0, bytes));
  });
  return out;
}

export function livePairs() {
  const mine = peaks(main), theirs = peaks(other);
  return [...new Set([...mine.keys(), ...theirs.keys()])].map((name) => ({ name, ...pair(mine.get(name), theirs.get(name)) }));
}

// Both programs have the same steps, so that points mean the same.
export const sameSteps = () => main.points === other.points &&
  Array.from({ length: main.points }, (_, p) => main.stepName(p) === other.stepName(p)).every(Boolean);

// Figures of a tile that both reports have, by name of the column.
export const tileFigures = {
  peak_bytes: { label: "live bytes at its own peak", bytes: true },
  live: { label: "live bytes at the chosen step", bytes: true, of: (d, t, point) => d.live(t).total[point] },
  resident_bytes: { label: "resident tensors", bytes: true },
  free_bytes: { label: "free at its peak", bytes: true },
  largest_hole_bytes: { label: "largest hole at its peak", bytes: true },
  table_bytes: { label: "exchange table", bytes: true },
  program_bytes: { label: "program", bytes: true },
  words: { label: "words sent" },
  messages: { label: "messages sent" },
  windows: { label: "receive windows" },
  kernel_cycles: { label: "kernel cycles of a call" },
  row_cycles: { label: "cycles of its rows" },
};

export function tilePair(key, tile, point) {
  const f = tileFigures[key];
  const of = (d) => (tile >= d.tileCount ? null : f.of ? (point < d.points ? f.of(d, tile, point) : null) : d.tiles[key][tile]);
  return pair(of(main), of(other));
}

export const tilesOfBoth = other ? Math.min(main.tileCount, other.tileCount) : 0;
