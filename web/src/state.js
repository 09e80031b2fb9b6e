// What the reader chose. Kept in the address, so that a link shows the same.
import { longestPhase, peakPoint, peakTile, phases, points, tileCount } from "./data.js";
import { setUnits } from "./format.js";

const listeners = [];
export const state = { view: "summary", tile: peakTile, point: peakPoint, phase: longestPhase, colour: "peak_bytes",
  picture: "partners", contrast: "peak_bytes", order: "program", operation: "", units: "B" };
const texts = ["view", "colour", "picture", "contrast", "order", "operation"];

function within(text, limit, fallback) {
  const n = Number.parseInt(text, 10);
  return Number.isNaN(n) ? fallback : Math.min(Math.max(n, 0), limit - 1);
}

export function readAddress() {
  const q = new URLSearchParams(location.hash.slice(1));
  for (const key of texts) if (q.has(key)) state[key] = q.get(key);
  state.tile = within(q.get("tile"), tileCount, state.tile);
  state.point = within(q.get("step"), points, state.point);
  state.phase = within(q.get("phase"), phases.length, state.phase);
  state.units = q.get("units") === "KiB" ? "KiB" : "B";
  setUnits(state.units);
}

export function change(next) {
  Object.assign(state, next);
  state.phase = within(state.phase, phases.length, 0);
  if ("phase" in next && phases.length > 0) state.point = phases[state.phase].step;  // the other views follow
  state.tile = within(state.tile, tileCount, 0);
  state.point = within(state.point, points, 0);
  setUnits(state.units);
  const q = new URLSearchParams({ tile: state.tile, step: state.point, phase: state.phase, units: state.units });
  for (const key of texts) q.set(key, state[key]);
  history.replaceState(null, "", `#${q}`);
  for (const listener of listeners) listener(Object.keys(next));
}

export const onChange = (listener) => listeners.push(listener);
