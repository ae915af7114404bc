// Leases, watches and clients, page by page; those of watches and clients belong to a node, which is asked by whichever node
// serves the page. What keeps the past of any node from being compacted stands together.

import { h } from "./dom.js";
import { Pages, badge, facts, filterField, mono, nodesOf, pager, panel, table } from "./panels.js";
import { duration, number, rate, time } from "./format.js";
import { Rates } from "./rates.js";
import { get } from "./api.js";

const ROWS = 50;
const list = () => ({ data: undefined, error: undefined, pages: new Pages(), filter: "" });
// Requests of a client, and revisions that a watch has been sent, by the second.
const rates = { clients: new Rates(), watches: new Rates() };
const state = { node: "", leases: list(), watches: list(), clients: list(), pins: undefined, pinsError: undefined };

async function read(part, ask) {
  const { at } = part.pages;
  try {
    const data = await ask(at);
    if (at !== part.pages.at) return;
    [part.data, part.error] = [data, undefined];
  } catch (error) { part.error = error; }
}

const ofNode = name => read(state[name], async page => {
  const { node } = state;
  const found = await get(`/v1/${name}`, { limit: ROWS, page, filter: state[name].filter, node });
  found[name].forEach(row => rates[name].note(`${node} ${KEYS[name](row)}`, name === "clients" ? row.requests : row.next_revision));
  return found;
});
const rateOf = (name, row) => rate(rates[name].of(`${state.node} ${KEYS[name](row)}`));
const leases = () => read(state.leases, after => get("/v1/leases", { limit: ROWS, after }));

// What each node needs of the past; a node that does not say is named with its reason.
async function pins(cluster) {
  const asked = nodesOf(cluster).filter(node => node.member).map(async node => {
    try { return { node, compaction: await get("/v1/compaction", { node: node.id }) }; } catch (error) { return { node, error }; }
  });
  state.pins = await Promise.all(asked);
}

// What only root is shown is not asked for.
async function load({ redraw, session, live }) {
  if (!session.root) {
    for (const name of ["leases", "watches", "clients"]) state[name].error = { status: 403, message: `${name} are shown to the role root` };
    state.pinsError = { status: 403, message: "readers of the past are shown to the role root" };
    redraw();
    return;
  }
  await Promise.all([leases(), ofNode("watches"), ofNode("clients"), live.documents.cluster ? pins(live.documents.cluster) : null]);
  redraw();
}

const keysText = row => row.range_end ? `${row.key} to ${row.range_end === "\0" ? "the end" : row.range_end}` : row.key;
const some = names => names.length > 4 ? `${names.slice(0, 4).join(", ")} and ${number(names.length - 4)} more` : names.join(", ");
const STATES = { live: "good", behind: "warn", paused: "bad", future: "info" };

const COLUMNS = {
  leases: [
    { title: "Lease", cell: lease => mono(lease.id) },
    { title: "Ends in", className: "num", sort: lease => lease.left_ms, cell: lease => duration(lease.left_ms) },
    { title: "Granted for", className: "num", sort: lease => lease.granted_ttl, cell: lease => duration(lease.granted_ttl * 1000) },
    { title: "Granted", sort: lease => lease.granted_at, cell: lease => time(lease.granted_at) },
    { title: "Keys", className: "num", sort: lease => lease.key_count, cell: lease => number(lease.key_count) },
    { title: "Such as", className: "clip", cell: lease => mono(some(lease.keys)) },
    { title: "User", sort: lease => lease.user, cell: lease => lease.user ?? "–" },
  ],
  watches: [
    { title: "Watch", cell: watch => mono(`${watch.stream}.${watch.id}`) },
    { title: "Keys", className: "clip", sort: watch => watch.key, cell: watch => mono(keysText(watch)) },
    { title: "State", sort: watch => watch.state, cell: watch => badge(watch.state, STATES[watch.state]) },
    { title: "Behind by", className: "num", sort: watch => watch.lag, cell: watch => watch.lag ? `${number(watch.lag)} revisions` : "–" },
    { title: "Next revision", className: "num", sort: watch => watch.next_revision, cell: watch => number(watch.next_revision) },
    { title: "Revisions", className: "num", cell: watch => rateOf("watches", watch) },
    { title: "Client", className: "num", sort: watch => watch.client, cell: watch => watch.client ?? "–" },
    { title: "User", sort: watch => watch.user, cell: watch => watch.user ?? "–" },
  ],
  clients: [
    { title: "Client", className: "num", sort: client => client.id, cell: client => client.id },
    { title: "Address", sort: client => client.address, cell: client => mono(client.address) },
    { title: "User", sort: client => client.user, cell: client => client.user ?? "–" },
    { title: "Program", className: "clip", sort: client => client.agent, cell: client => client.agent ?? "–" },
    { title: "Connected", sort: client => client.connected_at, cell: client => time(client.connected_at) },
    { title: "Requests", className: "num", sort: client => client.requests, cell: client => number(client.requests) },
    { title: "Rate", className: "num", cell: client => rateOf("clients", client) },
    { title: "Calls now", className: "num", sort: client => client.streams, cell: client => number(client.streams) },
    { title: "Watches", className: "num", sort: client => client.watches, cell: client => number(client.watches) },
    { title: "Leases", className: "num", sort: client => client.leases.length, cell: client => number(client.leases.length) },
  ],
};
const KEYS = { leases: lease => lease.id, watches: watch => `${watch.stream}.${watch.id}`, clients: client => client.id };

function listPanel(name, title, next, { redraw }, hint) {
  const part = state[name];
  const reload = async () => { await (name === "leases" ? leases() : ofNode(name)); redraw(); };
  const filter = text => { part.filter = text; part.pages.first(); reload(); };
  return panel(title, {
    id: name, data: part.data, error: part.error, hint: part.data && hint,
    actions: name === "leases" ? [] : [filterField(name === "watches" ? "Filter by key or user" : "Filter by address, user or program", part.filter, filter)],
    body: data => h("div", null, data[name].length ? table(name, COLUMNS[name], data[name], { key: KEYS[name], redraw, label: title }) : h("p", { className: "empty" }, part.filter ? `No such ${name}.` : `There are no ${name}.`), pager(part.pages, next(data), reload)),
  });
}

function pinsTable(asked) {
  const rows = asked.flatMap(({ node, compaction, error }) => error ? [{ node, reason: error.message }] : compaction.pins.map(pin => ({ node, ...pin })));
  if (!rows.length) return h("p", { className: "empty" }, "Nothing: every watch has been sent everything, and no large read is under way.");
  return table("pins", [
    { title: "Node", cell: row => h("strong", null, row.node.name) },
    { title: "Needs from revision", className: "num", cell: row => row.revision === undefined ? "–" : number(row.revision) },
    { title: "Client", className: "num", cell: row => row.client ?? "–" },
    { title: "Delays", cell: row => row.revision === undefined ? badge("not known", "warn") : row.given_up ? badge("no more", "") : badge("yes", "warn") },
    { title: "What", className: "prose", cell: row => row.reason },
  ], rows, { key: row => `${row.node.id} ${row.stream} ${row.watch} ${row.revision}`, label: "Readers of the past" });
}

function roundText(asked) {
  const round = asked.map(({ compaction }) => compaction && compaction.last_round).find(Boolean);
  return round ? `${round.outcome}: wanted ${number(round.goal_revision)}, agreed on ${number(round.agreed_revision)}` : "none in this term";
}

export const page = {
  name: "leases", title: "Leases, watches, clients", topics: ["cluster"],
  enter(context) {
    const node = context.path[0] || "";
    if (node !== state.node) Object.assign(state, { node, watches: list(), clients: list() });
    load(context);
  },
  tick(context) { load(context); },
  tickMs: 4000,
  render(context) {
    const { live } = context;
    const { cluster } = live.documents;
    if (cluster && state.pins === undefined && !state.pinsError) { state.pins = null; pins(cluster).then(context.redraw); }
    const shown = cluster ? cluster.nodes[state.node || cluster.node] : null;
    const of = shown ? `of ${shown.name}` : null;
    const total = name => state[name].data ? `${number(state[name].data.total)} ${of || ""}` : null;
    return [
      panel("Watches by node", { id: "watchcounts", data: cluster, error: live.errors.cluster, live, body: () => h("div", null,
        table("watchcounts", [
          { title: "Node", cell: node => h("a", { href: `#/leases/${node.id}`, "aria-current": node.id === (state.node || cluster.node) ? "true" : undefined }, node.name) },
          { title: "Streams", className: "num", cell: node => number(node.numbers?.watch_streams) },
          { title: "Watches", className: "num", cell: node => number(node.numbers?.watches) },
          { title: "Behind", className: "num", cell: node => number(node.numbers?.watches_behind) },
          { title: "Events", className: "num", cell: node => number(node.numbers?.watch_events_per_second) },
          { title: "Applied", className: "num", cell: node => number(node.numbers?.applied) },
        ], nodesOf(cluster), { key: node => node.name, label: "Watches by node" }),
        facts([["Newest revision", number(cluster.revision)], ["Compacted up to", number(cluster.compacted)], ["Kept", `${number(cluster.revision - cluster.compacted)} revisions`], state.pins ? ["Last compaction round", roundText(state.pins)] : null])) }),
      panel("What keeps the past from being compacted", { id: "pins", data: state.pins || undefined, error: state.pinsError, hint: "on every member", body: pinsTable }),
      listPanel("leases", "Leases", data => data.more ? data.leases.at(-1).id : null, context, "of the whole cluster"),
      listPanel("watches", "Watches", data => data.next_page, context, total("watches")),
      listPanel("clients", "Clients", data => data.next_page, context, total("clients")),
    ];
  },
};
