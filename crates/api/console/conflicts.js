// Writes that lost against one that had not seen them: both values with what differs marked, by which rule, and the way back.

import { h } from "./dom.js";
import { Pages, badge, button, filterField, link, pager, panel } from "./panels.js";
import { number, short, time } from "./format.js";
import { ask, attempt } from "./dialog.js";
import { post, segment } from "./api.js";
import { sideBySide, textOf } from "./diff.js";

const state = { filter: "", pages: new Pages(), open: new Set() };
const query = () => state.filter || state.pages.at ? { filter: state.filter, page: state.pages.at } : {};
// What decided, by the names that the API gives it.
const RULES = {
  recreated: "the key was deleted and created again as another kind of thing",
  type_precedence: "it was created as two kinds of thing at once; one kind goes before the other",
  fencing_token: "the write with the later fencing token stays",
  last_write_wins: "the later write stays",
  last_write_wins_by_node: "both have the same time; the write of the higher node stays",
  last_write_wins_by_hash: "one node has written twice at one time; the higher hash stays",
  decided_by_ballot: "the replicas have decided together on the one that stays",
  replaced_unmerged: "their handler could not merge them, and there was no room for more",
};
const clockText = clock => Object.entries(clock || {}).map(([region, count]) => `${count} of ${region}`).join(", ") || "nothing";

async function restore(conflict) {
  const sure = await ask({ title: `Restore the losing value of ${conflict.key}`, text: ["The value that lost is written again, over what is there now. What is there now becomes the losing side of a new conflict if another client writes meanwhile."], action: "Restore", danger: true });
  if (sure) attempt(() => post(`/v1/conflicts/${segment(conflict.conflict_id)}/restore`), "Restored");
}

function item(conflict, redraw) {
  const isOpen = state.open.has(conflict.conflict_id);
  const toggle = () => { if (isOpen) state.open.delete(conflict.conflict_id); else state.open.add(conflict.conflict_id); redraw(); };
  const side = (value, isDeleted) => isDeleted ? "(deleted)" : value;
  const isReplaced = (conflict.losing_values || []).length > 0;
  const lost = side(isReplaced ? conflict.losing_values : conflict.losing_value, conflict.loser_deleted);
  const clip = value => { const text = textOf(value).replace(/\s+/g, " "); return text.length > 60 ? `${text.slice(0, 60)} …` : text; };
  return h("li", { key: conflict.conflict_id, className: "conflict" },
    h("button", { type: "button", className: "row", "aria-expanded": String(isOpen), onclick: toggle }, time(conflict.resolved_at), h("code", null, `${conflict.namespace ?? "?"}/${conflict.key}`), h("span", { className: "grow quiet" }, clip(lost), " lost against ", clip(side(conflict.winning_value, conflict.winner_deleted))), badge(conflict.source_region, "info")),
    isOpen && h("div", { className: "inside" },
      sideBySide(lost, side(conflict.winning_value, conflict.winner_deleted), ["lost", "stays"]),
      h("p", null, `Rule: ${conflict.resolution_strategy.replaceAll("_", " ")}${RULES[conflict.resolution_strategy] ? ` (${RULES[conflict.resolution_strategy]})` : ""}. The write that stays had seen ${clockText(conflict.winning_clock)}; the one that lost had seen ${clockText(conflict.losing_clock)}.${isReplaced ? "" : " Neither had seen the other."}`),
      h("p", null, "Written ", time(conflict.losing_write_at), ", resolved ", time(conflict.resolved_at), " here, coming from ", conflict.source_region, "."),
      h("p", { className: "actions" }, isReplaced ? null : button("Restore the losing value", () => restore(conflict)), " ", conflict.namespace && link(`#/data/${segment(conflict.namespace)}/${segment(conflict.key)}`, "Open the key"))));
}

// How many of the shown were resolved in each namespace, by the minute from the first to the last.
function ratesBySpace(conflicts) {
  const counts = new Map();
  for (const { namespace } of conflicts) counts.set(namespace ?? "?", (counts.get(namespace ?? "?") || 0) + 1);
  const times = conflicts.map(conflict => new Date(conflict.resolved_at).getTime());
  const minutes = (Math.max(...times) - Math.min(...times)) / 60000;
  const rate = count => minutes >= 1 ? `${short(count / minutes)} a minute, ` : "";
  return [...counts].map(([space, count]) => [space, `${rate(count)}${number(count)} on this page`]);
}

export const page = {
  name: "conflicts", title: "Conflicts", topics: ["conflicts", "cluster"],
  enter({ live }) { live.ask(query()); },
  render({ live, redraw }) {
    const data = live.documents.conflicts;
    const show = () => { live.ask(query()); redraw(); };
    const filter = text => { state.filter = text; state.pages.first(); show(); };
    const bySpace = ratesBySpace(data ? data.conflicts : []);
    return [
      h("div", { className: "tools", key: "tools" }, filterField("Filter by namespace or key", state.filter, filter), bySpace.map(([space, text]) => badge(`${space}: ${text}`)), data && data.nodes_missing.length ? badge(`${data.nodes_missing.length} nodes did not answer`, "warn") : null),
      panel("Conflicts", { id: "conflicts", data, error: live.errors.conflicts, live, hint: data && (data.order === "newest" ? "the newest first" : "the oldest first until the upgrade is finalized"), empty: found => found.conflicts.length || found.next_page || state.pages.before.length ? null : state.filter ? "No conflict of such a key." : "No write has lost against another that had not seen it.", body: () => h("div", null, h("ul", { className: "plain conflicts" }, data.conflicts.map(conflict => item(conflict, redraw))), pager(state.pages, data.next_page, show)) }),
    ];
  },
};
