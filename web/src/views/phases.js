import { phases, report } from "../data.js";
import { el, facts, table } from "../dom.js";
import { bytes, count, ratio, short } from "../format.js";
import { change, state } from "../state.js";
import { axis, css, escape, legend, makeChart, series, tooltip } from "../theme.js";

export const title = "Phases";

const orders = {
  program: { label: "program order", sort: () => 0 },
  cycles: { label: "cycles", sort: (a, b) => total(b) - total(a) },
  words: { label: "words sent", sort: (a, b) => b.words * b.iterations - a.words * a.iterations },
  rows: { label: "row bytes", sort: (a, b) => b.row_bytes_max - a.row_bytes_max },
};
const total = (p) => p.exchange_cycles + p.before_cycles;

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
      bar("row setup, program words, waiting", series.setup, (p) => p.before_cycles - p.kernel_cycles_max),
      bar("exchange", series.exchange, (p) => p.exchange_cycles)],
  };
}

function phaseTable(rows) {
  const n = (title, key, note) => ({ title, number: true, note, value: (p) => p[key], text: (p) => count(p[key]) });
  return table("Exchange phases", [
    { ...n("phase", "index", "who sends what to whom"), to: (p) => change({ view: "exchange", phase: p.index }) },
    { title: "operation", wrap: true, text: (p) => p.operation, to: (p) => change({ view: "operations", operation: p.operation }) },
    { ...n("step", "step", "live bytes there"), to: (p) => change({ view: "liveness", phase: p.index }) },
    n("times", "iterations"),
    n("horizon", "horizon", "cycles of the longest row"),
    n("bound", "bound", "most words that one tile sends or receives"),
    { title: "over bound", number: true, text: (p) => (p.bound > 0 ? ratio(p.horizon / p.bound) : "–") },
    n("exchange cycles", "exchange_cycles", "(horizon + phase constant) × times"),
    n("before it", "before_cycles", "cycles from the phase before until the last tile is ready, all times"),
    n("kernels, busiest", "kernel_cycles_max", "of it, kernels of the busiest tile"),
    { title: "kernels, mean", number: true, value: (p) => p.kernel_cycles_mean, text: (p) => count(p.kernel_cycles_mean) },
    n("tiles", "tiles"),
    n("messages", "messages"),
    n("words sent", "words"),
    { title: "largest row", number: true, value: (p) => p.row_bytes_max, text: (p) => bytes(p.row_bytes_max) },
  ], rows, { limit: 1000, dense: true, marked: (p) => p.index === state.phase });
}

export function mount(root) {
  const select = el("select", { id: "order", change: (e) => change({ order: e.target.value }) },
    Object.entries(orders).map(([key, o]) => el("option", { value: key, selected: state.order === key }, o.label)));
  const node = el("div", { class: "chart", id: "phase-chart" });
  const below = el("section", { class: "panel", id: "phase-table" });
  const exchange = report.phases.exchange_cycles.reduce((a, b) => a + b, 0);
  root.append(el("section", { class: "panel" },
    el("div", { class: "bar" }, el("h2", {}, "Cycles by exchange phase"),
      el("div", { class: "field" }, el("label", { for: "order" }, "Order"), select)),
    node,
    facts([["one call", report.cycles, count(report.cycles)], ["in exchange", exchange, count(exchange)],
      ["behind the last phase", report.cycles_after, count(report.cycles_after)]], "facts row"),
    el("p", { class: "note" }, "All iterations of a Repeat are added up. Bars and what runs behind the last phase add up to the cycles of a call. ",
      "A phase begins when the last tile is ready; the part between its kernels and those of the busiest tile is setup of rows, words of the program, and waiting. Click a bar to see who sends what to whom.")),
  below);
  const chart = makeChart(node, "Cycles of every exchange phase and of the kernels before it");
  const show = () => {
    if (!orders[state.order]) state.order = "program";
    const rows = [...phases].sort(orders[state.order].sort);
    chart.setOption(options(rows), true);
    chart.off("click");
    chart.on("click", (e) => change({ view: "exchange", phase: rows[e.dataIndex].index }));
    below.replaceChildren(phaseTable(rows));
  };
  show();
  return show;
}
