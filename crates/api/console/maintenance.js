// Space, compaction, leadership, versions and settings: what an operator does by hand, and what this node runs with.

import { h } from "./dom.js";
import { badge, button, meter, mono, nodesOf, panel, table } from "./panels.js";
import { bytes, number, percent, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { del, get, post, put } from "./api.js";
import { sizesPanel } from "./sizes.js";

const state = { settings: undefined, error: undefined, filter: "", all: false, upgrade: undefined, upgradeError: undefined, slow: undefined, slowError: undefined, defragmented: null };

async function loadUpgrade(redraw) {
  try { state.upgrade = await get("/v1/upgrade"); state.upgradeError = undefined; } catch (error) { state.upgradeError = error; }
  redraw();
}

async function loadSlow(redraw, session) {
  if (!session.root) { state.slowError = { status: 403, message: "slow requests are shown to the role root" }; redraw(); return; }
  try { state.slow = await get("/v1/slow-requests"); state.slowError = undefined; } catch (error) { state.slowError = error; }
  redraw();
}

async function finalize(redraw) {
  const sure = await ask({ title: "Finalize the upgrade", text: ["The cluster leaves the formats of the release before, and what needs the new ones is permitted.", "The release before does not start on these data directories any more: the way back is closed."], action: "Finalize", danger: true });
  if (sure && await attempt(() => post("/v1/upgrade/finalize", {}), "Finalized")) loadUpgrade(redraw);
}

async function load(redraw, session) {
  loadUpgrade(redraw);
  loadSlow(redraw, session);
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

async function defragment(cluster, redraw) {
  const { name } = cluster.nodes[cluster.node];
  const sure = await ask({ title: `Defragment ${name}`, text: [`The stores of ${name} are written again without their free space, in pieces between requests, and the old files are given back. It writes as many bytes as the stores have.`, "Other members are defragmented from their own consoles, or by `althing defrag --cluster`."], action: "Defragment" });
  if (!sure) return;
  state.defragmented = { node: name };
  redraw();
  const found = await attempt(() => post("/v1/defragment", undefined), "Defragmented");
  state.defragmented = found && { node: name, ...found };
  redraw();
}

function defragmentedText({ node, before_bytes, after_bytes }) {
  if (before_bytes === undefined) return `The stores of ${node} are being written again …`;
  return `The stores of ${node} took ${bytes(before_bytes)} and take ${bytes(after_bytes)} now: ${bytes(Math.max(0, before_bytes - after_bytes))} given back.`;
}

async function setQuota(cluster) {
  const values = await ask({ title: "Set the quota", text: ["Puts are refused on every member when the keys and values take more than this. 0 sets no bound; empty leaves it to each member's setting."], fields: [{ name: "bytes", label: "Bytes", value: cluster.quota_bytes ? String(cluster.quota_bytes) : "" }], action: "Set", danger: true });
  if (values) attempt(() => put("/v1/quota", { bytes: values.bytes.trim() === "" ? null : Number(values.bytes) }), "Set");
}

// Without auth the browser can save the stream to a file by itself; a token cannot go with such a link.
function backups(session) {
  const ways = [
    ["althing backup create TARGET", "both planes, also to a bucket, each time what is new"],
    ["althing backup ls TARGET", "the backups there are"],
    ["althing backup verify TARGET", "restores one into a scratch directory and compares"],
    ["althing snapshot save FILE", "the coordination store of this node, in etcd's format"],
  ];
  return h("div", null, h("p", null, "Backups are made by programs that keep a schedule (cron, a systemd timer, a Kubernetes CronJob). ",
    session.root && !session.auth ? h("a", { href: "/v1/snapshot", download: "althing-snapshot.db" }, "Save a snapshot of the coordination store") : null),
  h("ul", { className: "plain" }, ways.map(([command, what]) => h("li", { key: command }, mono(command), `: ${what}`))),
  h("p", { className: "quiet" }, "docs/operations/backup.md says how each is restored."));
}

export const page = {
  name: "maintenance", title: "Maintenance", topics: ["cluster"],
  enter({ redraw, session }) { load(redraw, session); },
  render({ live, session, redraw }) {
    const { cluster } = live.documents;
    const nodes = cluster ? nodesOf(cluster) : [];
    const n = (node, name) => (node.numbers || {})[name];
    const settings = state.settings && state.settings.settings.filter(setting => (state.all || !setting.is_default) && `${setting.name} ${setting.meaning}`.includes(state.filter));
    return [
      panel("Space", { id: "space", data: cluster, error: live.errors.cluster, live, actions: !session.root ? [] : [button("Compact …", () => compact(cluster)), button("Defragment …", () => defragment(cluster, redraw)), button("Quota …", () => setQuota(cluster)), button("Hand leadership over …", () => handOver(cluster)), cluster && cluster.alarms.length ? button("Clear alarms …", disarm, { className: "danger" }) : null], body: () => h("div", null, table("space", [
        { title: "Node", cell: node => h("strong", null, node.name) },
        { title: "Keys in use", cell: node => n(node, "quota_bytes") ? meter(n(node, "stored_bytes") / n(node, "quota_bytes"), `${bytes(n(node, "stored_bytes"))} of ${bytes(n(node, "quota_bytes"))} (${percent(100 * n(node, "stored_bytes") / n(node, "quota_bytes"))})`) : `${bytes(n(node, "stored_bytes"))}, no quota` },
        { title: "Store file", className: "num", cell: node => bytes(n(node, "store_bytes")) },
        { title: "Log", className: "num", cell: node => bytes(n(node, "wal_bytes")) },
        { title: "Data store", className: "num", cell: node => bytes(n(node, "data_store_bytes")) },
        { title: "Data log", className: "num", cell: node => bytes(n(node, "data_log_bytes")) },
        { title: "Disk free", className: "num", cell: node => bytes(n(node, "disk_free_bytes")) },
        { title: "Compacted up to", className: "num", cell: node => number(n(node, "compacted")) },
      ], nodes, { key: node => node.name, label: "Space by node" }), state.defragmented && h("p", { role: "status", id: "defragmented" }, defragmentedText(state.defragmented)), h("p", { className: "quiet" }, cluster.quota_bytes ? `The quota is ${bytes(cluster.quota_bytes)} of keys and values; beyond it the NOSPACE alarm refuses puts.` : "No quota: the disk alone bounds what is stored.")) }),
      sizesPanel({ session, redraw }),
      panel("Backups", { id: "backups", data: session, body: () => backups(session) }),
      panel("Versions", { id: "versions", data: state.upgrade, error: state.upgradeError, actions: session.root && state.upgrade && state.upgrade.level < state.upgrade.newest_level ? [button("Finalize …", () => finalize(redraw), { className: "danger" })] : [], body: () => h("div", null, h("p", null, state.upgrade.finished ? null : badge("an upgrade is under way", "warn"), ` ${state.upgrade.summary}`), table("versions", [
        { title: "Node", cell: node => h("strong", null, node.name || node.id) },
        { title: "Release", cell: node => node.version || "not known" },
        { title: "State", cell: node => node.trouble || (node.ready ? "ready" : "older release") },
        { title: "Logs", cell: node => node.has_old_logs ? "as the release before reads them" : "new" },
      ], state.upgrade.nodes, { key: node => node.id, label: "Releases by node" })) }),
      panel("Slow requests", { id: "slow", data: state.slow, error: state.slowError, hint: state.slow && `of ${state.slow.node}, the newest first; where their time went, in milliseconds`, actions: [button("Look again", () => loadSlow(redraw, session))], empty: () => state.slow.slow_requests.length ? null : "No request took longer than slow-request-ms.", body: () => table("slow", [
        { title: "Answered", cell: slow => time(slow.at_ms) },
        { title: "Kind", cell: slow => mono(slow.kind) },
        { title: "Took", className: "num", cell: slow => number(slow.took_ms) },
        ...["queue", "log_sync", "replication", "apply", "reply"].map(phase => ({ title: phase.replace("_", " "), className: "num", cell: slow => number(slow.phases[`${phase}_ms`]) })),
        { title: "Refused", className: "prose", cell: slow => slow.refusal || "" },
      ], state.slow.slow_requests.slice(0, 50), { key: slow => `${slow.at_ms}-${slow.took_ms}`, label: "Slow requests" }) }),
      panel("Settings", { id: "settings", data: state.settings, error: state.error, hint: state.settings && `of ${state.settings.node}; each changes with a restart of the node`, actions: [h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter settings", value: state.filter, oninput: event => { state.filter = event.target.value; redraw(); } }), button(state.all ? "Only changed ones" : "All settings", () => { state.all = !state.all; redraw(); })], empty: () => settings.length ? null : "No setting was changed from its default.", body: () => table("settings", [
        { title: "Setting", cell: setting => mono(setting.name) },
        { title: "Value", className: "clip", cell: setting => mono(setting.value === "" ? "(empty)" : setting.value) },
        { title: "From", cell: setting => setting.origin },
        { title: "Meaning", className: "prose", cell: setting => setting.meaning },
      ], settings, { key: setting => setting.name, label: "Settings" }) }),
    ];
  },
};
