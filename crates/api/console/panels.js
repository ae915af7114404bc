// The parts that every page is made of: panels with their states, tables, badges, facts.

import { h } from "./dom.js";
import { age } from "./format.js";

// When each document was first drawn, and so about when it came.
const drawnAt = new WeakMap();

function heardAt(data, live) {
  if (live) return live.heardAt;
  if (data === null || typeof data !== "object") return undefined;
  if (!drawnAt.has(data)) drawnAt.set(data, Date.now());
  return drawnAt.get(data);
}

// A panel shows what `body` makes of its data, or why there is none: loading, empty, error, hidden. What could not be read again
// stays as it was last, with its age and the reason.
export function panel(title, { id, data, error, live, empty, actions, body, hint, className } = {}) {
  const heard = heardAt(data, live);
  const isStale = Boolean(data !== undefined && data !== null && (live && live.isStale || error && !isHidden(error)));
  const state = isStale ? "stale" : error ? "error" : data === undefined ? "loading" : "ready";
  const shown = error && !isStale ? errorNote(error)
    : data === undefined ? h("div", { className: "skeleton", role: "status" }, h("span", { className: "quiet" }, "Loading …"))
      : empty && empty(data) ? h("p", { className: "empty" }, empty(data)) : body(data);
  return h("section", { className: `panel ${className || ""} ${state}`, key: id || title, id: id && `panel-${id}`, "data-state": state, "aria-busy": state === "loading" ? "true" : undefined },
    h("header", null, h("h2", null, title), hint && h("span", { className: "quiet" }, hint),
      isStale && h("span", { className: "badge warn" }, heard ? `last heard ${age(heard)}` : "not heard of lately"),
      h("span", { className: "grow" }), actions || []),
    isStale && error ? errorNote(error) : null,
    h("div", { className: "inside" }, shown));
}

const isHidden = error => error.status === 403 || error.error === "permission_denied" || error.word === "permission_denied";

export function errorNote(error) {
  const hidden = isHidden(error);
  return h("p", { className: hidden ? "empty" : "trouble", role: hidden ? undefined : "alert" },
    hidden ? `Hidden: ${error.message}` : error.message || String(error));
}

export const badge = (text, kind) => h("span", { className: `badge ${kind || ""}` }, text);
export const nodesOf = cluster => Object.entries(cluster.nodes).map(([id, node]) => ({ id, ...node })).sort((left, right) => left.name < right.name ? -1 : 1);
export const mono = (text, props) => h("code", props || null, text);
export const link = (href, ...children) => h("a", { href }, ...children);
export const button = (label, onclick, props) => h("button", { type: "button", onclick, ...props }, label);

export function facts(pairs) {
  return h("dl", { className: "facts" }, pairs.filter(Boolean).map(([name, value]) =>
    h("div", { key: name }, h("dt", null, name), h("dd", null, value === undefined || value === null ? "–" : value))));
}

const orders = new Map();

// Columns: { title, cell(row), sort(row), className }. A title that is clicked sorts by it.
export function table(name, columns, rows, { key, onRow, label, redraw } = {}) {
  const order = orders.get(name);
  const sorted = order === undefined ? rows : [...rows].sort((left, right) => compare(columns[order.column].sort, left, right) * order.sign);
  const sortBy = column => () => {
    const before = orders.get(name);
    orders.set(name, { column, sign: before && before.column === column ? -before.sign : 1 });
    if (redraw) redraw();
  };
  const head = (column, nth) => {
    const sorting = order && order.column === nth ? (order.sign > 0 ? "ascending" : "descending") : undefined;
    return h("th", { scope: "col", className: column.className, "aria-sort": sorting },
      column.sort && redraw ? h("button", { type: "button", className: "sort", onclick: sortBy(nth) }, column.title) : column.title);
  };
  const row = (item, nth) => h("tr", {
    key: key ? key(item) : nth, className: onRow ? "open" : undefined, onclick: onRow && (event => { if (!event.target.closest("a,button,input")) onRow(item); }),
  }, columns.map(column => h("td", { className: column.className }, column.cell(item))));
  return h("div", { className: "scroll", tabindex: "0", role: "region", "aria-label": label || name },
    h("table", null, h("thead", null, h("tr", null, columns.map(head))), h("tbody", null, sorted.map(row))));
}

function compare(by, left, right) {
  const [one, other] = [by(left), by(right)];
  return one === other ? 0 : one === null || one === undefined ? 1 : other === null || other === undefined ? -1 : one < other ? -1 : 1;
}

export function meter(share, label) {
  const bounded = Math.max(0, Math.min(1, share || 0));
  return h("span", { className: `meter ${bounded > 0.9 ? "bad" : bounded > 0.75 ? "warn" : ""}`, title: label, role: "img", "aria-label": label },
    h("meter", { min: "0", max: "1", low: "0.75", high: "0.9", optimum: "0", value: bounded }), label);
}

// Which page of a list is shown. The next one begins at a cursor; those of the pages before are kept for the way back.
export class Pages {
  constructor() { this.first(); }

  first() { [this.before, this.at] = [[], ""]; }

  next(cursor) { this.before.push(this.at); this.at = cursor; }

  back() { this.at = this.before.pop() ?? ""; }
}

export function pager(pages, next, onTurn) {
  if (!next && !pages.before.length) return null;
  const turn = change => () => { change(); onTurn(); };
  return h("nav", { className: "pager", "aria-label": "Pages" },
    button("Previous", turn(() => pages.back()), { disabled: pages.before.length ? undefined : true }),
    h("span", { className: "quiet" }, `page ${pages.before.length + 1}`),
    button("Next", turn(() => pages.next(next)), { disabled: next ? undefined : true }));
}

// A field whose text the server filters by: it is asked when the typing rests.
export function filterField(label, value, onFilter) {
  const oninput = ({ target }) => {
    clearTimeout(target.resting);
    target.resting = setTimeout(() => onFilter(target.value), 250);
  };
  return h("input", { type: "search", placeholder: label, "aria-label": label, value, oninput });
}
