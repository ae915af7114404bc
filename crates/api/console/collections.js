// Collections whose elements are rows of their own: a page of them, and the operations of their type.

import { h } from "./dom.js";
import { Pages, badge, button, errorNote, facts, pager, table } from "./panels.js";
import { number } from "./format.js";
import { get } from "./api.js";
import { textOf } from "./diff.js";

const TYPES = {
  bigset: { row: element => [element], columns: ["Element"], one: "element", operations: [["add", "Add element", ["element"]]], remove: element => ({ element }) },
  map: { row: ({ field, value }) => [field, value], columns: ["Field", "Value"], operations: [["set", "Set field", ["field", "value"]], ["increment", "Increment field", ["field", "by"]]], remove: ({ field }) => ({ field }) },
  sorted_set: { row: ({ member, score }) => [member, score], columns: ["Member", "Score"], operations: [["set", "Set score", ["member", "score"]], ["increment", "Increment score", ["member", "by"]]], remove: ({ member }) => ({ member }) },
  list: { row: ({ value }, place) => [number(place), value], columns: ["Place", "Value"], operations: [["push", "Push", ["value", "end"]], ["pop", "Pop", ["end"]]], remove: ({ position }) => ({ position }) },
  flag: { operations: [["enable", "Enable", []], ["disable", "Disable", []]] },
  hyperloglog: { operations: [["observe", "Observe element", ["element"]]] },
};
const ROWS = 50;
const OPTIONS = { end: ["last", "first"] };

export const isCollection = kind => kind in TYPES;

export class Collection {
  constructor(path, kind) {
    Object.assign(this, { path, kind, type: TYPES[kind], pages: new Pages(), data: undefined, error: undefined });
  }

  async load() {
    const { at } = this.pages;
    try {
      const data = await get(this.path, { type: this.kind, limit: ROWS, page: at });
      if (at === this.pages.at) [this.data, this.error] = [data, undefined];
    } catch (error) { this.error = error; }
  }

  // Words with what they ask for: a value may be JSON, or else is text.
  operations() {
    const field = name => ({ name, label: name === "value" ? "Value: JSON, or else text" : name === "by" ? "By" : name[0].toUpperCase() + name.slice(1), value: name === "by" ? "1" : "", rows: name === "value" ? 6 : undefined, options: OPTIONS[name], ...(OPTIONS[name] ? { value: OPTIONS[name][0] } : {}) });
    return this.type.operations.map(([word, label, names]) => ({ word, label, fields: names.map(field), argument: argumentOf }));
  }

  view(redraw, onRemove) {
    if (this.error) return errorNote(this.error);
    if (!this.data) return h("p", { className: "quiet", role: "status" }, "Loading …");
    const { data, type } = this;
    if (!type.row) return facts([[this.kind === "flag" ? "State" : "Different elements, about", this.kind === "flag" ? badge(data.value ? "on" : "off", data.value ? "good" : "") : number(data.value)]]);
    const items = data.elements || data.entries;
    const before = this.pages.before.length * ROWS;
    const rows = items.map((item, nth) => ({ item, cells: type.row(item, before + nth) }));
    const columns = type.columns.map((title, nth) => ({ title, className: nth ? "clip" : "", cell: row => h("code", null, textOf(row.cells[nth])) }));
    columns.push({ title: "", cell: row => button("Remove", () => onRemove(type.remove(row.item)), { className: "danger small" }) });
    return h("div", null, facts([["Elements", data.size === null ? "being counted" : number(data.size)]]),
      rows.length ? table("collection", columns, rows, { key: row => textOf(row.cells[0]), label: "Elements" }) : h("p", { className: "empty" }, "It is empty."),
      pager(this.pages, data.next_page, async () => { await this.load(); redraw(); }));
  }
}

function argumentOf(values) {
  const argument = { ...values };
  if ("value" in argument) try { argument.value = JSON.parse(argument.value); } catch { /* it is text */ }
  return argument;
}
