// The floor plan as a chart: one cell for each physical tile, 64 to a fabric row.
import { tileCount } from "./data.js";
import { change, state } from "./state.js";
import { axis, cividis, css, makeChart, tooltip } from "./theme.js";

export const columns = 64;
const rows = Math.ceil(tileCount / columns);
export const placeOf = (tile) => [tile % columns, Math.floor(tile / columns)];

// A chart whose cells choose the tile, by click or arrow keys.
export function makeFloor(node, label) {
  const chart = makeChart(node, label);
  chart.on("click", (p) => p.data?.[3] !== undefined && change({ tile: p.data[3] }));
  node.addEventListener("keydown", (e) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[e.key];
    if (!by) return;
    e.preventDefault();
    const tile = state.tile + by;
    if (tile >= 0 && tile < tileCount) change({ tile });
  });
  return chart;
}

function frame(hint, bottom) {
  return {
    animation: false,
    grid: { left: 56, right: 12, top: 10, bottom },
    tooltip: tooltip({ formatter: (p) => hint(p.data[3]) }),
    xAxis: axis({ type: "category", data: Array.from({ length: columns }, (_, i) => i), name: "physical tile modulo 64 (four to a fabric column)",
      nameGap: 28, axisLabel: { color: css("--muted"), interval: 3 } }),
    yAxis: axis({ type: "category", inverse: true, data: Array.from({ length: rows }, (_, i) => i),
      name: "fabric row (tile div 64)", nameGap: 34, axisLabel: { color: css("--muted"), interval: 1 } }),
  };
}

function chosenTile(color = "#d55e00") {
  return { type: "custom", silent: true, z: 5, data: [placeOf(state.tile)], renderItem: (_, api) => {
    const [x, y] = api.coord([api.value(0), api.value(1)]);
    const [w, h] = api.size([1, 1]);
    return { type: "rect", shape: { x: x - w / 2, y: y - h / 2, width: w, height: h },
      style: { fill: "none", stroke: color, lineWidth: 3 } };
  } };
}

// values: of each tile. scale: {min, max, colors, ends: [low, high] as text, label(v), mark: colour of the chosen tile}. hint(tile): HTML.
export function amounts(values, scale, hint) {
  return {
    ...frame(hint, 96),
    visualMap: {
      type: "continuous", dimension: 2, orient: "horizontal", left: "center", bottom: 0, min: scale.min,
      max: scale.max > scale.min ? scale.max : scale.min + 1, calculable: true, itemWidth: 14, itemHeight: 320,
      inRange: { color: scale.colors ?? cividis }, seriesIndex: 0, text: [scale.ends[1], scale.ends[0]], formatter: scale.label,
      textStyle: { color: css("--ink"), fontSize: 12 },
    },
    series: [
      { type: "heatmap", data: values.map((v, t) => [...placeOf(t), v, t]),
        itemStyle: { borderColor: css("--panel"), borderWidth: 1 }, emphasis: { itemStyle: { borderColor: css("--ink") } } },
      chosenTile(scale.mark),
    ],
  };
}

// Each cell a ground colour and two halves: upper left and lower right. part(tile): {ground, first, second}.
export function halves(part, hint) {
  const parts = Array.from({ length: tileCount }, (_, t) => part(t));
  const draw = (_, api) => {
    const [x, y] = api.coord([api.value(0), api.value(1)]);
    const [w, h] = api.size([1, 1]).map((s) => s - 1);
    const [l, r, t, b] = [x - w / 2, x + w / 2, y - h / 2, y + h / 2];
    const { ground, first, second } = parts[api.value(3)];
    const half = (points, fill) => ({ type: "polygon", shape: { points }, style: { fill } });
    return { type: "group", children: [
      { type: "rect", shape: { x: l, y: t, width: w, height: h }, style: { fill: ground } },
      ...(first ? [half([[l, t], [r, t], [l, b]], first)] : []),
      ...(second ? [half([[r, t], [r, b], [l, b]], second)] : []),
    ] };
  };
  return { ...frame(hint, 56), visualMap: { show: false, type: "continuous", min: 0, max: 1, seriesIndex: [] },
    series: [{ type: "custom", renderItem: draw, progressive: 0, data: parts.map((_, t) => [...placeOf(t), 0, t]) }, chosenTile()] };
}
