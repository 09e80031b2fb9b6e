// Cycles and multiply-adds by operation and by kernel. What happens between two phases counts for the operation of
// the later one, what follows the last phase for that one's, as in the compiler's own figures.
import { main } from "./data.js";

// Added up over uses of kernels, most cycles first: {name, peak, calls, cycles, macs}.
function addKernels(kernels, list) {
  const out = kernels.names.map((name, k) => ({ name, peak: kernels.peak_macs[k], calls: 0, cycles: 0, macs: 0 }));
  for (const u of list) {
    const k = out[u.kernel];
    for (const key of ["calls", "cycles", "macs"]) k[key] += u[key];
  }
  return out.filter((k) => k.calls > 0).sort((a, b) => b.cycles - a.cycles);
}

// Cycles that `useful` multiply-adds take on all tiles at the peak, in the formats that the products ran in.
function limitOf(useful, products, tiles) {
  const executed = products.reduce((a, k) => a + k.macs, 0);
  if (!useful || executed === 0) return null;
  const cycles = products.reduce((a, k) => a + k.macs / k.peak, 0);
  return ((useful / executed) * cycles) / tiles;
}

function addPhases(data, entry) {
  for (const p of data.phases) {
    const o = entry(p.operation);
    o.phases.push(p.index);
    o.exchange += p.exchange_cycles;
    o.kernel += p.kernel_cycles_max;
    o.setup += (p.before_cycles ?? p.kernel_cycles_max) - p.kernel_cycles_max;
    o.words += p.words * p.iterations;
  }
  if (data.phases.length === 0) return;
  const last = entry(data.phases.at(-1).operation);
  const kernels = data.report.kernel_cycles_after ?? 0;
  last.kernel += kernels;
  last.setup += (data.report.cycles_after ?? kernels) - kernels;
}

// A report by operation, in program order. Reports of earlier versions lack kernels and multiply-adds.
export function operationsOf(data) {
  const { compile, report, phases, tileCount } = data;
  const kernels = report.kernels ?? { names: [], phase: [] };
  const usedTiles = compile?.target?.tiles ?? tileCount;
  const uses = kernels.phase.map((phase, i) => ({
    operation: phases[Math.min(phase, phases.length - 1)]?.operation ?? "",
    kernel: kernels.kernel[i], calls: kernels.calls[i], cycles: kernels.cycles[i], macs: kernels.macs[i],
  }));
  const byName = new Map();
  const entry = (name) => {
    if (!byName.has(name))
      byName.set(name, { name, phases: [], exchange: 0, kernel: 0, setup: 0, words: 0, estimated: null, scheduled: null, useful: null });
    return byName.get(name);
  };
  addPhases(data, entry);
  const listed = compile?.cycles?.operations;
  for (const c of Array.isArray(listed) ? listed : [])
    if (byName.has(c?.path)) Object.assign(entry(c.path), { estimated: c.estimated, scheduled: c.scheduled, useful: c.macs ?? null });
  const byKernel = (operation) => addKernels(kernels, operation ? uses.filter((u) => u.operation === operation) : uses);
  for (const o of byName.values()) {
    const products = byKernel(o.name).filter((k) => k.peak > 0);
    o.cycles = o.exchange + o.kernel + o.setup;
    o.executed = products.reduce((a, k) => a + k.macs, 0);
    o.limit = limitOf(o.useful, products, usedTiles);
  }
  const operations = [...byName.values()];
  const sum = (key) => operations.reduce((a, o) => a + (o[key] ?? 0), 0);
  return { operations, byKernel, usedTiles, callCycles: report.cycles ?? sum("cycles"),
    limit: operations.some((o) => o.limit !== null) ? sum("limit") : null };  // null: the package does not tell
}

export const { operations, byKernel, usedTiles, callCycles, limit } = operationsOf(main);
