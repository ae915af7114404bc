// Leases, watches and clients: what is attached, how far each is behind, and what keeps history from being compacted.

import { h } from "./dom.js";
import { facts, mono, nodesOf, panel, table } from "./panels.js";
import { bytes, duration, number } from "./format.js";
import { get } from "./api.js";

const LISTS = [["leases", "Leases"], ["watches", "Watches"], ["clients", "Clients"]];
const state = { leases: undefined, watches: undefined, clients: undefined, errors: {}, paths: null };

// What this release does not serve is not asked for.
async function isServed(path) {
  state.paths = state.paths || (await get("/openapi.json")).paths;
  return path in state.paths;
}

async function load(redraw) {
  await Promise.all(LISTS.map(async ([name]) => {
    try {
      if (!await isServed(`/v1/${name}`)) { state[name] = null; return; }
      const answer = await get(`/v1/${name}`, { limit: 200 });
      state[name] = Array.isArray(answer) ? answer : answer[name] || [];
      delete state.errors[name];
    } catch (error) { state.errors[name] = error; }
  }));
  redraw();
}

const UNITS = [[/_ms$/, duration], [/bytes$/, bytes]];

function cell(name, value) {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.length > 4 ? `${value.slice(0, 4).join(", ")} and ${value.length - 4} more` : value.join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  if (typeof value === "number") return (UNITS.find(([ends]) => ends.test(name)) || [null, number])[1](value);
  return /^(id|lease|key|start|end|address)/.test(name) ? mono(String(value)) : String(value);
}

// The columns are what the rows have: a newer release may tell more.
function rowsTable(name, rows, redraw) {
  const names = [...new Set(rows.flatMap(row => Object.keys(row)))].slice(0, 10);
  return table(name, names.map(field => ({ title: field.replaceAll("_", " "), sort: row => row[field], className: typeof rows[0][field] === "number" ? "num" : "", cell: row => cell(field, row[field]) })), rows, { key: row => JSON.stringify(row.id ?? row.lease ?? row.address ?? row), redraw });
}

export const page = {
  name: "leases", title: "Leases, watches, clients", topics: ["cluster"],
  enter({ redraw }) { load(redraw); },
  tick({ redraw }) { load(redraw); },
  tickMs: 4000,
  render({ live, redraw }) {
    const { cluster } = live.documents;
    return [
      panel("Watches by node", { id: "watchcounts", data: cluster, error: live.errors.cluster, live, body: () => h("div", null,
        table("watchcounts", [
          { title: "Node", cell: node => node.name },
          { title: "Streams", className: "num", cell: node => number(node.numbers?.watch_streams) },
          { title: "Watches", className: "num", cell: node => number(node.numbers?.watches) },
          { title: "Behind", className: "num", cell: node => number(node.numbers?.watches_behind) },
          { title: "Events", className: "num", cell: node => number(node.numbers?.watch_events_per_second) },
          { title: "Applied", className: "num", cell: node => number(node.numbers?.applied) },
        ], nodesOf(cluster), { key: node => node.name }),
        facts([["Newest revision", number(cluster.revision)], ["Compacted up to", number(cluster.compacted)], ["Kept", `${number(cluster.revision - cluster.compacted)} revisions`]])) }),
      LISTS.map(([name, title]) => panel(title, { id: name, data: state[name], error: state.errors[name], empty: rows => rows === null ? "Not available: this node has no such list." : rows.length ? null : `There are no ${name}.`, body: rows => rowsTable(name, rows, redraw) })),
    ];
  },
};
