// Keys of the coordination store: folders, a value as what it is, its past as a time line, and writes that never overwrite
// what changed since it was shown.

import { h } from "./dom.js";
import { badge, button, errorNote, facts, mono, more, panel, table } from "./panels.js";
import { bytes, duration, number, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { del, get, put } from "./api.js";
import { sideBySide } from "./diff.js";

const state = { prefix: "", list: undefined, error: undefined, key: null, found: undefined, keyError: undefined, past: undefined, compared: null, view: "auto" };

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

async function load(redraw, page) {
  const { prefix } = state;
  try {
    const list = await get("/v1/coord/keys", { prefix, delimiter: "/", limit: 100, page });
    if (prefix !== state.prefix) return;
    state.list = page ? { ...list, folders: [...state.list.folders, ...list.folders], keys: [...state.list.keys, ...list.keys] } : list;
    state.error = undefined;
  } catch (error) { state.error = error; }
  redraw();
}

async function open(item, redraw) {
  Object.assign(state, { key: item, found: undefined, keyError: undefined, past: undefined, compared: null, view: "auto" });
  redraw();
  await refresh(redraw);
}

async function refresh(redraw) {
  const item = state.key;
  const [found, past] = await Promise.allSettled([get("/v1/coord/key", queryOf(item)), get("/v1/coord/history", { ...queryOf(item), limit: 50 })]);
  if (state.key !== item) return;
  state.found = found.status === "fulfilled" ? { ...found.value, readAt: Date.now() } : null;
  state.keyError = found.status === "rejected" ? found.reason : undefined;
  state.past = past.status === "fulfilled" ? past.value : { changes: [], error: past.reason };
  redraw();
}

async function compare(change, redraw) {
  try {
    const old = await get("/v1/coord/key", { ...queryOf(state.key), revision: change.revision });
    state.compared = { revision: change.revision, at_ms: change.at_ms, value: old.value ?? old.value_base64 };
  } catch (error) { state.compared = { revision: change.revision, error }; }
  redraw();
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
    id: "key", data: found === undefined ? undefined : true,
    actions: found ? [button("Edit", () => edit(redraw), { disabled: found.value === undefined ? true : undefined }), button("Delete", () => remove(redraw), { className: "danger" })] : [button("Put", () => edit(redraw))],
    body: () => h("div", null,
      keyError ? errorNote(keyError) : null,
      found && h("div", null,
        facts([["Created at", number(found.create_revision)], ["Changed at", number(found.mod_revision)], ["Version", number(found.version)], ["Size", bytes(found.value_bytes)],
          found.lease ? ["Lease", h("span", null, mono(found.lease), " ", badge(`ends in ${duration(remaining)} unless renewed`, "info"))] : null]),
        h("div", { className: "tabs", role: "tablist" }, Object.keys(views).map(name => h("button", { type: "button", role: "tab", "aria-selected": String(name === view), onclick: () => { state.view = name; redraw(); } }, name))),
        h("pre", { className: "value", tabindex: "0" }, views[view])),
      compared && !compared.error && found && h("div", null, h("h3", null, "Difference"), sideBySide(compared.value, found.value ?? found.value_base64, [`at revision ${compared.revision}`, "now"])),
      compared && compared.error && errorNote(compared.error),
      past && h("div", null, h("h3", null, "Past"), past.error ? errorNote(past.error) : timeline(past, redraw))),
  });
}

function timeline(past, redraw) {
  if (!past.changes.length) return h("p", { className: "empty" }, `Nothing is known of its past${past.compact_revision ? ` before revision ${past.compact_revision}, which was compacted` : ""}.`);
  return h("ol", { className: "timeline" }, [...past.changes].reverse().map(change => h("li", { key: change.revision, className: change.deleted ? "gone" : "" },
    h("span", { className: "when" }, change.at_ms ? time(change.at_ms) : "just now"),
    h("span", null, change.deleted ? "deleted" : change.version === 1 ? "created" : `version ${change.version}`, h("span", { className: "quiet" }, ` at revision ${number(change.revision)}${change.deleted ? "" : `, ${bytes(change.value_bytes)}`}`)),
    change.deleted || change.revision < past.compact_revision ? null : button("Compare", () => compare(change, redraw)))));
}

export const page = {
  name: "keys", title: "Keys", topics: [],
  enter({ path, redraw }) {
    const prefix = path[0] ?? "";
    if (prefix !== state.prefix || state.list === undefined) Object.assign(state, { prefix, list: undefined });
    load(redraw);
    if (path[1] !== undefined) open({ key: path[1] }, redraw);
  },
  tick({ redraw }) { if (state.key && state.found) refresh(redraw); },
  tickMs: 5000,
  render({ redraw }) {
    const { list } = state;
    const rows = list ? [...list.folders.map(folder => ({ folder })), ...list.keys] : [];
    const shown = text => text.slice(state.prefix.length) || text;
    const search = event => { event.preventDefault(); location.hash = `#/keys/${encodeURIComponent(event.target.elements.prefix.value)}`; };
    return [
      h("form", { className: "tools", key: "tools", role: "search", onsubmit: search }, crumbs(redraw), h("span", { className: "grow" }),
        h("input", { name: "prefix", type: "search", placeholder: "Prefix, as app/", "aria-label": "Prefix", value: state.prefix }), h("button", { type: "submit" }, "Find"), button("New key", () => create(redraw), { className: "primary" })),
      h("div", { className: "columns wide-right", key: "columns" },
        panel("Keys", {
          id: "keys", data: list, error: state.error, hint: list && `${number(list.count)} below here, revision ${number(list.revision)}`,
          empty: data => data.folders.length + data.keys.length ? null : "No key begins so.",
          body: () => h("div", null, table("keys", [
            { title: "Name", cell: row => row.folder ? h("a", { href: `#/keys/${encodeURIComponent(row.folder.prefix)}`, className: "folder" }, shown(row.folder.prefix)) : h("button", { type: "button", className: "name", onclick: () => open(row, redraw) }, mono(row.key === undefined ? nameOf(row) : shown(row.key))) },
            { title: "Keys or version", className: "num", cell: row => row.folder ? number(row.folder.count) : `v${row.version}` },
            { title: "Changed at", className: "num", cell: row => row.folder ? "" : number(row.mod_revision) },
            { title: "Lease", cell: row => row.folder || !row.lease ? "" : mono(row.lease) },
          ], rows, { key: row => row.folder ? `f${row.folder.prefix}` : `k${nameOf(row)}`, label: "Keys" }), more(list.next_page, () => load(redraw, list.next_page))),
        }),
        state.key ? keyPanel(redraw) : panel("Value", { id: "key", data: true, body: () => h("p", { className: "empty" }, "Choose a key to see its value, its lease and its past.") })),
    ];
  },
};
