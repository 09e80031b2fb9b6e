import { phases, tileCount } from "../data.js";
import { el, facts, figure, table } from "../dom.js";
import { count, percent, ratio, short } from "../format.js";
import { byKernel, callCycles, limit, operations, usedTiles } from "../operations.js";
import { change, state } from "../state.js";
import { axis, css, escape, legend, makeChart, series, tooltip } from "../theme.js";

export const title = "Operations";

const parts = [
  { key: "kernel", label: "kernels, busiest tile", color: () => series.kernel },
  { key: "setup", label: "row setup, program words, waiting", color: () => series.setup },
  { key: "exchange", label: "exchange", color: () => series.exchange },
];

function options() {
  const hint = (items) => {
    const o = operations[items[0].dataIndex];
    return `<b>${escape(o.name)}</b><br>` + parts.map((p) => `${p.label} <b>${count(o[p.key])}</b>`).join("<br>") +
      (o.limit === null ? "" : `<br>arithmetic limit <b>${count(o.limit)}</b>`);
  };
  return {
    animation: false,
    grid: { left: 290, right: 32, top: 40, bottom: 40 },
    legend: legend({ itemHeight: 10, left: 290, data: [...parts.map((p) => p.label), ...(limit === null ? [] : [{ name: "arithmetic limit", icon: "diamond" }])] }),
    tooltip: tooltip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: hint }),
    xAxis: axis({ type: "value", name: "cycles of one call", nameGap: 24, axisLabel: { color: css("--muted"), formatter: short },
      splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    yAxis: axis({ type: "category", inverse: true, data: operations.map((o) => o.name), triggerEvent: true,
      axisLabel: { color: css("--ink"), fontSize: 12, interval: 0, width: 270, overflow: "truncate" } }),
    series: [
      ...parts.map((p) => ({ name: p.label, type: "bar", stack: "cycles", barCategoryGap: "24%", itemStyle: { color: p.color() },
        data: operations.map((o) => o[p.key]), emphasis: { focus: "none" } })),
      ...(limit === null ? [] : [{ name: "arithmetic limit", type: "scatter", symbol: "diamond", symbolSize: 11, z: 5,
        itemStyle: { color: css("--ink"), borderColor: css("--panel"), borderWidth: 1 },
        data: operations.flatMap((o, i) => (o.limit === null ? [] : [[o.limit, i]])) }]),
    ],
  };
}

function operationTable() {
  const n = (title, key, note) => ({ title, number: true, note, value: (o) => o[key], text: (o) => count(o[key]) });
  const maybe = (title, text, note) => ({ title, number: true, note, text });
  return table("Operations, in program order", [
    { title: "operation", wrap: true, text: (o) => o.name },
    n("cycles", "cycles", "of one call"),
    maybe("share", (o) => percent(o.cycles, callCycles)),
    n("estimated", "estimated", "by the planner"),
    n("kernels, busiest", "kernel"), n("setup", "setup", "row setup, program words, waiting for the last tile"),
    n("in exchange", "exchange"), { title: "phases", number: true, value: (o) => o.phases.length, text: (o) => count(o.phases.length) },
    { title: "useful MACs", number: true, note: "multiply-adds by the shapes of the graph", value: (o) => o.useful || null, text: (o) => count(o.useful || null) },
    maybe("of executed", (o) => (o.useful ? percent(o.useful, o.executed) : "–"), "useful over executed multiply-adds; the rest is padding of panels"),
    { title: "limit", number: true, note: "cycles of the useful multiply-adds at the peak rate on all tiles", value: (o) => o.limit, text: (o) => count(o.limit) },
    maybe("over limit", (o) => (o.limit ? ratio(o.cycles / o.limit) : "–"), "cycles over limit"),
  ], operations, { limit: 1000, marked: (o) => o.name === state.operation,
    onPick: (o) => change({ operation: o.name === state.operation ? "" : o.name }) });
}

function phaseLinks(operation) {
  const own = phases.filter((p) => p.operation === operation);
  return el("p", {}, "Phases: ", own.length === 0 ? "none" : own.flatMap((p, i) => [i > 0 ? ", " : "",
    el("button", { type: "button", class: "link", click: () => change({ view: "exchange", phase: p.index }) }, figure(p.index, String(p.index)))]));
}

function kernelTable() {
  const chosen = operations.find((o) => o.name === state.operation);
  const rows = byKernel(chosen?.name);
  const all = rows.reduce((a, k) => a + k.cycles, 0);
  const n = (title, value, note) => ({ title, number: true, note, value, text: (k) => count(value(k)) });
  return [
    el("div", { class: "bar" }, el("h2", {}, chosen ? `Kernels of ${chosen.name}` : "Kernels of all operations"),
      chosen ? el("button", { type: "button", id: "all-operations", click: () => change({ operation: "" }) }, "All operations") : ""),
    chosen ? phaseLinks(chosen.name) : el("p", { class: "muted" }, "Choose an operation above to see its own."),
    table(`Calls and cycles of one call, over all ${count(tileCount)} tiles`, [
      { title: "kernel", text: (k) => k.name },
      n("calls", (k) => k.calls),
      n("cycles", (k) => k.cycles),
      { title: "share", number: true, text: (k) => percent(k.cycles, all) },
      n("mean of a tile", (k) => k.cycles / usedTiles, "cycles over the tiles offered to the planner"),
      { title: "executed MACs", number: true, note: "multiply-adds, padding in", value: (k) => (k.peak ? k.macs : null), text: (k) => (k.peak ? count(k.macs) : "–") },
      { title: "MACs per cycle", number: true, text: (k) => (k.peak ? (k.macs / k.cycles).toFixed(1) : "–") },
      { title: "of the peak", number: true, text: (k) => (k.peak ? `${percent(k.macs / k.cycles, k.peak)} of ${k.peak}` : "–") },
    ], rows, { quiet: true }),
  ];
}

export function mount(root) {
  const node = el("div", { class: "chart", id: "operation-chart", style: `height:${Math.max(220, 90 + 22 * operations.length)}px` });
  const list = el("section", { class: "panel", id: "operation-table" });
  const kinds = el("section", { class: "panel", id: "kernel-table" });
  root.append(el("section", { class: "panel" }, el("h2", {}, "Cycles by operation"), node,
    facts([["one call", callCycles, count(callCycles)],
      ["arithmetic limit of its products", limit, count(limit)],
      ["call over limit", undefined, limit ? ratio(callCycles / limit) : "–"]], "facts row"),
    el("p", { class: "note" }, `The limit is what the useful multiply-adds take when every one of ${count(usedTiles)} tiles works at the peak of its AMP unit: `,
      "128 a cycle in F8, 64 in F16. ",
      limit === null ? "This package does not tell useful multiply-adds. " : "",
      "Useful work is known of products only: what other kernels spend on padding cannot be told from a package. Parts add up to the cycles of a call.")),
  list, kinds);
  const chart = makeChart(node, "Cycles of every operation: kernels, setup and exchange, with the arithmetic limit of its products");
  chart.on("click", (e) => change({ operation: e.targetType === "axisLabel" ? e.value : operations[e.componentSubType === "scatter" ? e.data[1] : e.dataIndex].name }));
  chart.setOption(options(), true);
  const show = () => {
    list.replaceChildren(operationTable());
    kinds.replaceChildren(...kernelTable());
  };
  show();
  list.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
  return show;
}
