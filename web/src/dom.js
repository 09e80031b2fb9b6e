// Elements: el("p", {class: "note"}, "text", child, ...). Functions become listeners, false leaves out.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// A figure that programs can read: the raw number stands in the value attribute.
export function figure(value, text) {
  return el("data", { value: value ?? "" }, text);
}

// Paths break behind their separators.
export function path(text) {
  return el("span", { class: "path" }, text.split(/(?<=[./])/).flatMap((part) => [part, el("wbr")]));
}

// columns: {title, number, value(row), text(row), to(row): what a link in the cell does, note}; rows may have a
// marked one.
export function table(caption, columns, rows, { marked = () => false, onPick, limit = 400, quiet = false, dense = false, scroll = Math.min(rows.length, limit) > 36 } = {}) {
  const shown = rows.slice(0, limit);
  const head = el("tr", {}, columns.map((c) =>
    el("th", { scope: "col", class: c.number ? "number" : false, title: c.note ?? false }, c.title)));
  const body = shown.map((row) => {
    const cells = columns.map((c) => {
      const text = c.value ? figure(c.value(row), c.text(row)) : c.wrap ? path(c.text(row)) : c.text(row);
      return el("td", { class: c.number ? "number" : c.wrap ? "name" : false },
        c.to ? el("button", { type: "button", class: "link", title: c.hint ?? false, click: () => c.to(row) }, text) : text);
    });
    const line = el("tr", { "aria-current": marked(row) ? "true" : false, class: row.kind ?? false }, cells);
    if (onPick) {
      line.tabIndex = 0;
      line.classList.add("pick");
      line.addEventListener("click", () => onPick(row));
      line.addEventListener("keydown", (e) => {
        if (e.key === "Enter") onPick(row);
      });
    }
    return line;
  });
  return el("div", { class: scroll ? "scroll" : "scroll whole", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: dense ? "dense" : false },
      el("caption", { class: quiet ? "quiet" : false }, rows.length > limit ? `${caption}; the first ${limit} of ${rows.length}` : caption),
      el("thead", {}, head), el("tbody", {}, body)));
}

export function facts(pairs, layout = "facts") {
  return el("dl", { class: layout }, pairs.map(([term, value, text]) =>
    el("div", {}, el("dt", {}, term), el("dd", {}, value === undefined ? text : figure(value, text)))));
}
