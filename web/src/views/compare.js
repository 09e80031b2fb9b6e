import { livePairs, nameOf, operationPairs, sameSteps, summary, tileFigures, tilePair, tilesOfBoth } from "../compare.js";
import { main, other, stepName, tileCount } from "../data.js";
import { el, figure, path, table } from "../dom.js";
import { amounts, makeFloor } from "../floorplan.js";
import { byteInterval, byteUnit, bytes, count, ratio, short, shortBytes } from "../format.js";
import { change, state } from "../state.js";
import { axis, css, diverging, escape, legend, makeChart, series, tooltip } from "../theme.js";

export const title = "Compare";

const texts = { bytes, count, ratio };
const sign = (n) => (n > 0 ? "+" : n < 0 ? "−" : "");
const signed = (kind, n) => (n === null ? "–" : `${sign(n)}${texts[kind](Math.abs(n))}`);
const relative = (p) => (p.difference === null || !p.theirs ? "–" : `${sign(p.difference)}${((100 * Math.abs(p.difference)) / p.theirs).toFixed(1)} %`);
const same = other !== null && sameSteps();
const compared = () => Object.entries(tileFigures).filter(([key]) => key !== "live" || same);
const chosen = () => (compared().some(([key]) => key === state.contrast) ? state.contrast : "peak_bytes");

function pairColumns(kind, of = (row) => row) {
  return [
    { title: "this", number: true, value: (r) => of(r).mine, text: (r) => texts[kind](of(r).mine) },
    { title: "other", number: true, value: (r) => of(r).theirs, text: (r) => texts[kind](of(r).theirs) },
    { title: "difference", number: true, value: (r) => of(r).difference, text: (r) => signed(kind, of(r).difference) },
    { title: "relative", number: true, text: (r) => relative(of(r)) },
  ];
}

function summaryTable() {
  const cell = (key) => ({ title: key === "mine" ? "this" : "other", number: true, value: (r) => r[key], text: (r) => texts[r.kind](r[key]) });
  return table("Figures", [
    { title: "figure", wrap: true, text: (r) => r.label }, cell("mine"), cell("theirs"),
    { title: "difference", number: true, value: (r) => r.difference, text: (r) => signed(r.kind, r.difference) },
    { title: "relative", number: true, text: relative },
  ], summary(), { quiet: true });
}

function who(label, data) {
  return el("div", {}, el("dt", {}, label), el("dd", {}, nameOf(data), el("br"),
    el("span", { class: "muted" }, `${data.report.package.file || "no file"} · tilewright ${data.tool.version} (${data.tool.commit})`)));
}

function operationChart(rows) {
  return {
    animation: false,
    grid: { left: 290, right: 32, top: 12, bottom: 40 },
    tooltip: tooltip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: (items) => {
      const r = rows[items[0].dataIndex];
      return `<b>${escape(r.name)}</b><br>this ${count(r.cycles.mine)}<br>other ${count(r.cycles.theirs)}<br>difference <b>${signed("count", r.cycles.difference)}</b>`;
    } }),
    xAxis: axis({ type: "value", name: "cycles of one call, this minus other", nameGap: 24, axisLabel: { color: css("--muted"), formatter: short },
      splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    yAxis: axis({ type: "category", inverse: true, data: rows.map((r) => r.name), axisLine: { show: false },
      axisLabel: { color: css("--ink"), fontSize: 12, interval: 0, width: 270, overflow: "truncate" } }),
    series: [{ type: "bar", barCategoryGap: "24%", data: rows.map((r) => ({ value: r.cycles.difference ?? 0,
      itemStyle: { color: (r.cycles.difference ?? 0) > 0 ? series.more : series.less } })) }],
  };
}

function planOptions(key) {
  const f = tileFigures[key];
  const kind = f.bytes ? "bytes" : "count";
  const pairs = Array.from({ length: tileCount }, (_, t) => tilePair(key, t, state.point));
  const most = Math.max(1, ...pairs.map((p) => Math.abs(p.difference ?? 0)));
  return [pairs, amounts(pairs.map((p) => p.difference ?? "-"), {
    min: -most, max: most, colors: diverging(), mark: css("--ink"), ends: [signed(kind, -most), signed(kind, most)],
    label: (v) => (f.bytes ? shortBytes(v) : short(v)),
  }, (t) => `tile ${t}<br>this ${texts[kind](pairs[t].mine)}<br>other ${texts[kind](pairs[t].theirs)}<br>difference <b>${signed(kind, pairs[t].difference)}</b>`)];
}

function tileTable() {
  const rows = compared().map(([key, f]) => ({ label: f.label, kind: f.bytes ? "bytes" : "count", ...tilePair(key, state.tile, state.point) }));
  return el("section", { class: "panel", id: "compare-tile" }, table(`Tile ${state.tile}`, [
    { title: "figure", wrap: true, text: (r) => r.label },
    { title: "this", number: true, value: (r) => r.mine, text: (r) => texts[r.kind](r.mine) },
    { title: "other", number: true, value: (r) => r.theirs, text: (r) => texts[r.kind](r.theirs) },
    { title: "difference", number: true, value: (r) => r.difference, text: (r) => signed(r.kind, r.difference) },
  ], rows, { dense: true }));
}

function liveChart(rows) {
  const curve = (name, values, color, type) => ({ name, type: "line", step: "middle", symbol: "none", emphasis: { disabled: true },
    data: Array.from(values, (v, p) => [p, v]), lineStyle: { color, width: 2, type }, itemStyle: { color } });
  const category = { type: "category", data: rows.map((r) => r.name),
    axisLabel: { color: css("--muted"), fontSize: 11, rotate: 40, interval: 0, formatter: (name) => name.split(".").slice(-2).join(".") } };
  const [mine, theirs] = same ? [main.report.fullest.bytes, other.report.fullest.bytes] : [rows.map((r) => r.mine ?? "-"), rows.map((r) => r.theirs ?? "-")];
  return {
    animation: false,
    grid: { left: 72, right: 24, top: 44, bottom: same ? 84 : 130 },
    legend: legend({ data: ["this", "other"] }),
    tooltip: tooltip({ trigger: "axis", formatter: (items) => {
      const p = items[0].data[0];
      return `${same ? `step ${p} · ${escape(stepName(p))}` : escape(rows[p].name)}<br>` +
        items.map((i) => `${i.marker}${i.seriesName} <b>${Number.isFinite(i.data[1]) ? bytes(i.data[1]) : "–"}</b>`).join("<br>");
    } }),
    xAxis: axis(same ? { type: "value", min: 0, max: main.points - 1, name: "program step (0 = upload)", nameGap: 26 } : category),
    yAxis: axis({ type: "value", min: 0, name: `live bytes (${byteUnit()})`, nameGap: 54, interval: byteInterval(Math.max(...main.report.fullest.bytes, ...other.report.fullest.bytes)), axisLabel: { color: css("--muted"), formatter: (v) => shortBytes(v), showMaxLabel: byteUnit() === "B" },
      splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    dataZoom: same ? [{ type: "slider", height: 20, bottom: 8, borderColor: css("--line-strong"), textStyle: { color: css("--muted") },
      labelFormatter: (v) => Math.round(v), brushSelect: false, showDataShadow: false }] : [],
    series: [curve("other", theirs, series.theirs, "dashed"), curve("this", mine, series.mine, "solid")],
  };
}

export function mount(root) {
  const operations = operationPairs(), live = livePairs();
  const bars = el("div", { class: "chart", id: "compare-chart", style: `height:${Math.max(200, 66 + 20 * operations.length)}px` });
  const plan = el("div", { class: "chart floor", tabindex: "0", id: "compare-plan" });
  const curves = el("div", { class: "chart", id: "compare-live" });
  const heading = el("h2", {}), note = el("p", { class: "note" }), side = el("div", { class: "side wide" });
  const select = el("select", { id: "contrast", change: (e) => change({ contrast: e.target.value }) },
    compared().map(([key, f]) => el("option", { value: key, selected: chosen() === key }, f.label)));
  root.append(
    el("section", { class: "panel", id: "compare-summary" }, el("h2", {}, "This and the other"),
      el("dl", { class: "facts" }, who("this", main), who("other", other)),
      el("p", { class: "note" }, "Differences are this minus other: a plus is more here. Both reports' numbers are in their own report.json."), summaryTable()),
    el("section", { class: "panel" }, el("h2", {}, "Cycles by operation"), bars),
    el("section", { class: "panel", id: "compare-operations" }, table("Cycles of one call, by operation", [
      { title: "operation", wrap: true, text: (r) => r.name }, ...pairColumns("count", (r) => r.cycles),
      { title: "kernels, busiest", number: true, note: "difference", value: (r) => r.kernel.difference, text: (r) => signed("count", r.kernel.difference) },
      { title: "exchange", number: true, note: "difference", value: (r) => r.exchange.difference, text: (r) => signed("count", r.exchange.difference) },
    ], operations, { limit: 1000 })),
    el("div", { class: "split" }, el("section", { class: "panel" },
      el("div", { class: "bar" }, heading, el("div", { class: "field" }, el("label", { for: "contrast" }, "Show"), select)), plan, note), side),
    el("section", { class: "panel" }, el("h2", {}, same ? "Live bytes of the fullest tile, by step" : "Most live bytes of any tile, by operation"), curves,
      same ? "" : el("p", { class: "note" }, "The two programs have different steps, so they are compared by operation.")),
    el("section", { class: "panel", id: "compare-live-table" }, table("Most live bytes of any tile during an operation",
      [{ title: "operation", wrap: true, text: (r) => r.name }, ...pairColumns("bytes")], live, { limit: 1000 })));
  makeChart(bars, "Difference of the cycles of every operation").setOption(operationChart(operations));
  makeChart(curves, "Live bytes of the fullest tile in both reports").setOption(liveChart(live));
  const planChart = makeFloor(plan, "Floor plan: difference of the chosen figure on every tile");
  const show = () => {
    const f = tileFigures[chosen()];
    heading.textContent = `Difference of ${f.label}${f.bytes ? ` (${byteUnit()})` : ""}`;
    const [pairs, options] = planOptions(chosen());
    planChart.setOption(options, true);
    const more = pairs.filter((p) => p.difference > 0).length, less = pairs.filter((p) => p.difference < 0).length;
    note.replaceChildren(figure(more, count(more)), " tiles have more here, ", figure(less, count(less)), " less. ",
      `Click a tile, or move with the arrow keys while the plan has the focus. ${tilesOfBoth < tileCount ? `The other report has ${tilesOfBoth} tiles. ` : ""}`,
      same ? "The step is that of the other views: " : "", same ? path(`${state.point}, ${stepName(state.point)}`) : "");
    side.replaceChildren(tileTable());
  };
  show();
  return show;
}
