// Namespaces and their keys: a value by its type, with operations of that type, and why it is what it is.

import { h } from "./dom.js";
import { badge, button, errorNote, facts, mono, more, panel, table } from "./panels.js";
import { number, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { del, get, getWhole, post, put, segment } from "./api.js";
import { textOf } from "./diff.js";

const state = { spaces: undefined, error: undefined, space: "default", prefix: "", list: undefined, listError: undefined, key: null, found: undefined, clock: "" };
const base = () => `/v1/namespaces/${segment(state.space)}`;

async function loadSpaces(redraw) {
  try { state.spaces = (await get("/v1/namespaces")).namespaces; state.error = undefined; } catch (error) { state.error = error; }
  redraw();
}

async function load(redraw, page) {
  try {
    const list = await get(`${base()}/store/range`, { prefix: state.prefix, limit: 100, page });
    state.list = page ? { ...list, entries: [...state.list.entries, ...list.entries] } : list;
    state.listError = undefined;
  } catch (error) { state.listError = error; }
  redraw();
}

async function look(key, redraw) {
  Object.assign(state, { key, found: state.key === key ? state.found : undefined });
  redraw();
  try {
    const { body, headers } = await getWhole(`${base()}/data/${segment(key)}`, { explain: 1 });
    state.found = body;
    state.clock = headers.get("x-vector-clock") || "";
  } catch (error) { state.found = { error }; }
  redraw();
}

async function changed(redraw, change, done) {
  if (await attempt(change, done)) { await look(state.key, redraw); load(redraw); }
}

async function write(redraw) {
  const { found } = state;
  const values = await ask({ title: `Put ${state.key}`, text: "It is written only if nothing is there that this page has not shown.", fields: [{ name: "value", label: "Value: JSON, or else text", value: found && !found.error ? textOf(found.value) : "", rows: 12 }], action: "Put" });
  if (!values) return;
  let value = values.value;
  try { value = JSON.parse(value); } catch { /* it is text */ }
  changed(redraw, () => put(`${base()}/data/${segment(state.key)}`, { value }, {}, state.clock && !found.error ? { "X-If-Vector-Clock": state.clock } : {}), "Written");
}

async function operate(redraw, kind, word, label, name) {
  const values = await ask({ title: `${label}: ${state.key}`, fields: [{ name, label: name, value: name === "amount" ? "1" : "" }], action: label });
  if (!values) return;
  const argument = name === "amount" ? { amount: Number(values.amount) } : { [name]: values[name] };
  changed(redraw, () => post(`${base()}/crdt/${segment(state.key)}/${word}`, argument, { type: kind }), "Done");
}

const OPERATIONS = {
  pncounter: [["counter", "increment", "Add", "amount"], ["counter", "decrement", "Subtract", "amount"]],
  gcounter: [["gcounter", "increment", "Add", "amount"]],
  orset: [["set", "add", "Add element", "element"], ["set", "remove", "Remove element", "element"]],
  delta_numeric: [["delta_numeric", "add", "Add", "delta"], ["delta_numeric", "subtract", "Subtract", "delta"]],
};

function valueOf(found) {
  if (found.siblings && found.siblings.length > 1) return h("div", { className: "sides" }, found.siblings.map((sibling, nth) => h("div", null, h("h3", null, `value ${nth + 1}`), h("pre", null, textOf(sibling)))));
  if (Array.isArray(found.value)) return h("ul", { className: "chips" }, found.value.slice(0, 500).map(item => h("li", null, textOf(item))));
  return h("pre", { className: "value", tabindex: "0" }, textOf(found.value));
}

function why(explain) {
  if (!explain) return null;
  return h("div", null, h("h3", null, "Why this value"),
    h("ul", { className: "plain" }, (explain.because || []).map(text => h("li", null, text))),
    facts([["Written by", explain.written_by ? `${explain.written_by.node} in ${explain.written_by.region}, write ${explain.written_by.counter}` : "–"], ["At", explain.hlc ? time(explain.hlc.physical) : "–"], ["Replicas", explain.replicas.map(node => node.name || node.node).join(", ")], ["Read counts", `${explain.r} of ${explain.n}`], ["Write counts", `${explain.w} of ${explain.n}`], ["Partition", number(explain.partition)], explain.home_region ? ["Home", explain.home_region] : null, ["Preferred to", explain.preferred_to.length ? explain.preferred_to.map(other => `a write of ${other.written_by.node} (${other.rule})`).join("; ") : "no other write"]]));
}

function keyPanel(redraw) {
  const { found } = state;
  const isThere = found && !found.error;
  const operations = isThere ? OPERATIONS[found.type] || [] : [];
  const remove = async () => {
    const sure = await ask({ title: `Delete ${state.key}`, text: "The key is deleted in every region, if nothing is there that this page has not shown.", action: "Delete", danger: true });
    if (sure) changed(redraw, () => del(`${base()}/data/${segment(state.key)}`, {}, { "X-If-Vector-Clock": state.clock }), "Deleted");
  };
  return panel(state.key, {
    id: "value", data: found,
    actions: [operations.map(([kind, word, label, name]) => button(label, () => operate(redraw, kind, word, label, name))), operations.length ? null : button("Edit", () => write(redraw)), isThere ? button("Delete", remove, { className: "danger" }) : null],
    body: () => found.error ? errorNote(found.error) : h("div", null, facts([["Type", badge(found.type, "info")], ["Created", time(found.created_at)], ["Changed", time(found.last_modified)], found.expires_at ? ["Expires", time(found.expires_at)] : null, ["Versions", Object.entries(found.vector_clock).map(([region, count]) => `${region} ${count}`).join(", ")]]), valueOf(found), why(found.explain)),
  });
}

export const page = {
  name: "data", title: "Data", topics: [],
  enter({ path, redraw }) {
    state.space = path[0] || state.space;
    if (path[1]) look(path[1], redraw);
    loadSpaces(redraw);
    load(redraw);
  },
  render({ redraw }) {
    const { list } = state;
    const find = event => { event.preventDefault(); state.prefix = event.target.elements.prefix.value; state.list = undefined; redraw(); load(redraw); };
    const create = async () => {
      const values = await ask({ title: "Open or create a key", fields: [{ name: "key", label: "Key", value: state.prefix }], action: "Open" });
      if (values && values.key) look(values.key, redraw);
    };
    const text = entry => { const shown = textOf(entry.value); return shown.length > 80 ? `${shown.slice(0, 80)} …` : shown; };
    return [
      panel("Namespaces", { id: "namespaces", data: state.spaces, error: state.error, empty: spaces => spaces.length ? null : "No namespace is visible to this user.", body: spaces => table("namespaces", [
        { title: "Namespace", sort: space => space.namespace, cell: space => h("a", { href: `#/data/${segment(space.namespace)}`, "aria-current": space.namespace === state.space ? "true" : undefined }, space.namespace) },
        { title: "Copies", className: "num", sort: space => space.n, cell: space => space.n },
        { title: "Type", cell: space => space.default_type },
        { title: "Conflicts", cell: space => space.conflict_policy },
      ], spaces, { key: space => space.namespace, redraw }) }),
      h("form", { className: "tools", key: "tools", role: "search", onsubmit: find }, h("strong", null, state.space), h("span", { className: "grow" }), h("input", { name: "prefix", type: "search", placeholder: "Prefix", "aria-label": "Prefix", value: state.prefix }), h("button", { type: "submit" }, "Find"), button("Open key", create, { className: "primary" })),
      h("div", { className: "columns wide-right", key: "columns" },
        panel("Keys", { id: "data", data: list, error: state.listError, hint: list && !list.complete ? "some partitions did not answer" : null, empty: data => data.entries.length ? null : "No key begins so.", body: () => h("div", null, table("data", [
          { title: "Key", sort: entry => entry.key, cell: entry => h("button", { type: "button", className: "name", onclick: () => look(entry.key, redraw) }, mono(entry.key)) },
          { title: "Type", sort: entry => entry.type, cell: entry => entry.type || "" },
          { title: "Value", className: "clip", cell: text },
          { title: "Changed", sort: entry => entry.timestamp, cell: entry => time(entry.timestamp) },
        ], list.entries, { key: entry => entry.key, redraw }), more(list.next_page, () => load(redraw, list.next_page))) }),
        state.key ? keyPanel(redraw) : panel("Value", { id: "value", data: true, body: () => h("p", { className: "empty" }, "Choose a key to see its value, its replicas and why it is what it is.") })),
    ];
  },
};
