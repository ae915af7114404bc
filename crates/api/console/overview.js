// Is all well? One sentence, every node with its figures, alarms with what to do, and what happened lately.

import { h } from "./dom.js";
import { badge, facts, link, nodesOf, panel, table } from "./panels.js";
import { bytes, duration, millis, number, percent, rate, time } from "./format.js";
import { sparkline } from "./charts.js";

const ROLES = { leader: "good", follower: "", learner: "info", data: "info" };

function health(node) {
  if (!node.reachable) return badge("does not answer", "bad");
  const numbers = node.numbers || {};
  if (numbers.in_doubt) return badge("in doubt of its log", "warn");
  if (numbers.no_space) return badge("no space", "bad");
  return badge("healthy", "good");
}

function withSpark(node, name, shown) {
  const values = node.recent && node.recent.values[name];
  return h("span", { className: "spark-cell" }, shown((node.numbers || {})[name]), sparkline(values, `${name} of the last minutes`));
}

export function nodesTable(cluster, redraw) {
  const nodes = nodesOf(cluster);
  const n = name => node => (node.numbers || {})[name];
  return table("nodes", [
    { title: "Node", sort: node => node.name, cell: node => h("span", null, h("strong", null, node.name), " ", badge(node.id === cluster.leader ? "leader" : node.role === "leader" ? "follower" : node.role, node.id === cluster.leader ? "good" : ROLES[node.role]), node.id === cluster.node ? h("span", { className: "quiet" }, " this node") : "") },
    { title: "State", sort: node => node.reachable ? 0 : 1, cell: node => h("span", { title: node.trouble || "" }, health(node), node.reported_ms ? h("span", { className: "quiet" }, " since ", time(node.reported_ms)) : "") },
    { title: "Version", sort: node => node.version, cell: node => node.version || "–" },
    { title: "Up", className: "num", sort: n("started_ms"), cell: node => n("started_ms")(node) && node.reachable ? duration(Date.now() - n("started_ms")(node)) : "–" },
    { title: "CPU", className: "num", sort: n("cpu_percent"), cell: node => withSpark(node, "cpu_percent", percent) },
    { title: "Memory", className: "num", sort: n("memory_bytes"), cell: node => bytes(n("memory_bytes")(node)) },
    { title: "Disk free", className: "num", sort: n("disk_free_bytes"), cell: node => bytes(n("disk_free_bytes")(node)) },
    { title: "fsync p99", className: "num", sort: n("fsync_p99_ms"), cell: node => withSpark(node, "fsync_p99_ms", millis) },
    { title: "Puts", className: "num", sort: n("puts_per_second"), cell: node => withSpark(node, "puts_per_second", rate) },
    { title: "Ranges", className: "num", sort: n("ranges_per_second"), cell: node => withSpark(node, "ranges_per_second", rate) },
    { title: "Data writes", className: "num", sort: n("data_writes_per_second"), cell: node => withSpark(node, "data_writes_per_second", rate) },
    { title: "Data reads", className: "num", sort: n("data_reads_per_second"), cell: node => withSpark(node, "data_reads_per_second", rate) },
  ], nodes, { key: node => node.id, redraw, label: "Nodes of the cluster" });
}

export function eventsList(events) {
  return h("ol", { className: "events" }, events.slice(0, 40).map(event =>
    h("li", { key: `${event.at_ms}${event.node}${event.text}` }, time(event.at_ms), badge(event.kind, event.kind === "alarm" ? "bad" : event.kind === "leader" ? "info" : ""), h("span", null, event.text), h("span", { className: "quiet" }, `seen by ${event.node}`))));
}

export const page = {
  name: "overview", title: "Overview", topics: ["cluster", "events"],
  render({ live, redraw }) {
    const cluster = live.documents.cluster;
    const error = live.errors.cluster;
    return [
      h("p", { className: `verdict ${cluster ? (cluster.healthy ? "good" : "bad") : ""} ${live.isStale ? "stale" : ""}`, id: "summary", role: "status", key: "summary" },
        error ? "" : cluster ? cluster.summary : "Asking the nodes …"),
      cluster && cluster.alarms && cluster.alarms.length ? panel("Alarms", { id: "alarms", data: cluster.alarms, live, body: alarms => h("ul", { className: "alarms" }, alarms.map(alarm => h("li", null, badge(alarm.kind, "bad"), h("strong", null, ` ${alarm.node}: `), alarm.advice))) }) : null,
      panel("Nodes", { id: "nodes", data: cluster, error, live, body: () => nodesTable(cluster, redraw) }),
      h("div", { className: "columns", key: "columns" },
        panel("Last events", { id: "events", data: live.documents.events, error: live.errors.events, live, empty: data => data.events.length ? null : "Nothing has happened since the nodes started.", body: data => eventsList(data.events) }),
        panel("In force", { id: "guarantees", data: cluster, error, live, body: () => h("div", null,
          facts([["Cluster", h("code", null, cluster.cluster)], ["Region", cluster.region], ["Term", number(cluster.term)], ["Revision", number(cluster.revision)], ["Keys", number(cluster.keys)], ["Stored", `${bytes(cluster.stored_bytes)}${cluster.quota_bytes ? ` of ${bytes(cluster.quota_bytes)}` : ""}`]]),
          h("ul", { className: "plain" }, cluster.guarantees.map(text => h("li", null, text))),
          h("p", { className: "quiet" }, link("#/maintenance", "Settings and space"), " · ", link("#/regions", "Regions and ring"))) })),
    ];
  },
};
