// One exchange phase in full: what every tile hears and sends, and when. Times are cycles of the tile itself from
// the start of its row; every tile starts when the barrier's release reaches it.
import { phases, report } from "./data.js";

const lists = report.exchange;
const fabric = report.fabric;

// From the cycle in which a word leaves `from` to the one in which it reaches the mux of `to`, less one; on their
// own clocks, so it can be negative.
export function travel(from, to) {
  return fabric[`send_time_${fabric.half[to]}`][from] + fabric.receive_time[to] +
    Math.abs(fabric.receive_route[to] - fabric.send_route[from]);
}

// {begin, words, partner, tensor} of each turn of the tile's mux to a sender.
function windows(phase, i) {
  const gaps = lists.gaps[phase.gaps[i]], words = lists.words[phase.words[i]], sources = lists.sources[phase.sources[i]];
  const tensors = lists.tensors[phase.tensors[i]];
  let at = 0, next = 0, tensor = -1;
  return gaps.map((gap, w) => {
    if (tensors[next] === w) tensor = tensors[next + 1], next += 2;
    const begin = at + gap;
    at = begin + words[w];
    return { begin, words: words[w], partner: sources[w], tensor };
  });
}

function build(index) {
  const phase = lists.phases[index];
  const rows = new Map();
  phase.tile.forEach((tile, i) => {
    const heard = windows(phase, i);
    rows.set(tile, { tile, events: phase.events[i], bytes: phase.bytes[i], messages: phase.messages[i], sent: phase.sent[i],
      received: heard.reduce((a, w) => a + w.words, 0), heard, told: [] });
  });
  for (const row of rows.values())
    for (const w of row.heard)
      rows.get(w.partner)?.told.push({ begin: w.begin - 1 - travel(w.partner, row.tile), words: w.words, partner: row.tile, tensor: w.tensor });
  for (const row of rows.values()) row.told.sort((a, b) => a.begin - b.begin || a.words - b.words || a.partner - b.partner);
  return { ...phases[index], rows };
}

let latest = null;
export function exchangeOf(index) {
  if (latest?.index !== index) latest = build(index);
  return latest;
}

const idle = { events: 0, bytes: 0, messages: 0, sent: 0, received: 0, heard: [], told: [] };
export const rowOf = (exchange, tile) => exchange.rows.get(tile) ?? { tile, ...idle };

// Told pieces that leave together are one message to several tiles.
export function messagesOf(row) {
  const out = [];
  for (const t of row.told) {
    const last = out.at(-1);
    if (last && last.begin === t.begin && last.words === t.words) last.partners.push(t.partner);
    else out.push({ begin: t.begin, words: t.words, partners: [t.partner], tensor: t.tensor });
  }
  return out;
}

// Partners of a tile in one direction: {tile, words, times, from, to, tensors}, most words first.
export function partners(pieces) {
  const by = new Map();
  for (const p of pieces) {
    const end = p.begin + p.words;
    const known = by.get(p.partner);
    if (!known) by.set(p.partner, { tile: p.partner, words: p.words, times: 1, from: p.begin, to: end, tensors: new Set([p.tensor]) });
    else {
      known.words += p.words;
      known.times += 1;
      known.from = Math.min(known.from, p.begin);
      known.to = Math.max(known.to, end);
      known.tensors.add(p.tensor);
    }
  }
  return [...by.values()].sort((a, b) => b.words - a.words || a.tile - b.tile);
}

export const tensorName = (index) => (index < 0 ? "(no tensor)" : report.tensors[index]);

// How many tiles hear and tell in each of `bins` equal stretches of the phase, on average.
function measure(exchange, bins) {
  const width = Math.max(1, exchange.horizon / bins);
  const hear = new Float64Array(bins), tell = new Float64Array(bins);
  const add = (to, begin, words) => {
    const end = begin + words;
    for (let b = Math.max(0, Math.floor(begin / width)); b < bins && b * width < end; ++b)
      to[b] += Math.max(0, Math.min(end, (b + 1) * width) - Math.max(begin, b * width));
  };
  for (const row of exchange.rows.values()) {
    for (const w of row.heard) add(hear, w.begin, w.words);
    for (const m of messagesOf(row)) add(tell, m.begin, m.words);
  }
  return { width, hear: hear.map((x) => x / width), tell: tell.map((x) => x / width) };
}
export const activity = (exchange) => (exchange.activity ??= measure(exchange, 240));
