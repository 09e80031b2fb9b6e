// What the reader chose: view, tile, point, colour, units. Kept in the address, so that a link shows the same.
import { peakPoint, peakTile, points, tileCount } from "./data.js";
import { setUnits } from "./format.js";

const listeners = [];
export const state = { view: "summary", tile: peakTile, point: peakPoint, colour: "peak_bytes", order: "program",
  units: "B" };

function within(text, limit, fallback) {
  const n = Number.parseInt(text, 10);
  return Number.isNaN(n) ? fallback : Math.min(Math.max(n, 0), limit - 1);
}

export function readAddress() {
  const q = new URLSearchParams(location.hash.slice(1));
  for (const key of ["view", "colour", "order"]) if (q.has(key)) state[key] = q.get(key);
  state.tile = within(q.get("tile"), tileCount, state.tile);
  state.point = within(q.get("step"), points, state.point);
  state.units = q.get("units") === "KiB" ? "KiB" : "B";
  setUnits(state.units);
}

export function change(next) {
  Object.assign(state, next);
  state.tile = within(state.tile, tileCount, 0);
  state.point = within(state.point, points, 0);
  setUnits(state.units);
  const q = new URLSearchParams({ view: state.view, tile: state.tile, step: state.point, colour: state.colour,
    order: state.order, units: state.units });
  history.replaceState(null, "", `#${q}`);
  for (const listener of listeners) listener(Object.keys(next));
}

export const onChange = (listener) => listeners.push(listener);
