// Cycles and multiply-adds by operation and by kernel. What happens between two phases counts for the operation of
// the later one, what follows the last phase for that one's, as in the compiler's own figures.
import { compile, phases, report, tileCount } from "./data.js";

const kernels = report.kernels;
export const usedTiles = compile?.target?.tiles ?? tileCount;
export const callCycles = report.cycles;

// {phase, kernel, calls, cycles, cycles_max, macs, operation} of each use.
export const uses = kernels.phase.map((phase, i) => ({
  operation: phases[Math.min(phase, phases.length - 1)]?.operation ?? "",
  kernel: kernels.kernel[i], calls: kernels.calls[i], cycles: kernels.cycles[i], macs: kernels.macs[i],
}));

// By kernel, most cycles first: {name, peak, calls, cycles, macs}.
export function byKernel(list) {
  const out = kernels.names.map((name, k) => ({ name, peak: kernels.peak_macs[k], calls: 0, cycles: 0, macs: 0 }));
  for (const u of list) {
    const k = out[u.kernel];
    for (const key of ["calls", "cycles", "macs"]) k[key] += u[key];
  }
  return out.filter((k) => k.calls > 0).sort((a, b) => b.cycles - a.cycles);
}

// Cycles that `useful` multiply-adds take on all tiles at the peak, in the formats that the products ran in.
function limitOf(useful, products) {
  const executed = products.reduce((a, k) => a + k.macs, 0);
  if (!useful || executed === 0) return null;
  const cycles = products.reduce((a, k) => a + k.macs / k.peak, 0);
  return ((useful / executed) * cycles) / usedTiles;
}

function operationOf(name) {
  return { name, phases: [], cycles: 0, exchange: 0, kernel: 0, setup: 0, words: 0, estimated: null, scheduled: null, useful: null };
}

export const operations = (() => {
  const byName = new Map();
  const entry = (name) => {
    if (!byName.has(name)) byName.set(name, operationOf(name));
    return byName.get(name);
  };
  for (const p of phases) {
    const o = entry(p.operation);
    o.phases.push(p.index);
    o.exchange += p.exchange_cycles;
    o.kernel += p.kernel_cycles_max;
    o.setup += p.before_cycles - p.kernel_cycles_max;
    o.words += p.words * p.iterations;
  }
  if (phases.length > 0) {
    const last = entry(phases.at(-1).operation);
    last.kernel += report.kernel_cycles_after;
    last.setup += report.cycles_after - report.kernel_cycles_after;
  }
  for (const c of compile?.cycles?.operations ?? [])
    Object.assign(entry(c.path), { estimated: c.estimated, scheduled: c.scheduled, useful: c.macs ?? null });
  for (const o of byName.values()) {
    const products = byKernel(uses.filter((u) => u.operation === o.name)).filter((k) => k.peak > 0);
    o.cycles = o.exchange + o.kernel + o.setup;
    o.executed = products.reduce((a, k) => a + k.macs, 0);
    o.limit = limitOf(o.useful, products);
  }
  return [...byName.values()];
})();

// Of all products; null when the package does not tell useful multiply-adds.
export const limit = operations.some((o) => o.limit !== null) ? operations.reduce((a, o) => a + (o.limit ?? 0), 0) : null;
