import { buffers, compile, live, liveAt, peakPoint, peakTile, points, repeats, report, stepKind, stepName, tiles } from "../data.js";
import { el, facts, table } from "../dom.js";
import { byteInterval, byteUnit, bytes, hex, percent, shortBytes } from "../format.js";
import { change, state } from "../state.js";
import { axis, css, escape, legend, makeChart, series, tooltip } from "../theme.js";

export const title = "Liveness";

function line(name, values, color, more = {}) {
  return { name, type: "line", step: "middle", symbol: "none", data: Array.from(values, (v, p) => [p, v]),
    lineStyle: { color, width: 2 }, itemStyle: { color }, emphasis: { disabled: true }, ...more };
}

// A budget far above everything would flatten the lines: it is told in words then.
const near = report.fullest.bytes[peakPoint] > 0.6 * (compile?.memory?.budget_bytes ?? Infinity);

function options() {
  const at = live(state.tile);
  const budget = near ? compile.memory.budget_bytes : undefined;
  const areas = repeats.map(([first, last, times]) => [
    { xAxis: first, name: `× ${times}`, label: { color: css("--muted"), position: "insideTop", offset: [0, near ? 20 : 0] } }, { xAxis: last }]);
  const top = Math.max(report.fullest.bytes[peakPoint], budget ?? 0);
  return {
    animation: false,
    grid: { left: 72, right: 24, top: 48, bottom: 84 },
    legend: legend(),
    tooltip: tooltip({ trigger: "axis", formatter: (items) => {
      const p = items[0].data[0];
      return `step ${p} · ${escape(stepName(p))} (${stepKind(p)})<br>` +
        items.map((i) => `${i.marker}${escape(i.seriesName)} <b>${bytes(i.data[1])}</b>`).join("<br>");
    } }),
    xAxis: axis({ type: "value", min: 0, max: points - 1, name: "program step (0 = upload; a Repeat’s body stands once)", nameGap: 26 }),
    yAxis: axis({ type: "value", min: 0, max: top * (near ? 1.04 : 1.12), name: `live bytes (${byteUnit()})`, nameGap: 54, interval: byteInterval(top),
      axisLabel: { color: css("--muted"), formatter: (v) => shortBytes(v), showMaxLabel: false }, splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    dataZoom: [{ type: "slider", height: 20, bottom: 8, borderColor: css("--line-strong"), textStyle: { color: css("--muted") },
      labelFormatter: (v) => Math.round(v), brushSelect: false, showDataShadow: false }],
    series: [
      line("fullest tile of each step", report.fullest.bytes, series.fullest, {
        lineStyle: { color: series.fullest, width: 1.5, type: "dashed" },
        markArea: { silent: true, itemStyle: { color: css("--shade") }, data: areas },
        markPoint: { symbol: "circle", symbolSize: 11, itemStyle: { color: series.peak },
          label: { color: css("--ink"), backgroundColor: css("--panel"), padding: [2, 4], position: peakPoint < 0.8 * points ? "right" : "left", distance: 8, formatter: `peak, tile ${peakTile}` },
          data: [{ coord: [peakPoint, report.fullest.bytes[peakPoint]] }] },
        markLine: { silent: true, symbol: "none", data: [
          ...(budget ? [{ yAxis: budget, lineStyle: { color: series.peak, type: "solid", width: 1 },
            label: { color: css("--ink"), position: "insideStartTop", formatter: `for tensors ${bytes(budget)}` } }] : []),
          { xAxis: state.point, lineStyle: { color: css("--ink"), type: "solid", width: 1 },
            label: { color: css("--ink"), formatter: `${state.point}`, position: "end" } }] },
      }),
      line(`tile ${state.tile}`, at.total, series.total, { lineStyle: { color: series.total, width: 2.5 } }),
      line("of it standard", at.standard, series.standard),
      line("of it interleaved", at.interleaved, series.interleaved),
    ],
  };
}

function liveTable() {
  const t = state.tile, p = state.point;
  const rows = liveAt(t, p).sort((a, b) => b.taken - a.taken || a.address - b.address);
  const sum = rows.reduce((a, b) => a + b.taken, 0);
  const columns = [
    { title: "tensor", wrap: true, text: (b) => b.name },
    { title: "asks for", text: (b) => b.memory },
    { title: "takes", number: true, value: (b) => b.taken, text: (b) => bytes(b.taken), note: "with access tail and padding" },
    { title: "share", number: true, text: (b) => percent(b.taken, sum) },
    { title: "data", number: true, value: (b) => b.bytes, text: (b) => bytes(b.bytes) },
    { title: "tail, padding", number: true, value: (b) => b.taken - b.bytes, text: (b) => bytes(b.taken - b.bytes) },
    { title: "address", number: true, value: (b) => b.address, text: (b) => hex(b.address) },
    { title: "first step", number: true, value: (b) => b.first, text: (b) => String(b.first) },
    { title: "last step", number: true, value: (b) => b.last, text: (b) => String(b.last) },
  ];
  return el("section", { class: "panel" },
    el("div", { class: "bar" }, el("h2", {}, `Live on tile ${t} at step ${p}`),
      el("p", { class: "muted" }, `${rows.length} of ${buffers(t).length} buffers`)),
    facts([["live", sum, bytes(sum)], ["standard", live(t).standard[p], bytes(live(t).standard[p])],
      ["interleaved", live(t).interleaved[p], bytes(live(t).interleaved[p])],
      ["the tile’s peak", tiles.peak_bytes[t], `${bytes(tiles.peak_bytes[t])} at step ${tiles.peak_step[t]}`]], "facts row"),
    table(`Live tensors of tile ${t} at step ${p}, largest first`, columns, rows, { quiet: true }));
}

export function mount(root) {
  const node = el("div", { class: "chart", id: "live-chart" });
  const below = el("div", { id: "live" });
  root.append(el("section", { class: "panel" }, el("h2", {}, "Live tensor bytes over the program"), node,
    el("p", { class: "note" }, "As placed, access tails and padding in; code and exchange table are not in it. ",
      near || !compile?.memory ? "" : `Tensors may take ${bytes(compile.memory.budget_bytes)} of a tile. `, "Click a step to see what is live there.")),
  below);
  const chart = makeChart(node, "Live bytes of the chosen tile and of the fullest tile at every program step");
  chart.getZr().on("click", (e) => {
    const at = [e.offsetX, e.offsetY];
    if (chart.containPixel("grid", at)) change({ point: Math.round(chart.convertFromPixel("grid", at)[0]) });
  });
  const show = (keys) => {
    chart.setOption(options(), keys === undefined);
    below.replaceChildren(liveTable());
  };
  show();
  return show;
}
