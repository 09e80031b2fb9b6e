import { compile, device, error, peakPoint, peakTile, report, stepName, tileCount, tiles } from "../data.js";
import { el, facts, path, table } from "../dom.js";
import { bytes, count, hex, percent, ratio } from "../format.js";
import { callCycles, limit, operations } from "../operations.js";
import { change } from "../state.js";

export const title = "Summary";

function tileLink(tile, point) {
  return el("button", { type: "button", class: "link", click: () => change({ view: "memory", tile, point }) },
    `tile ${tile}, step ${point}`);
}

function memoryFacts() {
  const m = compile?.memory;
  const peak = report.fullest.bytes[peakPoint];
  const budget = m?.budget_bytes;
  const bar = el("div", { class: "meter", role: "img",
    "aria-label": `${percent(peak, budget)} of the bytes for tensors are live at the peak` },
    el("span", { style: `width:${budget ? Math.min(100, (100 * peak) / budget) : 0}%` }));
  return el("section", { class: "panel" }, el("h2", {}, "Memory of the fullest tile"),
    el("p", { class: "big" }, el("data", { value: peak, id: "peak-bytes" }, bytes(peak)), " ",
      el("span", { class: "muted" }, budget ? `live, ${percent(peak, budget)} of ${bytes(budget)} for tensors` : "live")),
    budget ? bar : null,
    facts([
      ["where", undefined, tileLink(peakTile, peakPoint)],
      ["operation", undefined, path(stepName(peakPoint))],
      ["asks for standard memory", tiles.peak_standard_bytes[peakTile], bytes(tiles.peak_standard_bytes[peakTile])],
      ["asks for interleaved memory", tiles.peak_interleaved_bytes[peakTile],
        bytes(tiles.peak_interleaved_bytes[peakTile])],
      ["free at that step", tiles.free_bytes[peakTile], bytes(tiles.free_bytes[peakTile])],
      ["largest hole", tiles.largest_hole_bytes[peakTile], bytes(tiles.largest_hole_bytes[peakTile])],
      ["code and exchange table, reserved", m?.reserve_bytes, bytes(m?.reserve_bytes)],
      ["planner’s estimate of the peak", m?.estimated_tensor_bytes, bytes(m?.estimated_tensor_bytes)],
      ["resident parameters, all tiles", m?.parameter_bytes_total, bytes(m?.parameter_bytes_total)],
    ]));
}

function exchangeFacts() {
  const e = compile?.exchange;
  return el("section", { class: "panel" }, el("h2", {}, "Exchange"),
    facts([
      ["largest table of a tile", e?.table_bytes_max, `${bytes(e?.table_bytes_max)} of ${bytes(e?.table_budget_bytes)}`],
      ["mean table", e?.table_bytes_mean, bytes(e?.table_bytes_mean)],
      ["static phases", report.phases.step.length, count(report.phases.step.length)],
      ["of them with relays", e?.relay_phases, count(e?.relay_phases)],
      ["fragments of the busiest tile", e?.fragments_max, `${count(e?.fragments_max)} of ${count(e?.fragment_limit)}`],
      ["phase length over its bound, mean", e?.horizon_over_bound_mean, ratio(e?.horizon_over_bound_mean)],
      ["phase length over its bound, worst", e?.horizon_over_bound_worst, ratio(e?.horizon_over_bound_worst)],
    ]));
}

function cycleFacts() {
  const c = compile?.cycles;
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const exchange = sum(report.phases.exchange_cycles), kernels = sum(report.phases.kernel_cycles_max) + report.kernel_cycles_after;
  const part = (cycles) => `${count(cycles)} (${percent(cycles, callCycles)})`;
  const ms = `${((1e3 * callCycles) / device.clock_hz).toFixed(2)} ms`;
  return el("section", { class: "panel" }, el("h2", {}, "Cycles of one call"),
    el("p", { class: "big" }, el("data", { value: callCycles, id: "call-cycles" }, count(callCycles)), " ",
      el("span", { class: "muted" }, `scheduled, ${ms} at ${device.clock_hz / 1e9} GHz`)),
    facts([
      ["in exchange phases", exchange, part(exchange)],
      ["kernels of the busiest tile between barriers", kernels, part(kernels)],
      ["row setup, program words, waiting", callCycles - exchange - kernels, part(callCycles - exchange - kernels)],
      ["kernels, mean over the tiles", sum(tiles.kernel_cycles) / tileCount,
        count(sum(tiles.kernel_cycles) / tileCount)],
      ["planner’s estimate", c?.estimated, count(c?.estimated)],
      ["arithmetic limit of the products", limit, limit ? `${count(limit)} (call: ${ratio(callCycles / limit)} times that)` : "–"],
    ]),
    el("p", { class: "note" }, "Modelled, not measured on a device. Host transfers are not in it."));
}

function packageFacts() {
  const p = report.package;
  return el("section", { class: "panel" }, el("h2", {}, "Package and device"),
    facts([
      ["file", undefined, el("span", { class: "path" }, p.file || "not written")],
      ["size", p.bytes, p.file ? bytes(p.bytes) : "–"],
      ["parameters", compile?.model?.parameters, count(compile?.model?.parameters)],
      ["device", undefined, device.name],
      ["tiles with a program", tileCount, count(tileCount)],
      ["tiles offered to the planner", compile?.target?.tiles, count(compile?.target?.tiles)],
      ["memory of a tile", device.memory_end - device.memory_base,
        `${bytes(device.memory_end - device.memory_base)} from ${hex(device.memory_base)}`],
      ["interleaved from", device.interleaved_base, hex(device.interleaved_base)],
    ]));
}

function topOperations() {
  const rows = [...operations].sort((a, b) => b.cycles - a.cycles);
  const n = (title, key) => ({ title, number: true, value: (o) => o[key], text: (o) => count(o[key]) });
  return table("Operations that take most cycles", [
    { title: "operation", wrap: true, text: (o) => o.name, to: (o) => change({ view: "operations", operation: o.name }) },
    n("cycles", "cycles"),
    { title: "share", number: true, text: (o) => percent(o.cycles, callCycles) },
    n("kernels, busiest", "kernel"), n("in exchange", "exchange"), n("estimated", "estimated"), n("limit", "limit"),
  ], rows, { limit: 12 });
}

// Why a model does not fit, as in the program's message.
function refusal() {
  const d = error;
  const unit = d.kind === "fragments" ? count : bytes;
  const at = d.physical_tile === undefined ? undefined : tileLink(d.physical_tile, d.step);
  return el("section", { class: "panel alert", id: "refusal", role: "alert" },
    el("h2", {}, `Does not fit: ${d.kind}`),
    el("p", { class: "big" }, el("data", { value: d.missing_bytes, id: "missing-bytes" }, unit(d.missing_bytes)), " ",
      el("span", { class: "muted" }, `missing: ${unit(d.needed_bytes)} needed, ${unit(d.available_bytes)} available` +
        (d.ranges?.length ? ` in ${d.ranges.map((r) => `${hex(r.begin)}–${hex(r.end - 1)}`).join(" and ")}` : ""))),
    el("p", {}, d.cause),
    facts([
      ["where", undefined, at],
      ["operation", undefined, path(d.step_path)],
      ["memory", undefined, d.memory_class],
      ["largest hole", d.largest_hole_bytes, d.largest_hole_bytes ? bytes(d.largest_hole_bytes) : "–"],
      ["tiles where the same happens", d.failing_tiles, count(d.failing_tiles)],
      ...d.parts.map((p) => [p.what, p.amount, unit(p.amount)]),
    ]),
    table("Alive there, largest first", [
      { title: "tensor", wrap: true, text: (t) => t.tensor },
      { title: "role", text: (t) => t.role },
      { title: "shape", text: (t) => `${t.shape} ${t.precision}` },
      { title: "bytes", number: true, value: (t) => t.bytes, text: (t) => bytes(t.bytes) },
      { title: "steps", number: true, text: (t) => `${t.first_step}–${t.last_step < 0 ? "end" : t.last_step}` },
    ], d.live, { quiet: true }),
    ...(d.suggestions.length ? [el("h3", {}, "What would help"), el("ul", {}, d.suggestions.map((s) =>
      el("li", {}, s.change, s.saves_bytes ? `: saves about ${bytes(s.saves_bytes)}` : "")))] : []));
}

export function mount(root) {
  if (error) root.append(refusal());
  const timed = report.phases.step.length > 0;
  root.append(el("div", { class: "columns" }, memoryFacts(), ...(timed ? [cycleFacts(), exchangeFacts()] : []), packageFacts()));
  if (timed)
    root.append(el("section", { class: "panel" }, topOperations(),
      el("button", { type: "button", class: "link", click: () => change({ view: "operations", operation: "" }) }, "All operations")));
  return () => {};
}
