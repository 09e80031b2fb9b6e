import { areas, buffers, contents, device, liveAt, placed, points, report, stepName, tiles } from "../data.js";
import { el, facts, path, table } from "../dom.js";
import { bytes, hex, percent } from "../format.js";
import { change, state } from "../state.js";
import { axis, css, escape, kinds, makeChart, tooltip } from "../theme.js";

export const title = "Address map";

// x from, x to, address from, address to, kind, index of the item.
function rectangles(items) {
  return items.map((b, i) => [b.from, b.to, b.begin, b.end, b.kind, i]);
}

function items(tile) {
  const fixed = areas(tile).flatMap((a) => [
    { ...a, end: a.used === undefined ? a.end : a.begin + a.used, from: -0.5, to: points - 0.5 },
    ...(a.used === undefined ? [] : [{ ...a, name: `${a.name}: reserve`, begin: a.begin + a.used, kind: "reserve", from: -0.5, to: points - 0.5 }]),
  ]);
  const held = buffers(tile).filter(placed).map((b) => ({ ...b, begin: b.address, end: b.address + b.taken, from: b.first - 0.5, to: b.last + 0.5 }));
  return [...fixed, ...held].filter((x) => x.end > x.begin);
}

function drawRect(params, api) {
  const [x0, y0] = api.coord([api.value(0), api.value(2)]);
  const [x1, y1] = api.coord([api.value(1), api.value(3)]);
  const g = params.coordSys;
  const left = Math.max(x0, g.x), right = Math.min(x1, g.x + g.width);
  const top = Math.max(y1, g.y), bottom = Math.min(y0, g.y + g.height);
  if (right <= left || bottom <= top) return null;
  const height = bottom - top;
  return { type: "rect", shape: { x: left, y: top, width: right - left, height },
    style: { fill: kinds[api.value(4)].color, opacity: 0.85, stroke: css("--panel"), lineWidth: height > 4 && right - left > 4 ? 1 : 0 } };
}

function options(list) {
  const grid = 2 * device.element_bytes;
  const range = [Math.floor(device.memory_base / grid) * grid, device.memory_end];
  return {
    animation: false,
    grid: { left: 84, right: 48, top: 16, bottom: 84 },
    tooltip: tooltip({ formatter: (p) => {
      const x = list[p.value[5]];
      return `<b>${escape(x.name)}</b><br>${hex(x.begin)}–${hex(x.end - 1)} · ${bytes(x.end - x.begin)}` +
        (x.first === undefined ? "" : `<br>steps ${x.first}–${x.last} · ${x.memory}`);
    } }),
    xAxis: axis({ type: "value", min: -0.5, max: points - 0.5, name: "program step (0 = upload)", nameGap: 26,
      axisLabel: { color: css("--muted"), showMinLabel: false, showMaxLabel: false, formatter: (v) => Math.round(v) } }),
    yAxis: axis({ type: "value", min: range[0], max: range[1], interval: grid, name: "address in the tile", nameGap: 66,
      axisLabel: { color: css("--muted"), formatter: (v) => hex(v), fontFamily: "ui-monospace, monospace" },
      splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    dataZoom: [
      { type: "slider", height: 20, bottom: 8, filterMode: "none", borderColor: css("--line-strong"), textStyle: { color: css("--muted") },
        labelFormatter: (v) => Math.round(v), brushSelect: false },
      { type: "slider", yAxisIndex: 0, width: 18, right: 8, filterMode: "none", borderColor: css("--line-strong"), textStyle: { color: css("--muted") },
        labelFormatter: (v) => hex(Math.round(v)), brushSelect: false, showDetail: false }],
    series: [{ type: "custom", renderItem: drawRect, clip: true, encode: { x: [0, 1], y: [2, 3] }, data: rectangles(list), progressive: 0,
      markLine: { silent: true, symbol: "none", animation: false, data: [
        { yAxis: device.interleaved_base, lineStyle: { color: css("--ink"), type: "dashed", width: 1 },
          label: { position: "insideEndTop", color: css("--ink"), backgroundColor: css("--panel"), padding: [2, 5], formatter: "interleaved from here up" } },
        { xAxis: state.point, lineStyle: { color: "#d55e00", type: "solid", width: 2 }, label: { color: css("--ink"), formatter: `${state.point}` } }] } }],
  };
}

function legend() {
  return el("ul", { class: "legend" }, Object.entries(kinds).map(([key, k]) =>
    el("li", {}, el("span", { class: `swatch ${key}`, style: `background:${k.color}` }), k.label)));
}

function atStep() {
  const rows = contents(state.tile, state.point);
  const sum = (kind) => rows.filter((r) => r.kind === kind).reduce((a, b) => a + b.bytes * (b.taken ? 0 : 1) + (b.taken ?? 0), 0);
  const holes = rows.filter((r) => r.kind === "hole");
  const largest = holes.reduce((a, b) => Math.max(a, b.bytes), 0);
  const all = device.memory_end - device.memory_base;
  return el("section", { class: "panel" },
    el("h2", {}, `Tile ${state.tile} at step ${state.point}`),
    el("p", { class: "muted" }, path(stepName(state.point))),
    facts([
      ["resident tensors", sum("resident"), bytes(sum("resident"))],
      ["tensors of some steps", sum("transient"), bytes(sum("transient"))],
      ["code, program and table", sum("code") + sum("program") + sum("table"), bytes(sum("code") + sum("program") + sum("table"))],
      ["reserve behind them", sum("reserve"), bytes(sum("reserve"))],
      ["free", sum("hole"), `${bytes(sum("hole"))} (${percent(sum("hole"), all)}) in ${holes.length} holes`],
      ["largest hole", largest, bytes(largest)],
    ]),
    ...withoutPlace(),
    table(`Memory of tile ${state.tile} at step ${state.point}, by address`, [
      { title: "from", number: true, value: (r) => r.begin, text: (r) => hex(r.begin) },
      { title: "bytes", number: true, value: (r) => r.end - r.begin, text: (r) => bytes(r.end - r.begin) },
      { title: "what", wrap: true, text: (r) => r.name },
      { title: "steps", number: true, text: (r) => (r.first === undefined ? "" : `${r.first}–${r.last}`) },
    ], rows, { quiet: true, scroll: true }));
}

// Of a model that does not fit.
function withoutPlace() {
  const rows = liveAt(state.tile, state.point).filter((b) => !placed(b));
  if (rows.length === 0) return [];
  return [el("div", { class: "alert", role: "note" },
    table("Alive at this step and without a place", [
      { title: "what", wrap: true, text: (r) => r.name },
      { title: "bytes", number: true, value: (r) => r.taken, text: (r) => bytes(r.taken) },
      { title: "memory", text: (r) => r.memory },
      { title: "steps", number: true, text: (r) => `${r.first}–${r.last}` },
    ], rows, { quiet: true }))];
}

export function mount(root) {
  const node = el("div", { class: "chart tall", id: "memory-chart" });
  const side = el("div", { class: "side wide", id: "memory-table" });
  root.append(el("div", { class: "split" },
    el("section", { class: "panel" }, el("h2", {}, "Addresses over the program"), legend(), node,
      el("p", { class: "note" }, `A rectangle is a buffer: its addresses over the steps of its life. Grid lines are ${bytes(2 * device.element_bytes)} apart, ` +
        "two memory elements. Click a step to list what stands there; zoom with the sliders.")), side));
  const chart = makeChart(node, "Address map of the chosen tile: buffers as rectangles over program steps");
  chart.getZr().on("click", (e) => {
    const at = [e.offsetX, e.offsetY];
    if (chart.containPixel("grid", at)) change({ point: Math.round(chart.convertFromPixel("grid", at)[0]) });
  });
  let list = items(state.tile);
  const show = (keys) => {
    const fresh = keys === undefined || keys.includes("tile");
    if (fresh) list = items(state.tile);
    const zoom = keys === undefined ? null : chart.getOption().dataZoom;
    const next = options(list);
    if (zoom) next.dataZoom = next.dataZoom.map((z, i) => ({ ...z, start: zoom[i].start, end: zoom[i].end }));
    chart.setOption(next, true);
    side.replaceChildren(atStep());
  };
  show();
  return show;
}
