// Colours and the charts' common parts. Safe for colour-blind readers: the cividis scale for amounts, the
// Okabe-Ito set for kinds.
import * as echarts from "echarts/core";
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent,
  MarkPointComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import { CanvasRenderer } from "echarts/renderers";

echarts.use([BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, AriaComponent, DataZoomComponent, GridComponent,
  LegendComponent, MarkAreaComponent, MarkLineComponent, MarkPointComponent, TooltipComponent, VisualMapComponent,
  CanvasRenderer]);

export const cividis = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369",
  "#e1cc55", "#fee838"];

// From less to more around zero: blue, the panel's neutral, vermilion.
export const diverging = () => ["#0072b2", "#6aa9d0", css("--neutral"), "#e8945a", "#d55e00"];

export const kinds = {
  resident: { label: "resident tensor", color: "#0072b2" },
  transient: { label: "tensor of some steps", color: "#e69f00" },
  code: { label: "runtime and kernels", color: "#009e73" },
  program: { label: "program", color: "#56b4e9" },
  table: { label: "exchange table", color: "#cc79a7" },
  reserve: { label: "reserve", color: "#b8a0b0" },
  system: { label: "system", color: "#999999" },
  hole: { label: "free", color: "transparent" },
};

// Classes of a tile's bytes, in the order of data.js split().
export const classes = {
  parameters: { label: "parameters", color: "#0072b2" },
  tensors: { label: "activations and other tensors of some steps", color: "#e69f00" },
  padding: { label: "tails and padding of tensors", color: "#f0e442" },
  code: { label: "runtime and kernels", color: "#009e73" },
  program: { label: "program", color: "#56b4e9" },
  table: { label: "exchange table", color: "#cc79a7" },
  system: { label: "system", color: "#999999" },
  reserve: { label: "reserve behind program and table", color: "#b8a0b0" },
  free: { label: "free", color: "transparent" },
};

export const series = {
  get total() { return css("--blue"); },
  get kernel() { return css("--blue"); },
  get interleaved() { return css("--green"); },
  get mine() { return css("--blue"); },
  theirs: "#e69f00", more: "#d55e00",
  get less() { return css("--blue"); },
  get hears() { return css("--blue"); },
  sends: "#e69f00",
  standard: "#e69f00", exchange: "#e69f00", setup: "#cc79a7", fullest: "#8a8f96", peak: "#d55e00",
};

export function legend(more) {
  return { top: 4, left: 60, icon: "roundRect", itemWidth: 18, itemHeight: 5, itemGap: 22, inactiveColor: css("--line-strong"),
    textStyle: { color: css("--ink"), fontSize: 13 }, ...more };
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function axis(more) {
  return {
    nameLocation: "middle",
    nameTextStyle: { color: css("--muted"), fontSize: 12 },
    axisLine: { show: true, lineStyle: { color: css("--line-strong") } },
    axisTick: { show: false },
    axisLabel: { color: css("--muted"), fontSize: 12 },
    splitLine: { show: false, lineStyle: { color: css("--line") } },
    ...more,
  };
}

export function tooltip(more) {
  return {
    backgroundColor: css("--panel"),
    borderColor: css("--line-strong"),
    textStyle: { color: css("--ink"), fontSize: 13 },
    confine: true,
    transitionDuration: 0,
    ...more,
  };
}

export const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

// A chart in a new element of the given height; `label` is what a screen reader says.
export function makeChart(node, label) {
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", label);
  const chart = echarts.init(node, null, { renderer: "canvas" });
  new ResizeObserver(() => {
    if (!chart.isDisposed()) chart.resize();
  }).observe(node);
  return chart;
}
