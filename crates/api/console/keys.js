// Keys of the coordination store: folders, a value as what it is, its past as a time line, and writes that never overwrite
// what changed since it was shown.

import { h } from "./dom.js";
import { Pages, badge, button, errorNote, facts, mono, pager, panel, table } from "./panels.js";
import { bytes, duration, number, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { ABSENT, del, get, isSilent, keyIfThere, put } from "./api.js";
import { sideBySide } from "./diff.js";
import { readEvents } from "./stream.js";

const NOW = "now";
const CHANGES_MAX = 50;
// Changes of the past that are shown at first, and when more are wanted.
const PAST_STEPS = [50, 200, 1000];
const state = { prefix: "", list: undefined, error: undefined, pages: new Pages(), key: null, found: undefined, keyError: undefined, past: undefined, pastStep: 0, compared: null, from: "", to: NOW, view: "auto", changes: null };
// What is watched while the page is open and seen: the key that is shown, and the folder if that is wanted.
const watches = { key: null, folder: null };
// What ends the reading of a key's past, which takes as long as the whole history is.
let reading = null;

const base64Text = encoded => atob(encoded);
const nameOf = item => item.key ?? `base64:${item.key_base64}`;
const queryOf = item => item.key !== undefined ? { key: item.key } : { key_base64: item.key_base64 };

// Protobuf of Kubernetes begins with these four bytes.
const isKubernetes = found => found.value_base64 && base64Text(found.value_base64).startsWith("k8s\0");

function hexOf(text) {
  const lines = [];
  for (let at = 0; at < Math.min(text.length, 4096); at += 16) {
    const part = [...text.slice(at, at + 16)];
    const codes = part.map(letter => letter.charCodeAt(0).toString(16).padStart(2, "0")).join(" ").padEnd(48);
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes} ${part.map(letter => letter >= " " && letter <= "~" ? letter : "·").join("")}`);
  }
  return lines.join("\n");
}

function viewsOf(found) {
  const views = {};
  if (found.value !== undefined) {
    views.text = found.value;
    try { views.JSON = JSON.stringify(JSON.parse(found.value), null, 2); } catch { /* it is no JSON */ }
    views.hex = hexOf(String.fromCharCode(...new TextEncoder().encode(found.value).slice(0, 4096)));
  } else {
    const raw = base64Text(found.value_base64);
    if (isKubernetes(found)) views.Kubernetes = (raw.match(/[ -~]{4,}/g) || []).join("\n");
    views.hex = hexOf(raw);
  }
  return views;
}

async function load(redraw) {
  const { prefix, pages: { at } } = state;
  try {
    const list = await get("/v1/coord/keys", { prefix, delimiter: "/", limit: 100, page: at });
    if (prefix !== state.prefix || at !== state.pages.at) return;
    state.list = list;
    state.error = undefined;
  } catch (error) { state.error = error; }
  redraw();
}

// Changes as they come, for as long as the page is open and seen; after a pause behind the last that was seen.
class Watch {
  constructor(query, onChanges) {
    Object.assign(this, { query, onChanges, since: undefined, abort: null });
    this.start();
  }

  async start() {
    if (this.abort || document.hidden) return;
    const abort = new AbortController();
    this.abort = abort;
    while (!abort.signal.aborted) {
      try {
        await readEvents("/v1/coord/watch", { ...this.query, since: this.since }, abort.signal, messages => {
          if (abort.signal.aborted) return;
          this.since = messages.map(message => message.id).filter(Boolean).at(-1) ?? this.since;
          if (messages.length) this.onChanges(messages);
        });
      } catch { /* it is tried again */ }
      if (!abort.signal.aborted) await new Promise(resolve => setTimeout(resolve, 2000));
    }
  }

  stop() {
    if (this.abort) this.abort.abort();
    this.abort = null;
  }

  // What changed meanwhile is read, because a watch that had seen nothing begins now.
  resume() {
    this.onChanges([]);
    this.start();
  }
}

function unwatch(name) {
  if (watches[name]) watches[name].stop();
  watches[name] = null;
}

function watch(name, query, onChanges) {
  unwatch(name);
  watches[name] = new Watch(query, onChanges);
}

// A page in the background watches nothing.
document.addEventListener("visibilitychange", () => Object.values(watches).filter(Boolean).forEach(watched => document.hidden ? watched.stop() : watched.resume()));

// Many changes of one moment are read once, and changes that never rest are read all the same.
const resting = {};
function soon(name, change) {
  if (!resting[name]) setTimeout(() => { const last = resting[name]; delete resting[name]; last(); }, 300);
  resting[name] = change;
}

const changesOf = messages => messages.filter(({ event }) => event === "put" || event === "delete").map(({ event, data }) => ({ event, ...data, at: Date.now() }));

function watchFolder(redraw) {
  state.changes = [];
  watch("folder", { prefix: state.prefix }, messages => {
    state.changes = [...changesOf(messages).reverse(), ...state.changes].slice(0, CHANGES_MAX);
    redraw();
    soon("list", () => load(redraw));
  });
  redraw();
}

async function open(item, redraw) {
  Object.assign(state, { key: item, found: undefined, keyError: undefined, past: undefined, pastStep: 0, compared: null, from: "", to: NOW, view: "auto" });
  redraw();
  if (reading) reading.abort();
  if (item.key === undefined) unwatch("key");
  else watch("key", { key: item.key }, messages => noteChanges(item, messages, redraw));
  await refresh(redraw);
  soon("past", () => { if (state.key === item) readPast(redraw); });
}

// The value, without its past.
async function refresh(redraw) {
  const item = state.key;
  try {
    const found = await keyIfThere(queryOf(item));
    if (state.key !== item) return;
    if (!found) throw ABSENT;
    Object.assign(state, { found: { ...found, readAt: Date.now() }, keyError: undefined });
  } catch (error) {
    if (state.key !== item) return;
    // What was shown stays while the node does not answer.
    Object.assign(state, { found: isSilent(error) && state.found ? state.found : null, keyError: error });
  }
  redraw();
}

// It is read once when a key is opened; changes that are seen from then on are added to it.
async function readPast(redraw) {
  const item = state.key;
  if (reading) reading.abort();
  reading = new AbortController();
  const signal = AbortSignal.any([reading.signal, AbortSignal.timeout(60000)]);
  let past;
  try { past = await get("/v1/coord/history", { ...queryOf(item), limit: PAST_STEPS[state.pastStep] }, { signal }); } catch (error) { past = { changes: [], error }; }
  if (state.key !== item) return;
  state.past = past;
  redraw();
}

function noteChanges(item, messages, redraw) {
  if (state.key !== item) return;
  const { past } = state;
  for (const change of past && !past.error ? changesOf(messages) : []) {
    const { event, mod_revision: revision, version, value_bytes, at } = change;
    if (revision > (past.changes.at(-1)?.revision ?? 0)) past.changes.push({ revision, deleted: event === "delete", at_ms: at, version, value_bytes });
  }
  soon("value", () => { if (state.key === item) refresh(redraw); });
}

const isPastBehind = ({ past, found }) => past && found && !past.error && found.mod_revision > (past.changes.at(-1)?.revision ?? 0);

async function valueAt(revision) {
  if (revision === NOW && !state.found) throw ABSENT;
  const found = await get("/v1/coord/key", { ...queryOf(state.key), revision: revision === NOW ? undefined : revision });
  return found.value ?? found.value_base64;
}

async function compare(redraw) {
  const { key, from, to } = state;
  const title = revision => revision === NOW ? "now" : `at revision ${revision}`;
  let compared;
  try {
    const [left, right] = await Promise.all([valueAt(from), valueAt(to)]);
    compared = { left, right, titles: [title(from), title(to)] };
  } catch (error) { compared = { error }; }
  if (key !== state.key) return;
  state.compared = compared;
  redraw();
}

// Any two revisions that are still there.
function compareForm(past, redraw) {
  const known = [...past.changes].reverse().filter(change => !change.deleted && change.revision >= past.compact_revision);
  if (!known.length) return null;
  const choose = name => event => { state[name] = event.target.value; };
  const options = chosen => [h("option", { value: NOW, selected: chosen === NOW }, "now"), known.map(change => h("option", { value: String(change.revision), selected: chosen === String(change.revision) }, `revision ${change.revision}`))];
  state.from = state.from || String((known[1] ?? known[0]).revision);
  const submit = event => { event.preventDefault(); compare(redraw); };
  return h("form", { className: "tools", onsubmit: submit }, h("span", null, "Difference of"), h("select", { "aria-label": "From", onchange: choose("from") }, options(state.from)), h("span", null, "and"), h("select", { "aria-label": "To", onchange: choose("to") }, options(state.to)), h("button", { type: "submit" }, "Show difference"));
}

async function edit(redraw) {
  const { found } = state;
  const values = await ask({ title: `Put ${nameOf(state.key)}`, text: found ? `It is written only if the key is still at revision ${found.mod_revision}.` : "It is written only if the key is still absent.", fields: [{ name: "value", label: "Value", value: found?.value ?? "", rows: 12 }], action: "Put" });
  if (values && await attempt(() => put("/v1/coord/key", { value: values.value, mod_revision: found ? found.mod_revision : 0, lease: found?.lease || undefined }, queryOf(state.key)), "Written")) { await refresh(redraw); load(redraw); }
}

async function remove(redraw) {
  const values = await ask({ title: `Delete ${nameOf(state.key)}`, text: ["The key is deleted if it has not changed since it was shown. Watches see the deletion; its past stays readable until the next compaction."], action: "Delete", danger: true });
  if (values && await attempt(() => del("/v1/coord/key", { ...queryOf(state.key), mod_revision: state.found.mod_revision }), "Deleted")) { state.found = null; redraw(); load(redraw); }
}

async function create(redraw) {
  const values = await ask({ title: "New key", text: "It is written only if there is no such key.", fields: [{ name: "key", label: "Key", value: state.prefix }, { name: "value", label: "Value", rows: 8 }], action: "Put" });
  if (values && await attempt(() => put("/v1/coord/key", { value: values.value, mod_revision: 0 }, { key: values.key }), "Written")) { load(redraw); open({ key: values.key }, redraw); }
}

function crumbs(redraw) {
  const parts = state.prefix.split("/").filter((part, nth, all) => part !== "" || nth === 0 && all.length > 1);
  let path = "";
  const crumb = part => { path += `${part}/`; return h("a", { href: `#/keys/${encodeURIComponent(path)}` }, `${part || ""}/`); };
  return h("nav", { className: "crumbs", "aria-label": "Folder" }, h("a", { href: "#/keys" }, "all keys"), parts.map(crumb));
}

function keyPanel(redraw) {
  const { found, keyError, past, compared } = state;
  const views = found ? viewsOf(found) : {};
  const view = state.view in views ? state.view : views.JSON !== undefined ? "JSON" : Object.keys(views)[0];
  const remaining = found && found.lease ? Math.max(0, found.lease_ttl_seconds * 1000 - (Date.now() - found.readAt)) : null;
  return panel(nameOf(state.key), {
    id: "key", data: found === undefined ? undefined : found || ABSENT, error: found ? keyError : undefined,
    actions: found ? [button("Edit", () => edit(redraw), { disabled: found.value === undefined ? true : undefined }), button("Delete", () => remove(redraw), { className: "danger" })] : [button("Put", () => edit(redraw))],
    body: () => h("div", null,
      keyError && !found ? errorNote(keyError) : null,
      found && h("div", null,
        facts([["Created at", number(found.create_revision)], ["Changed at", number(found.mod_revision)], ["Version", number(found.version)], ["Size", bytes(found.value_bytes)],
          found.lease ? ["Lease", h("span", null, mono(found.lease), " ", badge(`ends in ${duration(remaining)} unless renewed`, "info"))] : null]),
        h("div", { className: "tabs", role: "tablist" }, Object.keys(views).map(name => h("button", { type: "button", role: "tab", "aria-selected": String(name === view), onclick: () => { state.view = name; redraw(); } }, name))),
        h("pre", { className: "value", tabindex: "0" }, views[view])),
      compared && !compared.error && h("div", null, h("h3", null, "Difference"), sideBySide(compared.left, compared.right, compared.titles)),
      compared && compared.error && errorNote(compared.error),
      h("div", { id: "past" }, h("h3", null, "Past"), !past ? h("p", { className: "quiet", role: "status" }, "The history is being read …") : past.error ? errorNote(past.error) : [compareForm(past, redraw), timeline(past, redraw)],
        past && past.more && state.pastStep + 1 < PAST_STEPS.length ? button("Older changes", () => { state.pastStep += 1; readPast(redraw); }) : null,
        past && (past.error || isPastBehind(state)) ? button("Read the past again", () => readPast(redraw)) : null)),
  });
}

function timeline(past, redraw) {
  if (!past.changes.length) return h("p", { className: "empty" }, `Nothing is known of its past${past.compact_revision ? ` before revision ${past.compact_revision}, which was compacted` : ""}.`);
  return h("ol", { className: "timeline" }, [...past.changes].reverse().map(change => h("li", { key: change.revision, className: change.deleted ? "gone" : "" },
    h("span", { className: "when" }, change.at_ms ? time(change.at_ms) : "just now"),
    h("span", null, change.deleted ? "deleted" : change.version === 1 ? "created" : `version ${change.version}`, h("span", { className: "quiet" }, ` at revision ${number(change.revision)}${change.deleted ? "" : `, ${bytes(change.value_bytes)}`}`)),
    change.deleted || change.revision < past.compact_revision ? null : button("Compare", () => { Object.assign(state, { from: String(change.revision), to: NOW }); compare(redraw); }))));
}

export const page = {
  name: "keys", title: "Keys", topics: [],
  enter({ path, redraw }) {
    const prefix = path[0] ?? "";
    if (prefix !== state.prefix || state.list === undefined) { Object.assign(state, { prefix, list: undefined, changes: null }); state.pages.first(); }
    load(redraw);
    if (state.changes) watchFolder(redraw);
    if (path[1] === undefined && state.key) open(state.key, redraw);
    if (path[1] !== undefined) open({ key: path[1] }, redraw);
  },
  leave() { unwatch("key"); unwatch("folder"); if (reading) reading.abort(); },
  // A key that is no text cannot be watched by its name.
  tick({ redraw }) { if (state.key && state.key.key === undefined && state.found) refresh(redraw); },
  tickMs: 5000,
  render({ redraw }) {
    const { list } = state;
    const rows = list ? [...list.folders.map(folder => ({ folder })), ...list.keys] : [];
    const shown = text => text.slice(state.prefix.length) || text;
    const search = event => { event.preventDefault(); location.hash = `#/keys/${encodeURIComponent(event.target.elements.prefix.value)}`; };
    return [
      h("form", { className: "tools", key: "tools", role: "search", onsubmit: search }, crumbs(redraw), h("span", { className: "grow" }),
        h("input", { name: "prefix", type: "search", placeholder: "Prefix, as app/", "aria-label": "Prefix", value: state.prefix }), h("button", { type: "submit" }, "Find"), button(state.changes ? "Stop watching" : "Watch", () => { if (state.changes) { unwatch("folder"); state.changes = null; redraw(); } else watchFolder(redraw); }), button("New key", () => create(redraw), { className: "primary" })),
      h("div", { className: "columns wide-right", key: "columns" },
        panel("Keys", {
          id: "keys", data: list, error: state.error, hint: list && `${number(list.count)} below here, revision ${number(list.revision)}`,
          empty: data => data.folders.length + data.keys.length ? null : "No key begins so.",
          body: () => h("div", null, table("keys", [
            { title: "Name", cell: row => row.folder ? h("a", { href: `#/keys/${encodeURIComponent(row.folder.prefix)}`, className: "folder" }, shown(row.folder.prefix)) : h("button", { type: "button", className: "name", onclick: () => open(row, redraw) }, mono(row.key === undefined ? nameOf(row) : shown(row.key))) },
            { title: "Keys or version", className: "num", cell: row => row.folder ? number(row.folder.count) : `v${row.version}` },
            { title: "Changed at", className: "num", cell: row => row.folder ? "" : number(row.mod_revision) },
            { title: "Lease", cell: row => row.folder || !row.lease ? "" : mono(row.lease) },
          ], rows, { key: row => row.folder ? `f${row.folder.prefix}` : `k${nameOf(row)}`, label: "Keys" }), pager(state.pages, list.next_page, () => load(redraw))),
        }),
        state.key ? keyPanel(redraw) : panel("Value", { id: "key", data: true, body: () => h("p", { className: "empty" }, "Choose a key to see its value, its lease and its past.") })),
      state.changes && panel("Changes", { id: "changes", data: state.changes, hint: `below ${state.prefix || "all keys"}, the newest first`, empty: changes => changes.length ? null : "Nothing has changed since the watch began.", body: changes => h("ol", { className: "events" }, changes.map((change, nth) => h("li", { key: `${change.mod_revision} ${nth}` }, time(change.at), badge(change.event, change.event === "put" ? "info" : "bad"), mono(nameOf(change)), h("span", { className: "quiet" }, `revision ${number(change.mod_revision)}`)))) }),
    ];
  },
};
