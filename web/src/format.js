// Numbers as text. Units of bytes follow the page's choice.

let units = "B";
export function setUnits(next) {
  units = next;
}
export const byteUnit = () => units;

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
export const ratio = (n) => (n === null || n === undefined ? "–" : n.toFixed(2));
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  return units === "KiB" ? `${tenth.format(n / 1024)} KiB` : `${whole.format(n)} B`;
}
export const hex = (address) => `0x${address.toString(16).toUpperCase().padStart(5, "0")}`;
export const percent = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(1)} %` : "–");

// Short labels of axes.
export function short(n) {
  if (n < 0) return `−${short(-n)}`;
  if (n >= 1e6) return `${+(n / 1e6).toFixed(2)} M`;
  if (n >= 1e3) return `${+(n / 1e3).toFixed(1)} k`;
  return `${+n.toFixed(1)}`;
}
export const shortBytes = (n) => (n < 0 ? `−${shortBytes(-n)}` : units === "KiB" ? `${+(n / 1024).toFixed(1)}` : short(n));
