// Every lock with its holder, token, expiry and queue; and the removal of a place, with what will happen said first.

import { h } from "./dom.js";
import { badge, button, errorNote, facts, mono, panel, table } from "./panels.js";
import { age, duration, number, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { del, get } from "./api.js";

const state = { filter: "", open: null, found: undefined };

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
  state.open = name;
  try { state.found = { ...await get("/v1/lock", { name }), readAt: Date.now() }; } catch (error) { state.found = { error }; }
  redraw();
}

function lockPanel(redraw) {
  const lock = state.found;
  return panel(state.open, { id: "lock", data: lock, className: "detail", body: () => lock.error ? errorNote(lock.error) : lock.holder === null ? h("p", { className: "empty" }, "No client holds this lock or waits for it.") : h("div", null,
    facts([["Holder", lock.holder], ["Since", lock.since_ms ? h("span", null, time(lock.since_ms), ` (${age(lock.since_ms)})`) : "not known"], ["Token", number(lock.token)], ["Ends in", `${duration(Math.max(0, lock.remaining_ttl_ms - (Date.now() - lock.readAt)))} unless renewed`], ["Lease", mono(lock.lease)], lock.metadata ? ["Metadata", lock.metadata] : null]),
    h("h3", null, "Queue"),
    table("queue", [
      { title: "Place", className: "num", cell: row => row.place === 0 ? badge("holds", "good") : number(row.place) },
      { title: "Client", cell: row => row.client },
      { title: "Token", className: "num", cell: row => number(row.token) },
      { title: "Since", cell: row => row.since_ms ? h("span", null, time(row.since_ms), h("span", { className: "quiet" }, ` ${age(row.since_ms)}`)) : "–" },
      { title: "", cell: row => button(row.place === 0 ? "Release" : "Remove", () => remove(lock, row, redraw), { className: "danger small" }) },
    ], [{ ...lock, client: lock.holder, place: 0 }, ...lock.queue.map((waiter, nth) => ({ ...waiter, place: nth + 1 }))], { key: row => row.key, label: "Queue" })) });
}

export const page = {
  name: "locks", title: "Locks", topics: ["locks", "cluster"],
  enter({ path, redraw }) { if (path[0]) look(path[0], redraw); },
  tick({ redraw }) { if (state.open) look(state.open, redraw); },
  tickMs: 3000,
  render({ live, redraw }) {
    const data = live.documents.locks;
    const rows = data ? data.locks.filter(lock => `${lock.name} ${lock.holder}`.includes(state.filter)) : [];
    return [
      h("div", { className: "tools", key: "tools" }, h("input", { type: "search", placeholder: "Filter by name or holder", "aria-label": "Filter", value: state.filter, oninput: event => { state.filter = event.target.value; redraw(); } }),
        data && h("span", { className: "quiet" }, `${number(data.count)} ${data.count === 1 ? "lock" : "locks"}, ${number(data.waiters)} waiting${data.hidden ? `, ${data.hidden} hidden from this user` : ""}`)),
      panel("Locks", {
        id: "locks", data, error: live.errors.locks, live, empty: found => found.count ? null : "No client holds a lock. `althing lock NAME` takes one. A lock that was made by other means than the lock API is found by its name.",
        body: () => table("locks", [
          { title: "Lock", sort: lock => lock.name, cell: lock => h("button", { type: "button", className: "name", onclick: () => look(lock.name, redraw) }, mono(lock.name)) },
          { title: "Holder", sort: lock => lock.holder, cell: lock => lock.holder },
          { title: "Since", sort: lock => lock.since_ms, cell: lock => lock.since_ms ? time(lock.since_ms) : "–" },
          { title: "Token", className: "num", sort: lock => lock.token, cell: lock => number(lock.token) },
          { title: "Ends in", className: "num", sort: lock => lock.remaining_ttl_ms, cell: lock => duration(lock.remaining_ttl_ms) },
          { title: "Waiting", className: "num", sort: lock => lock.queue.length, cell: lock => lock.queue.length ? badge(number(lock.queue.length), "warn") : "0" },
          { title: "Next", cell: lock => lock.queue.length ? lock.queue[0].client : "" },
        ], rows, { key: lock => lock.name, redraw, label: "Locks" }),
      }),
      state.open ? lockPanel(redraw) : null,
    ];
  },
};
