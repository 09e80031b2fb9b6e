import { nameOf, sameSteps } from "./compare.js";
import { longestPhase, main, other, peakPoint, peakTile, phases as allPhases, points, stepKind, stepName, tileCount, tiles, tool } from "./data.js";
import { el, figure } from "./dom.js";
import { change, onChange, readAddress, state } from "./state.js";
import * as compare from "./views/compare.js";
import * as exchange from "./views/exchange.js";
import * as floor from "./views/floor.js";
import * as liveness from "./views/liveness.js";
import * as memory from "./views/memory.js";
import * as operations from "./views/operations.js";
import * as phases from "./views/phases.js";
import * as summary from "./views/summary.js";

const views = { summary, floor, liveness, memory, ...(allPhases.length > 0 ? { phases, exchange, operations } : {}),
  ...(other ? { compare } : {}) };
const selectors = { floor: stepChoice, liveness: stepChoice, memory: stepChoice, exchange: phaseChoice, compare: other && sameSteps() ? stepChoice : fullestChoice };
let update = () => {};

function unitChoice() {
  const button = (unit) =>
    el("button", { type: "button", "aria-pressed": String(state.units === unit), click: () => change({ units: unit }) },
      unit);
  return el("div", { class: "choice", role: "group", "aria-label": "unit of bytes" }, button("B"), button("KiB"));
}

function tabs() {
  const names = Object.keys(views);
  const bar = el("div", { role: "tablist", "aria-label": "views", class: "tabs" });
  names.forEach((name, i) => {
    const selected = state.view === name;
    bar.append(el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(selected), "aria-controls": "view",
      tabindex: selected ? "0" : "-1",
      click: () => change({ view: name }),
      keydown: (e) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (!move) return;
        e.preventDefault();
        change({ view: names[(i + move + names.length) % names.length] });
        document.getElementById(`tab-${state.view}`).focus();
      },
    }, views[name].title));
  });
  return bar;
}

// Each choice: its fields and a function that shows the state in them.
function tileChoice(more) {
  const tile = el("input", { type: "number", id: "tile", min: "0", max: tileCount - 1, value: state.tile,
    change: (e) => change({ tile: Number(e.target.value) }) });
  const logical = el("span", { class: "muted", id: "logical" });
  const show = () => {
    tile.value = state.tile;
    logical.textContent = `logical ${tiles.logical[state.tile]}`;
  };
  return [el("div", { class: "field" }, el("label", { for: "tile" }, "Tile"), tile, logical, more), show];
}

const button = (id, text, click, label) => el("button", { type: "button", id, click, "aria-label": label ?? false }, text);

function slider(id, label, key, last, more) {
  const range = el("input", { type: "range", id, min: "0", max: last, value: state[key],
    input: (e) => change({ [key]: Number(e.target.value) }) });
  return [el("div", { class: "field grow" }, el("label", { for: id }, label),
    button(false, "‹", () => change({ [key]: state[key] - 1 }), `one ${id} back`), range,
    button(false, "›", () => change({ [key]: state[key] + 1 }), `one ${id} on`), more), range];
}

function stepChoice() {
  const [tile, showTile] = tileChoice(
    button("fullest", "Fullest tile and step", () => change({ tile: peakTile, point: peakPoint })));
  const [step, range] = slider("step", "Step", "point", points - 1,
    button("tile-peak", "Tile’s peak", () => change({ point: tiles.peak_step[state.tile] })));
  const note = el("output", { id: "step-name", class: "chosen", for: "step" });
  return [[tile, step, note], () => {
    showTile();
    range.value = state.point;
    range.setAttribute("aria-valuetext", `${state.point}: ${stepName(state.point)}`);
    note.replaceChildren(figure(state.point, `${state.point} of ${points - 1}`), " ",
      el("span", { class: "path" }, stepName(state.point)), " ",
      el("span", { class: "muted" }, stepKind(state.point)));
  }];
}

function fullestChoice() {
  const [tile, show] = tileChoice(button("fullest", "Fullest tile", () => change({ tile: peakTile })));
  return [[tile], show];
}

function phaseChoice() {
  const [tile, showTile] = tileChoice(
    button("busiest", "Busiest tile", () => change({ tile: allPhases[state.phase].bound_tile })));
  const [phase, range] = slider("phase", "Phase", "phase", allPhases.length - 1,
    button("longest", "Longest phase", () => change({ phase: longestPhase })));
  const note = el("output", { id: "phase-name", class: "chosen", for: "phase" });
  return [[tile, phase, note], () => {
    showTile();
    const p = allPhases[state.phase];
    range.value = state.phase;
    range.setAttribute("aria-valuetext", `${state.phase}: ${p.operation}`);
    note.replaceChildren(figure(state.phase, `${state.phase} of ${allPhases.length - 1}`), " ",
      el("span", { class: "path" }, p.operation), " ",
      el("span", { class: "muted" }, `step ${p.step}${p.iterations > 1 ? `, × ${p.iterations}` : ""}`));
  }];
}

function draw() {
  const view = views[state.view] ?? summary;
  const area = el("main", { id: "view", role: "tabpanel", "aria-labelledby": `tab-${state.view}` });
  const [fields, showSelection] = selectors[state.view]?.() ?? [[], () => {}];
  showSelection();
  document.getElementById("app").replaceChildren(
    el("header", { class: "top" },
      el("div", {}, el("p", { class: "brand" }, "Tilewright report"), el("h1", {}, nameOf(main))),
      unitChoice()),
    tabs(),
    ...(fields.length > 0 ? [el("section", { class: "selector", "aria-label": "what is shown" }, fields)] : []),
    area,
    el("footer", {}, `tilewright ${tool.version} (${tool.commit}). All numbers of this page are in report.json.`));
  const updateView = view.mount(area);
  update = (keys) => {
    showSelection();
    updateView(keys);
  };
}

readAddress();
if (!views[state.view]) state.view = "summary";
draw();
onChange((keys) => (keys.includes("view") || keys.includes("units") ? draw() : update(keys)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
