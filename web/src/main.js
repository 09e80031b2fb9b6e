import { compile, peakPoint, peakTile, points, stepKind, stepName, tileCount, tiles, tool } from "./data.js";
import { el, figure } from "./dom.js";
import { change, onChange, readAddress, state } from "./state.js";
import * as floor from "./views/floor.js";
import * as liveness from "./views/liveness.js";
import * as memory from "./views/memory.js";
import * as phases from "./views/phases.js";
import * as summary from "./views/summary.js";

const views = { summary, floor, liveness, memory, phases };
const selecting = new Set(["floor", "liveness", "memory"]);
let update = () => {};

function title() {
  if (!compile?.model) return "package without a summary";
  const m = compile.model;
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : word === "batch" ? "" : "s"}`;
  return `${m.name} · ${many(m.layers, "layer")} · batch ${m.batch} · ${compile.precision} · policy ${compile.policy}`;
}

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

function selector() {
  const tile = el("input", { type: "number", id: "tile", min: "0", max: tileCount - 1, value: state.tile,
    change: (e) => change({ tile: Number(e.target.value) }) });
  const step = el("input", { type: "range", id: "step", min: "0", max: points - 1, value: state.point,
    input: (e) => change({ point: Number(e.target.value) }) });
  const note = el("output", { id: "step-name", for: "step" });
  const logical = el("span", { class: "muted", id: "logical" });
  const move = (text, by, label) =>
    el("button", { type: "button", "aria-label": label, click: () => change({ point: state.point + by }) }, text);
  const show = () => {
    tile.value = state.tile;
    step.value = state.point;
    step.setAttribute("aria-valuetext", `${state.point}: ${stepName(state.point)}`);
    logical.textContent = `logical ${tiles.logical[state.tile]}`;
    note.replaceChildren(figure(state.point, `${state.point} of ${points - 1}`), " ",
      el("span", { class: "path" }, stepName(state.point)), " ",
      el("span", { class: "muted" }, stepKind(state.point)));
  };
  show();
  return [el("section", { class: "selector", "aria-label": "tile and step" },
    el("div", { class: "field" }, el("label", { for: "tile" }, "Tile"), tile, logical,
      el("button", { type: "button", id: "fullest", click: () => change({ tile: peakTile, point: peakPoint }) },
        "Fullest tile and step")),
    el("div", { class: "field grow" }, el("label", { for: "step" }, "Step"),
      move("‹", -1, "one step back"), step, move("›", 1, "one step on"),
      el("button", { type: "button", id: "tile-peak", click: () => change({ point: tiles.peak_step[state.tile] }) },
        "Tile’s peak")),
    note), show];
}

function draw() {
  const view = views[state.view] ?? summary;
  const main = el("main", { id: "view", role: "tabpanel", "aria-labelledby": `tab-${state.view}` });
  const [bar, showSelection] = selecting.has(state.view) ? selector() : [null, () => {}];
  document.getElementById("app").replaceChildren(
    el("header", { class: "top" },
      el("div", {}, el("p", { class: "brand" }, "Tilewright report"), el("h1", {}, title())),
      unitChoice()),
    tabs(),
    ...(bar ? [bar] : []),
    main,
    el("footer", {}, `tilewright ${tool.version} (${tool.commit}). All numbers of this page are in report.json.`));
  const updateView = view.mount(main);
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
