// The report as the page uses it. A "point" is 0 for upload, otherwise step index + 1; tiles are physical.

export function argMax(values) {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i] > values[best]) best = i;
  return best;
}

// Live bytes at every point of the buffers of one list: {total, standard, interleaved}.
function sweep(list, points) {
  const standard = new Float64Array(points + 1), interleaved = new Float64Array(points + 1);
  for (let i = 0; i < list.tensor.length; ++i) {
    const change = list.interleaved[i] ? interleaved : standard;
    change[list.first[i]] += list.taken[i];
    change[list.last[i] + 1] -= list.taken[i];
  }
  const total = new Float64Array(points);
  for (let p = 0; p < points; ++p) {
    if (p > 0) standard[p] += standard[p - 1], interleaved[p] += interleaved[p - 1];
    total[p] = standard[p] + interleaved[p];
  }
  return { total, standard: standard.subarray(0, points), interleaved: interleaved.subarray(0, points) };
}

// A report.json with what follows from it.
function open(json) {
  const { compile, error, tool, report } = json;
  const points = report.steps.path.length + 1;
  const liveOfList = new Map();
  const stepName = (point) => (point === 0 ? "upload" : report.steps.paths[report.steps.path[point - 1]] || "(no operation)");
  const peakPoint = argMax(report.fullest.bytes);
  return {
    compile, error, tool, report, points, stepName, peakPoint,
    device: report.device,
    tiles: report.tiles,
    tileCount: report.tiles.list.length,
    peakTile: report.fullest.tile[peakPoint],
    live(tile) {
      const index = report.tiles.list[tile];
      if (!liveOfList.has(index)) liveOfList.set(index, sweep(report.lists[index], points));
      return liveOfList.get(index);
    },
    phases: report.phases.step.map((step, i) => {
      const phase = Object.fromEntries(Object.keys(report.phases).map((key) => [key, report.phases[key][i]]));
      return { ...phase, index: i, operation: stepName(step) };
    }),
  };
}

const read = (id) => JSON.parse(document.getElementById(id).textContent);
export const main = open(read("data"));
export const { compile, error, tool, report, points, stepName, peakPoint, peakTile, device, tiles, tileCount, live, phases } = main;
// The report to compare with, or null.
export const other = (() => {
  const json = read("other");
  return json && open(json);
})();

export function stepKind(point) {
  return point === 0 ? "host" : report.steps.kind[point - 1];
}

// [first point, last point, iterations] of each Repeat.
export const repeats = (() => {
  const found = [];
  report.steps.kind.forEach((kind, step) => {
    if (kind === "repeat begin") found.push([step + 1, points - 1, report.steps.count[step]]);
    if (kind === "repeat end") found[found.length - 1][1] = step + 1;
  });
  return found;
})();

// All bytes of a tile at one point, by class; they add up to its memory.
export function split(tile, point) {
  const held = liveAt(tile, point);
  const sum = (list, of) => list.reduce((a, b) => a + of(b), 0);
  const fixed = areas(tile);
  const area = (kind) => sum(fixed.filter((a) => a.kind === kind), (a) => a.used ?? a.end - a.begin);
  const out = {
    parameters: sum(held.filter((b) => b.parameter), (b) => b.bytes),
    tensors: sum(held.filter((b) => !b.parameter), (b) => b.bytes),
    padding: sum(held, (b) => b.taken - b.bytes),
    code: area("code"), program: area("program"), table: area("table"), system: area("system"),
    reserve: sum(fixed.filter((a) => a.used !== undefined), (a) => a.end - a.begin - a.used),
  };
  return { ...out, free: device.memory_end - device.memory_base - sum(Object.values(out), (n) => n) };
}

// Buffers of a tile, ascending by address.
export function buffers(tile) {
  const list = report.lists[tiles.list[tile]];
  return list.tensor.map((tensor, i) => ({
    name: report.tensors[tensor],
    address: list.address[i],
    bytes: list.bytes[i],
    taken: list.taken[i],
    first: list.first[i],
    last: list.last[i],
    parameter: list.parameter[i] === 1,
    memory: list.interleaved[i] ? "interleaved" : "standard",
    kind: list.first[i] === 0 && list.last[i] === points - 1 ? "resident" : "transient",
  }));
}

// A model that does not fit: buffers that found no place have address 0.
export const placed = (buffer) => buffer.address > 0;

export function liveAt(tile, point) {
  return buffers(tile).filter((b) => b.first <= point && b.last >= point);
}

// What is not for tensors. Program and table: the bytes of this tile, the rest of their area is reserve.
export function areas(tile) {
  const used = { program: tiles.program_bytes[tile], table: tiles.table_bytes[tile] };
  return report.areas.name.map((name, i) => ({
    name,
    kind: report.areas.kind[i],
    begin: report.areas.begin[i],
    end: report.areas.end[i],
    used: used[report.areas.kind[i]],
  }));
}

// Everything between the first and the last byte of a tile at one point, in address order, holes in.
export function contents(tile, point) {
  const fixed = areas(tile).flatMap((a) => {
    if (a.used === undefined) return [{ ...a, bytes: a.end - a.begin }];
    const middle = a.begin + a.used;
    return [
      { ...a, end: middle, bytes: a.used },
      { ...a, name: `${a.name}: reserve`, kind: "reserve", begin: middle, bytes: a.end - middle },
    ];
  });
  const held = liveAt(tile, point).filter(placed).map((b) => ({ ...b, begin: b.address, end: b.address + b.taken }));
  const all = [...fixed, ...held].filter((x) => x.end > x.begin).sort((a, b) => a.begin - b.begin);
  const out = [];
  const hole = (begin, end) => {
    const split = device.interleaved_base;  // nothing stands across the start of interleaved memory
    if (begin < split && split < end) return hole(begin, split), hole(split, end);
    if (end > begin) out.push({ name: "free", kind: "hole", begin, end, bytes: end - begin });
  };
  let at = device.memory_base;
  for (const x of all) {
    hole(at, x.begin);
    out.push(x);
    at = Math.max(at, x.end);
  }
  hole(at, device.memory_end);
  return out;
}

export const longestPhase = argMax(phases.map((p) => p.exchange_cycles));
