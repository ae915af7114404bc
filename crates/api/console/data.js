// Namespaces and their keys: a value by its type, with operations of that type, and why it is what it is.

import { h } from "./dom.js";
import { Pages, badge, button, errorNote, facts, mono, pager, panel, table } from "./panels.js";
import { number, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { ABSENT, condition, dataIfThere, del, get, isSilent, post, put, segment } from "./api.js";
import { textOf } from "./diff.js";
import { Collection, isCollection } from "./collections.js";

const state = { spaces: undefined, error: undefined, space: "default", prefix: "", list: undefined, listError: undefined, pages: new Pages(), elements: new Pages(), key: null, found: undefined, clock: "", collection: null };
const base = () => `/v1/namespaces/${segment(state.space)}`;

async function loadSpaces(redraw) {
  try { state.spaces = (await get("/v1/namespaces")).namespaces; state.error = undefined; } catch (error) { state.error = error; }
  redraw();
}

async function load(redraw) {
  const { at } = state.pages;
  try {
    const list = await get(`${base()}/store/range`, { prefix: state.prefix, limit: 100, page: at });
    if (at !== state.pages.at) return;
    [state.list, state.listError] = [list, undefined];
  } catch (error) { state.listError = error; }
  redraw();
}

async function look(key, redraw) {
  const path = `${base()}/data/${segment(key)}`;
  if (path !== state.path) Object.assign(state, { path, key, found: undefined, clock: "", collection: null, elements: new Pages() });
  redraw();
  try {
    const there = await dataIfThere(state.space, key, { explain: 1 });
    if (path !== state.path) return;
    if (!there) throw ABSENT;
    const { body, headers } = there;
    [state.found, state.foundError, state.clock] = [body, undefined, headers.get("x-vector-clock") || ""];
    if (!isCollection(body.type)) state.collection = null;
    else if (!state.collection || state.collection.kind !== body.type) state.collection = new Collection(`${base()}/crdt/${segment(key)}`, body.type);
    if (state.collection) await state.collection.load();
  } catch (error) {
    if (path !== state.path) return;
    // What was shown stays while the node does not answer.
    if (isSilent(error) && state.found && !state.found.error) state.foundError = error;
    else Object.assign(state, { found: { error }, foundError: undefined, clock: "", collection: null });
  }
  redraw();
}

// A change that was refused is a reason to look again, too.
async function changed(redraw, change, done) {
  await attempt(change, done);
  await look(state.key, redraw);
  load(redraw);
}

async function write(redraw) {
  const { found, key, clock } = state;
  const values = await ask({ title: `Put ${key}`, text: "It is written only if nothing is there that this page has not shown.", fields: [{ name: "value", label: "Value: JSON, or else text", value: found && !found.error ? textOf(found.value) : "", rows: 12 }], action: "Put" });
  if (!values) return;
  let value = values.value;
  try { value = JSON.parse(value); } catch { /* it is text */ }
  changed(redraw, () => put(`${base()}/data/${segment(key)}`, { value }, {}, condition(clock)), "Written");
}

const crdt = (key, word, argument, type) => post(`${base()}/crdt/${segment(key)}/${word}`, argument, { type });

async function operateOnCollection(redraw, kind, { word, label, fields, argument }) {
  const { key } = state;
  const values = fields.length ? await ask({ title: `${label}: ${key}`, fields, action: label }) : {};
  if (values) changed(redraw, () => crdt(key, word, argument(values), kind), "Done");
}

// Types that begin with an operation and not with a value.
async function begin(redraw) {
  const { key } = state;
  const values = await ask({ title: `Begin ${key}`, text: "A collection begins with its first operation.", fields: [{ name: "type", label: "Type", options: ["bigset", "map", "sorted_set", "list", "flag", "hyperloglog", "orset", "pncounter", "bounded_counter"], value: "bigset" }], action: "Next" });
  if (!values) return;
  if (isCollection(values.type)) operateOnCollection(redraw, values.type, new Collection("", values.type).operations()[0]);
  else operate(redraw, ...OPERATIONS[values.type][0]);
}

async function operate(redraw, kind, word, label, name) {
  const { key } = state;
  const values = await ask({ title: `${label}: ${key}`, fields: [{ name, label: name, value: name === "amount" ? "1" : "" }], action: label });
  if (!values) return;
  const argument = name === "amount" ? { amount: Number(values.amount) } : { [name]: values[name] };
  changed(redraw, () => crdt(key, word, argument, kind), "Done");
}

const OPERATIONS = {
  pncounter: [["counter", "increment", "Add", "amount"], ["counter", "decrement", "Subtract", "amount"]],
  gcounter: [["gcounter", "increment", "Add", "amount"]],
  bounded_counter: [["bounded_counter", "increment", "Add", "amount"], ["bounded_counter", "decrement", "Subtract", "amount"]],
  orset: [["set", "add", "Add element", "element"], ["set", "remove", "Remove element", "element"]],
  delta_numeric: [["delta_numeric", "add", "Add", "delta"], ["delta_numeric", "subtract", "Subtract", "delta"]],
};

const ELEMENTS = 200;

// A set in one record comes whole; it is shown in pages.
function elementsOf(items, redraw) {
  const from = Number(state.elements.at) || 0;
  const next = from + ELEMENTS < items.length ? String(from + ELEMENTS) : null;
  return h("div", null, facts([["Elements", number(items.length)]]), h("ul", { className: "chips" }, items.slice(from, from + ELEMENTS).map(item => h("li", null, textOf(item)))), pager(state.elements, next, redraw));
}

function valueOf(found, redraw) {
  if (state.collection) return state.collection.view(redraw, argument => changed(redraw, () => crdt(state.key, "remove", argument, state.collection.kind), "Removed"));
  if (found.siblings && found.siblings.length > 1) return h("div", { className: "sides" }, found.siblings.map((sibling, nth) => h("div", null, h("h3", null, `value ${nth + 1}`), h("pre", null, textOf(sibling)))));
  if (found.type === "orset" && Array.isArray(found.value)) return elementsOf(found.value, redraw);
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
  const isAbsent = found && found.error && found.error.status === 404;
  const operations = isThere ? OPERATIONS[found.type] || [] : [];
  const ofCollection = isThere && state.collection ? state.collection.operations() : [];
  const remove = async () => {
    const { key, clock, collection } = state;
    const text = collection ? "The collection is deleted in every region, with every element that the node which takes the delete knows of." : "The key is deleted in every region, if nothing is there that this page has not shown.";
    const sure = await ask({ title: `Delete ${key}`, text, action: "Delete", danger: true });
    const kind = collection ? collection.kind : found.type === "bounded_counter" ? found.type : null;
    if (sure) changed(redraw, () => kind ? crdt(key, "delete", {}, kind) : del(`${base()}/data/${segment(key)}`, {}, condition(clock)), "Deleted");
  };
  return panel(state.key, {
    id: "value", data: found, error: state.foundError,
    actions: [operations.map(([kind, word, label, name]) => button(label, () => operate(redraw, kind, word, label, name))), ofCollection.map(operation => button(operation.label, () => operateOnCollection(redraw, state.collection.kind, operation))), isAbsent ? button("Begin a collection …", () => begin(redraw)) : null, isAbsent || isThere && !operations.length && !ofCollection.length ? button("Edit", () => write(redraw)) : null, isThere ? button("Delete", remove, { className: "danger" }) : null],
    body: () => found.error ? errorNote(found.error) : h("div", null, facts([["Type", badge(found.type, "info")], ["Created", time(found.created_at)], ["Changed", time(found.last_modified)], found.expires_at ? ["Expires", time(found.expires_at)] : null, ["Versions", Object.entries(found.vector_clock).map(([region, count]) => `${region} ${count}`).join(", ")]]), valueOf(found, redraw), why(found.explain)),
  });
}

export const page = {
  name: "data", title: "Data", topics: [],
  enter({ path, redraw }) {
    if (path[0] && path[0] !== state.space) Object.assign(state, { space: path[0], list: undefined, key: null, found: undefined, path: undefined, pages: new Pages() });
    if (path[1]) look(path[1], redraw);
    loadSpaces(redraw);
    load(redraw);
  },
  render({ redraw }) {
    const { list } = state;
    const find = event => { event.preventDefault(); state.prefix = event.target.elements.prefix.value; state.list = undefined; state.pages.first(); redraw(); load(redraw); };
    const create = async () => {
      const values = await ask({ title: "Open or create a key", fields: [{ name: "key", label: "Key", value: state.prefix }], action: "Open" });
      if (values && values.key) look(values.key, redraw);
    };
    const text = entry => { if (isCollection(entry.type)) return ""; const shown = textOf(entry.value); return shown.length > 80 ? `${shown.slice(0, 80)} …` : shown; };
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
        ], list.entries, { key: entry => entry.key, redraw }), pager(state.pages, list.next_page, () => load(redraw))) }),
        state.key ? keyPanel(redraw) : panel("Value", { id: "value", data: true, body: () => h("p", { className: "empty" }, "Choose a key to see its value, its replicas and why it is what it is.") })),
    ];
  },
};
