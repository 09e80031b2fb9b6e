import { tileCount, tiles } from "../data.js";
import { el, facts, path, table } from "../dom.js";
import { activity, exchangeOf, messagesOf, partners, rowOf, tensorName } from "../exchange.js";
import { amounts, halves, makeFloor } from "../floorplan.js";
import { bytes, count, percent, ratio, short, shortBytes } from "../format.js";
import { change, state } from "../state.js";
import { axis, css, escape, legend, makeChart, series, tooltip } from "../theme.js";

export const title = "Exchange";

const pictures = {
  partners: { label: "Partners of the chosen tile" },
  sent: { label: "Words sent", of: (r) => r.sent },
  received: { label: "Words received", of: (r) => r.received },
  events: { label: "Cycles of the row", of: (r) => r.events },
  bytes: { label: "Bytes of the row", of: (r) => r.bytes, bytes: true },
};
const picture = () => pictures[state.picture] ?? pictures.partners;
const text = (p, n) => (p.bytes ? bytes(n) : count(n));

function partnerPlan(exchange) {
  const row = rowOf(exchange, state.tile);
  const from = new Map(partners(row.heard).map((p) => [p.tile, p])), to = new Map(partners(row.told).map((p) => [p.tile, p]));
  const [active, idle, hears, sends] = [css("--cell"), css("--cell-idle"), series.hears, series.sends];
  return halves(
    (t) => ({ ground: exchange.rows.has(t) ? active : idle, first: from.has(t) && hears, second: to.has(t) && sends }),
    (t) => [`tile ${t} · logical ${tiles.logical[t]}`,
      ...(exchange.rows.has(t) ? [] : ["takes no part"]),
      ...(from.has(t) ? [`sends tile ${state.tile} <b>${count(from.get(t).words)}</b> words`] : []),
      ...(to.has(t) ? [`gets <b>${count(to.get(t).words)}</b> words from tile ${state.tile}`] : [])].join("<br>"));
}

function amountPlan(exchange, p) {
  const values = Array.from({ length: tileCount }, (_, t) => p.of(rowOf(exchange, t)));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return amounts(values, { min: low, max: high, ends: [text(p, low), text(p, high)], label: p.bytes ? shortBytes : short },
    (t) => `tile ${t} · logical ${tiles.logical[t]}<br><b>${text(p, values[t])}</b>`);
}

function planLegend() {
  const item = (color, label) => el("li", {}, el("span", { class: "swatch", style: `background:${color}` }), label);
  const half = (color, corner, label) => item(`linear-gradient(to ${corner}, ${color} 50%, var(--cell) 50%)`, label);
  return el("ul", { class: "legend" }, half(series.hears, "bottom right", `sends to tile ${state.tile}`),
    half(series.sends, "top left", `gets from tile ${state.tile}`), item("var(--cell)", "takes part"), item("var(--cell-idle)", "idle"));
}

// Rectangles of the two lanes: from, to, lane, index into `what`.
function lanes(row) {
  const heard = row.heard.map((w) => ({ ...w, lane: 1, partners: [w.partner] }));
  const what = [...heard, ...messagesOf(row).map((m) => ({ ...m, lane: 0 }))];
  return [what, what.map((w, i) => [w.begin, w.begin + w.words, w.lane, i])];
}

const lastOf = (list, limit) => (list.length > limit ? `${list.slice(0, limit).join(", ")} and ${list.length - limit} more` : list.join(", "));

function laneHint(w) {
  const who = w.partners.length === 1 ? `tile ${w.partners[0]}` : `${w.partners.length} tiles (${lastOf(w.partners, 6)})`;
  return `${w.lane === 1 ? "from" : "to"} ${who}<br><b>${count(w.words)}</b> words, cycles ${count(w.begin)}–${count(w.begin + w.words)}<br>` +
    escape(tensorName(w.tensor));
}

function timeline(exchange, what, rectangles) {
  const { width, hear, tell } = activity(exchange);
  const curve = (name, values, color) => ({ name, type: "line", step: "start", symbol: "none", xAxisIndex: 0, yAxisIndex: 0,
    data: Array.from(values, (v, b) => [b * width, v]), lineStyle: { color, width: 2 }, itemStyle: { color }, emphasis: { disabled: true } });
  const shared = { type: "value", min: 0, max: exchange.horizon };
  return {
    animation: false,
    grid: [{ left: 84, right: 24, top: 40, height: 120 }, { left: 84, right: 24, top: 186, height: 116 }],
    legend: legend({ left: 84, data: ["tiles that receive", "tiles that send"] }),
    tooltip: tooltip({ formatter: (p) => (p.componentSubType === "custom" ? laneHint(what[p.value[3]]) : "") }),
    xAxis: [axis({ ...shared, gridIndex: 0, axisLabel: { show: false } }),
      axis({ ...shared, gridIndex: 1, name: "cycles from the start of the row, each tile on its own clock", nameGap: 26,
        axisLabel: { color: css("--muted"), showMaxLabel: true, hideOverlap: true, formatter: (v) => count(v) } })],
    yAxis: [axis({ type: "value", gridIndex: 0, min: 0, minInterval: 1, name: "tiles", nameGap: 48, splitNumber: 3,
      splitLine: { show: true, lineStyle: { color: css("--line") } } }),
    axis({ type: "category", gridIndex: 1, data: ["sends", "receives"], name: `tile ${state.tile}`, nameGap: 66, axisLabel: { color: css("--ink"), fontSize: 13 } })],
    dataZoom: [{ type: "slider", xAxisIndex: [0, 1], height: 20, bottom: 8, filterMode: "none", borderColor: css("--line-strong"),
      textStyle: { color: css("--muted") }, labelFormatter: (v) => count(Math.round(v)), brushSelect: false, showDataShadow: false }],
    series: [
      curve("tiles that receive", hear, series.hears), curve("tiles that send", tell, series.sends),
      { type: "custom", xAxisIndex: 1, yAxisIndex: 1, clip: true, progressive: 0, encode: { x: [0, 1], y: 2 }, data: rectangles,
        renderItem: (params, api) => {
          const lane = api.value(2);
          const [x0, y] = api.coord([api.value(0), lane]), [x1] = api.coord([api.value(1), lane]);
          const height = 0.56 * api.size([0, 1])[1];
          const g = params.coordSys;
          const left = Math.max(x0, g.x), right = Math.min(x1, g.x + g.width);
          if (right < left) return null;
          return { type: "rect", shape: { x: left, y: y - height / 2, width: Math.max(right - left, 1), height },
            style: { fill: lane === 1 ? series.hears : series.sends, stroke: css("--panel"), lineWidth: right - left > 4 ? 1 : 0 } };
        },
        markLine: { silent: true, symbol: "none", animation: false, data: [{ xAxis: exchange.bound,
          lineStyle: { color: css("--ink"), type: "dashed", width: 1 }, label: { color: css("--ink"), position: "end", formatter: `bound ${count(exchange.bound)}` } }] } },
    ],
  };
}

function phaseFacts(x) {
  return el("section", { class: "panel", id: "phase-facts" }, el("h2", {}, `Phase ${x.index}`), el("p", { class: "muted" }, path(x.operation)),
    facts([
      ["horizon, cycles", x.horizon, `${count(x.horizon)} (tile ${x.horizon_tile})`],
      ["bound, words", x.bound, `${count(x.bound)} (tile ${x.bound_tile})`],
      ["horizon over bound", undefined, x.bound > 0 ? ratio(x.horizon / x.bound) : "–"],
      ["tiles that take part", x.tiles, `${count(x.tiles)} of ${count(tileCount)}`],
      ["words sent", x.words, count(x.words)],
      ["messages", x.messages, count(x.messages)],
      ["receive windows", x.windows, count(x.windows)],
      ["largest row", x.row_bytes_max, bytes(x.row_bytes_max)],
      ["cycles of one call", x.exchange_cycles, count(x.exchange_cycles)],
    ]));
}

function tileFacts(x) {
  const row = rowOf(x, state.tile);
  return el("section", { class: "panel", id: "exchange-tile", "aria-live": "polite" }, el("h2", {}, `Tile ${state.tile} in phase ${x.index}`),
    facts([
      ["words sent", row.sent, count(row.sent)],
      ["words received", row.received, count(row.received)],
      ["messages sent", row.messages, count(row.messages)],
      ["receive windows", row.heard.length, count(row.heard.length)],
      ["gets from", partners(row.heard).length, `${count(partners(row.heard).length)} tiles`],
      ["sends to", partners(row.told).length, `${count(partners(row.told).length)} tiles`],
      ["cycles of its row", row.events, count(row.events)],
      ["of the horizon", undefined, percent(row.events, x.horizon)],
      ["bytes of its row", row.bytes, bytes(row.bytes)],
    ]));
}

const number = (title, value, note) => ({ title, number: true, note, value, text: (r) => count(value(r)) });
const tileColumn = { title: "tile", number: true, value: (r) => r.tile, text: (r) => String(r.tile) };

// Names of the phase's own operation without it.
function shortName(tensor, operation) {
  const name = tensorName(tensor);
  return name.startsWith(`${operation}/`) ? name.slice(operation.length + 1) : name;
}

function partnerTable(id, caption, pieces, operation) {
  const rows = partners(pieces);
  if (rows.length === 0) return el("section", { class: "panel", id }, el("h2", {}, caption), el("p", { class: "muted" }, "No tile."));
  return el("section", { class: "panel", id }, table(caption, [
    tileColumn,
    number("words", (r) => r.words),
    number("times", (r) => r.times, "windows"),
    number("from cycle", (r) => r.from),
    number("to cycle", (r) => r.to),
    { title: "tensor", wrap: true, text: (r) => [...r.tensors].map((t) => shortName(t, operation)).join(", ") },
  ], rows, { limit: 200, onPick: (r) => change({ tile: r.tile }) }));
}

function busiestTable(x) {
  const load = (r) => Math.max(r.sent, r.received);
  const rows = [...x.rows.values()].sort((a, b) => load(b) - load(a) || a.tile - b.tile);
  return el("section", { class: "panel", id: "busiest-tiles" }, table("Busiest tiles", [
    tileColumn,
    number("sent", (r) => r.sent, "words"),
    number("received", (r) => r.received, "words"),
    number("row cycles", (r) => r.events),
    { title: "of bound", number: true, text: (r) => percent(load(r), x.bound), note: "more of sent and received, over the bound" },
    { title: "row bytes", number: true, value: (r) => r.bytes, text: (r) => bytes(r.bytes) },
  ], rows, { limit: 40, marked: (r) => r.tile === state.tile, onPick: (r) => change({ tile: r.tile }) }));
}

export function mount(root) {
  const select = el("select", { id: "picture", change: (e) => change({ picture: e.target.value }) },
    Object.entries(pictures).map(([key, p]) => el("option", { value: key, selected: picture() === p }, p.label)));
  const plan = el("div", { class: "chart floor", tabindex: "0", id: "exchange-plan" });
  const key = el("div", {});
  const side = el("div", { class: "side" });
  const heading = el("h2", {});
  const time = el("div", { class: "chart", id: "exchange-time" });
  const below = el("div", { class: "tables" });
  root.append(
    el("div", { class: "split" }, el("section", { class: "panel" },
      el("div", { class: "bar" }, heading, el("div", { class: "field" }, el("label", { for: "picture" }, "Show"), select)), key, plan,
      el("p", { class: "note" }, "Click a tile, or move with the arrow keys while the plan has the focus.")), side),
    el("section", { class: "panel" }, el("h2", {}, "Over the phase"), time,
      el("p", { class: "note" }, "Read from the encoded rows. The horizon is the longest row. A bar is a turn of a mux to a sender, one word a cycle: of the tile’s own (receives), or of the tiles that hear it (sends). " +
        "A word is written 52 cycles, and two more for each fabric row, after it arrives. The bound is the most words that one tile sends or receives. Click a bar to go to its partner.")),
    below);
  const planChart = makeFloor(plan, "Floor plan of the chosen phase");
  const timeChart = makeChart(time, "Sends and receives of the chosen tile over the cycles of the phase");
  let what = [];
  timeChart.on("click", (p) => p.componentSubType === "custom" && change({ tile: what[p.value[3]].partners[0] }));
  const show = () => {
    const x = exchangeOf(state.phase);
    const p = picture();
    heading.textContent = p.of ? `${p.label}, phase ${x.index}` : `Who sends to tile ${state.tile}, and who gets from it`;
    planChart.setOption(p.of ? amountPlan(x, p) : partnerPlan(x), true);
    key.replaceChildren(p.of ? "" : planLegend());
    const [pieces, rectangles] = lanes(rowOf(x, state.tile));
    what = pieces;
    timeChart.setOption(timeline(x, what, rectangles), true);
    side.replaceChildren(phaseFacts(x), tileFacts(x));
    const row = rowOf(x, state.tile);
    below.replaceChildren(partnerTable("hears-from", `Tile ${state.tile} gets from`, row.heard, x.operation),
      partnerTable("tells", `Tile ${state.tile} sends to`, row.told, x.operation), busiestTable(x));
  };
  show();
  return show;
}
