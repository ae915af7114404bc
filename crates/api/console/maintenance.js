// Space, compaction, leadership, versions and settings: what an operator does by hand, and what this node runs with.

import { h } from "./dom.js";
import { badge, button, meter, mono, nodesOf, panel, table } from "./panels.js";
import { bytes, number, percent } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { del, get, post, put } from "./api.js";

const state = { settings: undefined, error: undefined, filter: "", all: false };

async function load(redraw, session) {
  if (!session.root) { state.error = { status: 403, message: "settings are shown to the role root" }; redraw(); return; }
  try { state.settings = await get("/v1/settings"); state.error = undefined; } catch (error) { state.error = error; }
  redraw();
}

async function compact(cluster) {
  const values = await ask({ title: "Compact the history", text: ["Revisions before the given one can no longer be read, and their space is used again. Watches that begin before it are refused."], fields: [{ name: "revision", label: "Keep from revision", value: String(cluster.revision) }], action: "Compact", danger: true });
  if (values) attempt(() => post("/v1/compaction", { revision: Number(values.revision) }), "Compacted");
}

async function handOver(cluster) {
  const others = Object.entries(cluster.nodes).filter(([id, node]) => node.member && id !== cluster.leader && node.reachable).map(([, node]) => node.name);
  const values = await ask({ title: "Hand leadership over", text: "Writes wait for a moment while the new leader takes over.", fields: [{ name: "node", label: "New leader", options: others, value: others[0] }], action: "Hand over" });
  if (values) attempt(() => put("/v1/leader", { node: values.node }), `${values.node} leads`);
}

async function disarm() {
  const sure = await ask({ title: "Clear all alarms", text: "An alarm whose cause is still there comes back.", action: "Clear", danger: true });
  if (sure) attempt(() => del("/v1/alarms"), "Cleared");
}

export const page = {
  name: "maintenance", title: "Maintenance", topics: ["cluster"],
  enter({ redraw, session }) { load(redraw, session); },
  render({ live, session, redraw }) {
    const { cluster } = live.documents;
    const nodes = cluster ? nodesOf(cluster) : [];
    const n = (node, name) => (node.numbers || {})[name];
    const versions = [...new Set(nodes.map(node => node.version).filter(Boolean))];
    const settings = state.settings && state.settings.settings.filter(setting => (state.all || !setting.is_default) && `${setting.name} ${setting.meaning}`.includes(state.filter));
    return [
      panel("Space", { id: "space", data: cluster, error: live.errors.cluster, live, actions: !session.root ? [] : [button("Compact …", () => compact(cluster)), button("Hand leadership over …", () => handOver(cluster)), cluster && cluster.alarms.length ? button("Clear alarms …", disarm, { className: "danger" }) : null], body: () => table("space", [
        { title: "Node", cell: node => h("strong", null, node.name) },
        { title: "Keys in use", cell: node => n(node, "quota_bytes") ? meter(n(node, "stored_bytes") / n(node, "quota_bytes"), `${bytes(n(node, "stored_bytes"))} of ${bytes(n(node, "quota_bytes"))} (${percent(100 * n(node, "stored_bytes") / n(node, "quota_bytes"))})`) : `${bytes(n(node, "stored_bytes"))}, no quota` },
        { title: "Store file", className: "num", cell: node => bytes(n(node, "store_bytes")) },
        { title: "Log", className: "num", cell: node => bytes(n(node, "wal_bytes")) },
        { title: "Data store", className: "num", cell: node => bytes(n(node, "data_store_bytes")) },
        { title: "Data log", className: "num", cell: node => bytes(n(node, "data_log_bytes")) },
        { title: "Disk free", className: "num", cell: node => bytes(n(node, "disk_free_bytes")) },
        { title: "Compacted up to", className: "num", cell: node => number(n(node, "compacted")) },
      ], nodes, { key: node => node.name, label: "Space by node" }) }),
      panel("Versions", { id: "versions", data: cluster, error: live.errors.cluster, live, body: () => h("div", null, h("p", null, versions.length === 1 ? `All nodes run ${versions[0]}.` : h("span", null, badge("an upgrade is under way", "warn"), ` ${nodes.map(node => `${node.name} ${node.version || "not known"}`).join(", ")}`)), h("p", { className: "quiet" }, "Backups: `althing snapshot save FILE` writes one of a running member; docs/operations/backup.md says how to restore it. Free space is used again by itself; nothing needs to be defragmented.")) }),
      panel("Settings", { id: "settings", data: state.settings, error: state.error, hint: state.settings && `of ${state.settings.node}; each changes with a restart of the node`, actions: [h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter settings", value: state.filter, oninput: event => { state.filter = event.target.value; redraw(); } }), button(state.all ? "Only changed ones" : "All settings", () => { state.all = !state.all; redraw(); })], empty: () => settings.length ? null : "No setting was changed from its default.", body: () => table("settings", [
        { title: "Setting", cell: setting => mono(setting.name) },
        { title: "Value", className: "clip", cell: setting => mono(setting.value === "" ? "(empty)" : setting.value) },
        { title: "From", cell: setting => setting.origin },
        { title: "Meaning", className: "prose", cell: setting => setting.meaning },
      ], settings, { key: setting => setting.name, label: "Settings" }) }),
    ];
  },
};
