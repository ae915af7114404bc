// Regions with how far each is, the ring with what moves, and how long a message takes between nodes.

import { h, svg } from "./dom.js";
import { badge, button, facts, nodesOf, panel, table } from "./panels.js";
import { bytes, duration, millis, number, percent, rate, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { Rates } from "./rates.js";
import { del, put, segment } from "./api.js";

const rates = new Rates();

function note({ regions, ring }) {
  for (const region of regions ? regions.regions : []) rates.note(`out ${region.region}`, region.acknowledged);
  if (ring) rates.note(`moves ${ring.epoch}`, ring.moving.switched + ring.moving.moved);
}

function map(data) {
  const regions = data.regions;
  const [width, height] = [640, 50 + 90 * Math.max(1, regions.length)];
  const middle = height / 2;
  const box = (x, y, name, isGood) => svg("g", { class: isGood ? "region good" : "region bad" }, svg("rect", { x, y: y - 18, width: 130, height: 36, rx: 7 }), svg("text", { x: x + 65, y: y + 5, "text-anchor": "middle" }, name));
  const arrow = (region, nth) => {
    const y = height / (regions.length + 1) * (nth + 1);
    const label = (text, share, above) => svg("text", { x: 150 + 330 * share, y: middle + (y - middle) * share + (above ? -7 : 16), "text-anchor": "middle", class: "small" }, text);
    return [svg("path", { d: `M140 ${middle}L500 ${y}`, class: region.healthy ? "wire" : "wire bad" }), label(region.healthy ? `→ ${millis(region.lag_out_ms)} behind, ${number(region.last - region.acknowledged)} waiting` : "silent", 0.55, true), region.healthy && label(`← ${millis(region.lag_in_ms)} behind`, 0.55, false), box(500, y, region.region, region.healthy)];
  };
  return h("div", { className: "scroll" }, svg("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Region ${data.region} and ${regions.length} others` }, regions.map(arrow), box(10, middle, data.region, true)));
}

function regionTable(data, redraw) {
  return table("regions", [
    { title: "Region", sort: region => region.region, cell: region => h("strong", null, region.region) },
    { title: "State", sort: region => region.healthy, cell: region => region.healthy ? badge("healthy", "good") : badge(region.silent_ms ? `silent for ${millis(region.silent_ms)}` : "not heard of", "bad") },
    { title: "Sent", className: "num", sort: region => rates.of(`out ${region.region}`), cell: region => rate(rates.of(`out ${region.region}`)) },
    { title: "Waits for", className: "num", cell: region => region.last > region.acknowledged ? duration(rates.left(`out ${region.region}`, region.last - region.acknowledged) ?? 0) : "–" },
    { title: "It lacks", className: "num", sort: region => region.lag_out_ms, cell: region => millis(region.lag_out_ms) },
    { title: "We lack", className: "num", sort: region => region.lag_in_ms, cell: region => millis(region.lag_in_ms) },
    { title: "Lost if this node died now", className: "num", sort: region => region.last - region.acknowledged, cell: region => region.last === undefined ? "–" : `${number(region.last - region.acknowledged)} writes not there yet` },
    { title: "Same data", cell: region => region.digest && data.digest === region.digest ? badge("equal", "good") : h("span", { className: "quiet" }, "catching up") },
    { title: "Nodes", className: "num", cell: region => (region.nodes || []).length },
    { title: "Trouble", cell: region => region.trouble || "" },
  ], data.regions, { key: region => region.region, redraw, label: "Other regions" });
}

async function move(node, leaves) {
  const name = node.name || node.node;
  const text = leaves ? [`${name} hands its ${number(node.partitions)} partitions over to other nodes and then leaves the ring. Reads and writes continue meanwhile.`] : [`${name} stays in the ring, and keeps or gets back its partitions.`];
  const sure = await ask({ title: leaves ? `Let ${name} leave the ring` : `Let ${name} stay`, text, action: leaves ? "Leave" : "Stay", danger: leaves });
  if (sure) attempt(() => leaves ? del(`/v1/ring/nodes/${segment(node.node)}`) : put(`/v1/ring/nodes/${segment(node.node)}`, undefined), leaves ? "It leaves" : "It stays");
}

// Hands leadership over first if the node leads, then lets it leave the ring.
async function drain(node, cluster) {
  const name = node.name || node.node;
  const leads = cluster.leader === node.node;
  const next = nodesOf(cluster).find(other => other.member && other.reachable && other.role !== "learner" && other.id !== node.node);
  const text = [leads ? next ? `${name} leads: it hands leadership to ${next.name} first.` : `${name} leads, and no other member answers.` : `${name} does not lead.`, `Then it hands its ${number(node.partitions)} partitions over to other nodes and leaves the ring. It stays a member of the coordination store until \`althing member remove\`.`];
  if (!await ask({ title: `Drain ${name}`, text, action: "Drain", danger: true })) return;
  if (leads && !(next && await attempt(() => put("/v1/leader", { node: next.name }), `${next.name} leads`))) return;
  attempt(() => del(`/v1/ring/nodes/${segment(node.node)}`), "It leaves the ring");
}

function leaveButtons(node, cluster) {
  if (node.standing === "leaving") return button("Stay", () => move(node, false), { className: "small" });
  return h("span", { className: "actions" }, cluster && button("Drain", () => drain(node, cluster), { className: "small danger" }), " ", button("Leave", () => move(node, true), { className: "small danger" }));
}

function movesText(ring) {
  const { pending, switched, moved } = ring.moving;
  const [done, all] = [switched + moved, pending + switched + moved];
  if (!all) return "nothing moves";
  const left = rates.left(`moves ${ring.epoch}`, all - done);
  return `${number(done)} of ${number(all)} partitions have moved${left === undefined ? "" : `, about ${duration(left)} left`}`;
}

function ringTable(ring, cluster, redraw) {
  const progress = side => side.partitions ? `${side.done} of ${side.partitions}` : "–";
  return table("ring", [
    { title: "Node", sort: node => node.name, cell: node => h("span", null, h("strong", null, node.name || node.node), node.seems_down ? badge("does not answer", "bad") : "") },
    { title: "Zone", sort: node => node.zone, cell: node => node.zone },
    { title: "Standing", cell: node => badge(node.standing, node.standing === "serving" ? "good" : "warn") },
    { title: "Share", sort: node => node.share, className: "num", cell: node => percent(node.share * 100) },
    { title: "Partitions", className: "num", sort: node => node.partitions, cell: node => number(node.partitions) },
    { title: "Takes", className: "num", cell: node => progress(node.takes) },
    { title: "Gives", className: "num", cell: node => progress(node.gives) },
    { title: "", cell: node => leaveButtons(node, cluster) },
  ], ring.nodes, { key: node => node.node, redraw, label: "Nodes of the ring" });
}

function matrix(cluster) {
  const nodes = nodesOf(cluster).map(node => [node.id, node]);
  const cell = (from, to) => {
    if (from === to) return h("td", { className: "num quiet" }, "·");
    const took = ((cluster.nodes[from] || {}).round_trips_ms || {})[to];
    return h("td", { className: `num ${took === undefined ? "quiet" : took > 100 ? "bad" : took > 20 ? "warn" : "good"}` }, millis(took));
  };
  return h("div", { className: "scroll" }, h("table", { className: "matrix" }, h("thead", null, h("tr", null, h("th", null, "from \\ to"), nodes.map(([id, node]) => h("th", { scope: "col", className: "num", key: id }, node.name)))), h("tbody", null, nodes.map(([from, node]) => h("tr", { key: from }, h("th", { scope: "row" }, node.name), nodes.map(([to]) => cell(from, to)))))));
}

export const page = {
  name: "regions", title: "Regions and ring", topics: ["regions", "ring", "cluster"],
  render({ live, redraw }) {
    const { regions, ring, cluster } = live.documents;
    note(live.documents);
    return [
      panel("Regions", { id: "regions", data: regions, error: live.errors.regions, live, hint: regions && `as ${regions.node} sees them`, empty: data => data.regions.length ? null : `This cluster is the only region, ${data.region}. \`althing region add\` joins another.`, body: data => h("div", null, map(data), regionTable(data, redraw)) }),
      panel("Ring", { id: "ring", data: ring, error: live.errors.ring, live, hint: ring && movesText(ring), body: () => h("div", null, ringTable(ring, cluster, redraw), facts([["Epoch", number(ring.epoch)], ["Partitions", number(ring.partitions)], ["Copies", number(ring.n)], ["Store here", bytes(ring.store_bytes)], ["Log here", bytes(ring.log_bytes)], ring.here ? ["Repaired up to", new Date(ring.here.repaired_upto).getTime() > 0 ? time(ring.here.repaired_upto) : "not yet"] : null, ring.here && ring.here.hints_for.length ? ["Hints for", ring.here.hints_for.join(", ")] : null])) }),
      panel("Round trips", { id: "latency", data: cluster, error: live.errors.cluster, live, hint: "mean of the last seconds, as each node measures them", body: matrix }),
    ];
  },
};
