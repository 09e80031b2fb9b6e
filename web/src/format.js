// Numbers as text. Units of bytes follow the page's choice.

let units = "B";
export function setUnits(next) {
  units = next;
}
export const byteUnit = () => units;

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
export const ratio = (n) => (n === null || n === undefined ? "–" : n >= 1000 ? whole.format(n) : n.toFixed(2));
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  return units === "KiB" ? `${tenth.format(n / 1024)} KiB` : `${whole.format(n)} B`;
}
export const hex = (address) => `0x${address.toString(16).toUpperCase().padStart(5, "0")}`;
export const percent = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(1)} %` : "–");

// Distance of an axis' ticks that are round in the chosen unit; undefined: the chart's own choice.
export function byteInterval(max) {
  if (units !== "KiB" || !(max > 0)) return undefined;
  const raw = max / 1024 / 5, power = 10 ** Math.floor(Math.log10(raw));
  return 1024 * power * [1, 2, 5, 10].find((m) => m * power >= raw);
}

// Short labels of axes.
export function short(n) {
  if (n < 0) return `−${short(-n)}`;
  if (n >= 1e6) return `${+(n / 1e6).toFixed(2)} M`;
  if (n >= 1e3) return `${+(n / 1e3).toFixed(1)} k`;
  return `${+n.toFixed(1)}`;
}
export const shortBytes = (n) => (n < 0 ? `−${shortBytes(-n)}` : units === "KiB" ? `${+(n / 1024).toFixed(1)}` : short(n));
