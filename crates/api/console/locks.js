// Every lock with its holder, token, expiry and queue; and the removal of a place, with what will happen said first.

import { h } from "./dom.js";
import { Pages, badge, button, errorNote, facts, filterField, mono, pager, panel, table } from "./panels.js";
import { age, duration, number, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { del, get } from "./api.js";
import { chart } from "./charts.js";

const QUEUE_ROWS = 50;
const state = { filter: "", pages: new Pages(), queue: new Pages(), open: null, found: undefined, refusals: undefined, refusalsError: undefined, refusalsAt: 0 };
const query = () => state.filter || state.pages.at ? { filter: state.filter, page: state.pages.at } : {};
const REFUSED = "fence_refusals_per_second";
// An hour of all series is a large answer.
const REFUSALS_MS = 30000;

// Every member applies every write, so that this node's count is that of the cluster.
async function loadRefusals(redraw) {
  if (Date.now() - state.refusalsAt < REFUSALS_MS) return;
  state.refusalsAt = Date.now();
  try {
    const { series, samples } = await get("/v1/cluster/metrics");
    const found = series.find(one => one.name === REFUSED);
    state.refusals = found ? { ...found, values: samples.values[REFUSED] || [], endMs: samples.end_ms, stepMs: samples.step_ms } : null;
    state.refusalsError = undefined;
  } catch (error) { state.refusalsError = error; }
  redraw();
}

async function remove(lock, place, redraw) {
  const isHolder = place.key === lock.key;
  const next = isHolder ? lock.queue[0] : null;
  const text = isHolder
    ? [`${lock.holder} loses the lock now, although it may believe for up to ${duration(lock.remaining_ttl_ms)} that it has it.`,
      next ? `${next.client} gets the lock with a higher token, and fenced writes with token ${lock.token} are refused from then on.` : "No client waits; the lock becomes free."]
    : [`${place.client} leaves the queue. Its call is told that it does not have the lock.`];
  const sure = await ask({ title: isHolder ? `Release ${lock.name}` : `Remove a waiter of ${lock.name}`, text, action: isHolder ? "Release" : "Remove", danger: true });
  if (sure && await attempt(() => del("/v1/lock", { name: lock.name, key: place.key, token: place.token }), isHolder ? "Released" : "Removed")) look(lock.name, redraw);
}

async function look(name, redraw) {
  if (name !== state.open) state.queue.first();
  state.open = name;
  try { state.found = { ...await get("/v1/lock", { name }), readAt: Date.now() }; } catch (error) { state.found = { error }; }
  redraw();
}

function lockPanel(redraw) {
  const lock = state.found;
  const from = Number(state.queue.at) || 0;
  const rows = lock && lock.queue ? [{ ...lock, client: lock.holder, place: 0 }, ...lock.queue.map((waiter, nth) => ({ ...waiter, place: nth + 1 }))] : [];
  return panel(state.open, { id: "lock", data: lock, className: "detail", body: () => lock.error ? errorNote(lock.error) : lock.holder === null ? h("p", { className: "empty" }, lock.blocked_by ? `No client holds this lock. The key ${lock.blocked_by} is no entry of it and keeps clients waiting until it is deleted.` : "No client holds this lock or waits for it.") : h("div", null,
    facts([["Holder", lock.holder], ["Since", lock.since_ms ? h("span", null, time(lock.since_ms), ` (${age(lock.since_ms)})`) : "not known"], ["Token", number(lock.token)], ["Ends in", `${duration(Math.max(0, lock.remaining_ttl_ms - (Date.now() - lock.readAt)))} unless renewed`], ["Lease", mono(lock.lease)], lock.metadata ? ["Metadata", lock.metadata] : null]),
    h("h3", null, "Queue"),
    table("queue", [
      { title: "Place", className: "num", cell: row => row.place === 0 ? badge("holds", "good") : number(row.place) },
      { title: "Client", cell: row => row.client ?? "no entry of the lock" },
      { title: "Token", className: "num", cell: row => number(row.token) },
      { title: "Since", cell: row => row.since_ms ? h("span", null, time(row.since_ms), h("span", { className: "quiet" }, ` ${age(row.since_ms)}`)) : "–" },
      { title: "", cell: row => button(row.place === 0 ? "Release" : "Remove", () => remove(lock, row, redraw), { className: "danger small" }) },
    ], rows.slice(from, from + QUEUE_ROWS), { key: row => row.key, label: "Queue" }), pager(state.queue, from + QUEUE_ROWS < rows.length ? String(from + QUEUE_ROWS) : null, redraw)) });
}

export const page = {
  name: "locks", title: "Locks and elections", topics: ["locks", "cluster"],
  enter({ live, path, redraw }) {
    live.ask(query());
    if (path[0]) look(path[0], redraw);
    loadRefusals(redraw);
  },
  tick({ redraw }) { if (state.open) look(state.open, redraw); loadRefusals(redraw); },
  tickMs: 3000,
  render({ live, redraw }) {
    const data = live.documents.locks;
    const show = () => { live.ask(query()); redraw(); };
    const filter = text => { state.filter = text; state.pages.first(); show(); };
    return [
      h("div", { className: "tools", key: "tools" }, filterField("Filter by name", state.filter, filter),
        data && h("span", { className: "quiet" }, `${number(data.count)} ${data.count === 1 ? "lock" : "locks"}${state.filter ? " of this name" : ""}; on this page ${number(data.waiters)} waiting${data.hidden ? `, ${data.hidden} hidden from this user` : ""}${data.complete === false ? "; there are more: filter by name" : ""}`)),
      panel("Locks", {
        id: "locks", data, error: live.errors.locks, live, empty: found => found.count ? null : state.filter ? "No lock has such a name." : "No client holds a lock. `althing lock NAME` takes one. A lock that was made by other means than the lock and election APIs is found by its name.",
        body: () => h("div", null, table("locks", [
          { title: "Lock", sort: lock => lock.name, cell: lock => h("button", { type: "button", className: "name", onclick: () => look(lock.name, redraw) }, mono(lock.name)) },
          { title: "Holder", sort: lock => lock.holder, cell: lock => lock.holder ?? "blocked by a key" },
          { title: "Since", sort: lock => lock.since_ms, cell: lock => lock.since_ms ? time(lock.since_ms) : "–" },
          { title: "Token", className: "num", sort: lock => lock.token, cell: lock => number(lock.token) },
          { title: "Waiting", className: "num", sort: lock => lock.queue.length, cell: lock => lock.queue.length ? badge(number(lock.queue.length), "warn") : "0" },
          { title: "Next", cell: lock => lock.queue.length ? lock.queue[0].client : "" },
          { title: "Value", className: "clip", cell: lock => lock.metadata || "" },
        ], data.locks, { key: lock => lock.name, redraw, label: "Locks" }), pager(state.pages, data.next_page, show),
        h("p", { className: "quiet" }, "An election of etcd's API is a lock of that name: its leader holds it, candidates wait, and what the leader proclaims is the value.")),
      }),
      state.open ? lockPanel(redraw) : null,
      panel("Refused stale writes", { id: "refusals", data: state.refusals, error: state.refusalsError, hint: "writes with a token that a later holder of the lock has overtaken", empty: found => found ? null : "This release does not count them.", body: found => h("div", { className: "charts" }, chart(found)) }),
    ];
  },
};
