import { compile, operations, phases, report } from "../data.js";
import { el, facts, figure, table } from "../dom.js";
import { bytes, count, percent, ratio, short } from "../format.js";
import { change, state } from "../state.js";
import { axis, css, escape, legend, makeChart, series, tooltip } from "../theme.js";

export const title = "Phases";

const orders = {
  program: { label: "program order", sort: () => 0 },
  cycles: { label: "cycles", sort: (a, b) => total(b) - total(a) },
  words: { label: "words sent", sort: (a, b) => b.words * b.iterations - a.words * a.iterations },
  rows: { label: "row bytes", sort: (a, b) => b.row_bytes_max - a.row_bytes_max },
};
const total = (p) => p.exchange_cycles + p.kernel_cycles_max;

function options(rows) {
  const bar = (name, color, value) => ({ name, type: "bar", stack: "cycles", barCategoryGap: "8%", itemStyle: { color },
    large: false, data: rows.map(value), emphasis: { focus: "none" } });
  return {
    animation: false,
    grid: { left: 72, right: 24, top: 44, bottom: 84 },
    legend: legend({ itemHeight: 10 }),
    tooltip: tooltip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: (items) => {
      const p = rows[items[0].dataIndex];
      return `phase ${p.index} · ${escape(p.operation)}${p.iterations > 1 ? ` · × ${p.iterations}` : ""}<br>` +
        items.map((i) => `${i.marker}${escape(i.seriesName)} <b>${count(i.data)}</b>`).join("<br>");
    } }),
    xAxis: axis({ type: "category", data: rows.map((p) => p.index), name: `exchange phase, ${orders[state.order].label}`, nameGap: 26 }),
    yAxis: axis({ type: "value", name: "cycles of one call", nameGap: 54, axisLabel: { color: css("--muted"), formatter: short },
      splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    dataZoom: [{ type: "slider", height: 20, bottom: 8, borderColor: css("--line-strong"), textStyle: { color: css("--muted") },
      brushSelect: false, showDataShadow: false }],
    series: [bar("kernels before it, busiest tile", series.kernel, (p) => p.kernel_cycles_max),
      bar("exchange", series.exchange, (p) => p.exchange_cycles)],
  };
}

function phaseTable(rows) {
  const n = (title, key, note) => ({ title, number: true, note, value: (p) => p[key], text: (p) => count(p[key]) });
  return table("Exchange phases", [
    { ...n("phase", "index", "who sends what to whom"), to: (p) => change({ view: "exchange", phase: p.index }) },
    { title: "operation", wrap: true, text: (p) => p.operation, to: (p) => chooseOperation(p.operation) },
    { ...n("step", "step", "live bytes there"), to: (p) => change({ view: "liveness", phase: p.index }) },
    n("times", "iterations"),
    n("horizon", "horizon", "cycles of the longest row"),
    n("bound", "bound", "most words that one tile sends or receives"),
    { title: "over bound", number: true, text: (p) => (p.bound > 0 ? ratio(p.horizon / p.bound) : "–") },
    n("exchange cycles", "exchange_cycles", "(horizon + phase constant) × times"),
    n("kernels, busiest", "kernel_cycles_max", "cycles between the phase before and this one, all times"),
    { title: "kernels, mean", number: true, value: (p) => p.kernel_cycles_mean, text: (p) => count(p.kernel_cycles_mean) },
    n("tiles", "tiles"),
    n("messages", "messages"),
    n("words sent", "words"),
    { title: "largest row", number: true, value: (p) => p.row_bytes_max, text: (p) => bytes(p.row_bytes_max) },
  ], rows, { limit: 1000, marked: (p) => p.index === state.phase });
}

function operationTable() {
  const n = (title, key) => ({ title, number: true, value: (o) => o[key], text: (o) => count(o[key]) });
  return table("Operations, in program order", [
    { title: "operation", wrap: true, text: (o) => o.name },
    n("phases", "phases"), n("scheduled cycles", "scheduled"),
    { title: "share", number: true, text: (o) => percent(o.scheduled, compile?.cycles?.scheduled) },
    n("estimated", "estimated"), n("in exchange", "exchange"), n("kernels, busiest", "kernel"), n("words sent", "words"),
  ], operations, { limit: 1000, marked: (o) => o.name === state.operation });
}

function chooseOperation(operation) {
  change({ operation });
  document.querySelector('#operation-table [aria-current="true"]')?.scrollIntoView({ block: "center" });
}

export function mount(root) {
  const select = el("select", { id: "order", change: (e) => change({ order: e.target.value }) },
    Object.entries(orders).map(([key, o]) => el("option", { value: key, selected: state.order === key }, o.label)));
  const node = el("div", { class: "chart", id: "phase-chart" });
  const above = el("section", { class: "panel", id: "operation-table" });
  const below = el("section", { class: "panel", id: "phase-table" });
  const exchange = report.phases.exchange_cycles.reduce((a, b) => a + b, 0);
  root.append(el("section", { class: "panel" },
    el("div", { class: "bar" }, el("h2", {}, "Cycles by exchange phase"),
      el("div", { class: "field" }, el("label", { for: "order" }, "Order"), select)),
    node,
    facts([["exchange, one call", exchange, count(exchange)], ["scheduled, one call", compile?.cycles?.scheduled, count(compile?.cycles?.scheduled)]], "facts row"),
    el("p", { class: "note" }, "All iterations of a Repeat are added up. Kernels of different tiles overlap, so the two parts need not add up to the scheduled cycles; ",
      "setup of rows and waiting are not shown. Click a bar to see who sends what to whom. Kernels behind the last phase: ", figure(report.kernel_cycles_after, count(report.kernel_cycles_after)), " cycles.")),
  above, below);
  const chart = makeChart(node, "Cycles of every exchange phase and of the kernels before it");
  const show = () => {
    if (!orders[state.order]) state.order = "program";
    const rows = [...phases].sort(orders[state.order].sort);
    chart.setOption(options(rows), true);
    chart.off("click");
    chart.on("click", (e) => change({ view: "exchange", phase: rows[e.dataIndex].index }));
    above.replaceChildren(operationTable());
    below.replaceChildren(phaseTable(rows));
  };
  show();
  return show;
}
