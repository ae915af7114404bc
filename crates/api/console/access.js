// Users, roles and permissions of both planes as a matrix, who may do what on one key, and the session of this page.

import { h } from "./dom.js";
import { badge, button, facts, panel } from "./panels.js";
import { get, isLoggedIn, setToken } from "./api.js";
import { eventsList } from "./overview.js";

const state = { user: "", table: undefined, error: undefined, key: "", plane: "keys", space: "default" };

async function load(redraw, session) {
  if (!session.root) { state.error = { status: 403, message: "users, roles and permissions are shown to the role root" }; redraw(); return; }
  try { state.table = await get("/v1/access"); state.error = undefined; } catch (error) { state.error = error; }
  redraw();
}

function keysText(permission) {
  const start = permission.start ?? `base64:${permission.start_base64}`;
  if (permission.is_one_key) return start;
  if (permission.is_open) return start === "\0" || start === "" ? "all keys" : `${start} …`;
  return `${start} to ${permission.end ?? `base64:${permission.end_base64}`}`;
}

function allows(role, plane, space, key) {
  if (role.role === "root") return "readwrite";
  const found = new Set();
  const note = access => { if (access !== "write") found.add("read"); if (access !== "read") found.add("write"); };
  if (plane === "keys") {
    for (const permission of role.keys) {
      const [start, end] = [permission.start ?? "", permission.end ?? ""];
      if (permission.is_one_key ? key === start : key >= start && (permission.is_open || key < end)) note(permission.access);
    }
  } else {
    for (const permission of role.data) if ((permission.namespace === "*" || permission.namespace === space) && key.startsWith(permission.prefix ?? "")) note(permission.access);
  }
  return found.size === 2 ? "readwrite" : [...found][0] || "";
}

const plain = { read: "reads", write: "writes", readwrite: "reads and writes", admin: "administers" };

function matrix(table) {
  const roles = new Map(table.roles.map(role => [role.role, role]));
  const columns = [...new Set([...roles.keys(), ...table.users.flatMap(user => user.roles)])];
  const may = (user) => {
    const found = new Set(user.roles.map(name => allows(roles.get(name) || { role: name, keys: [], data: [] }, state.plane, state.space, state.key)).filter(Boolean).flatMap(access => access === "readwrite" ? ["read", "write"] : [access]));
    return found.size === 2 ? "readwrite" : [...found][0] || "";
  };
  return h("div", { className: "scroll" }, h("table", { className: "matrix" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "User"), columns.map(role => h("th", { scope: "col", className: "mid", key: role }, role)), state.key && h("th", { scope: "col" }, `on ${state.key}`))),
    h("tbody", null, table.users.map(user => h("tr", { key: user.user, "aria-selected": user.user === state.user ? "true" : undefined }, h("th", { scope: "row" }, user.user), columns.map(role => h("td", { className: "mid" }, user.roles.includes(role) ? h("span", { className: "yes", role: "img", "aria-label": "has this role" }, "●") : "")), state.key && h("td", null, may(user) ? badge(plain[may(user)], "good") : badge("nothing", "")))))));
}

function roleRows(role) {
  const rows = [...role.keys.map(permission => [permission.access, "coordination", keysText(permission)]), ...role.data.map(permission => [permission.access, `data in ${permission.namespace === "*" ? "every namespace" : permission.namespace}`, permission.prefix ? `${permission.prefix} …` : "all keys"])];
  if (role.role === "root") rows.unshift(["admin", "everything", "all keys and all calls"]);
  return h("section", { className: "role", key: role.role }, h("h3", null, role.role), rows.length ? h("ul", { className: "plain" }, rows.map(([access, plane, keys]) => h("li", null, badge(plain[access], "info"), ` ${plane}: `, h("code", null, keys)))) : h("p", { className: "quiet" }, "permits nothing"));
}

export const page = {
  name: "access", title: "Access", topics: ["events"],
  enter({ path, redraw, session }) { state.user = path[0] || ""; load(redraw, session); },
  render({ live, session, redraw, login }) {
    const spaceOf = event => { state.key = event.target.value; redraw(); };
    const refusals = live.documents.events && live.documents.events.events.filter(event => ["login", "denied", "auth"].includes(event.kind));
    return [
      panel("This session", { id: "session", data: session, actions: session && session.auth ? [isLoggedIn() ? button("Log out", () => setToken(null)) : button("Log in", login)] : [], body: () => facts([["Auth", session.auth ? badge("on", "good") : badge("off: every caller may do everything", "warn")], ["User", session.user || (session.auth ? "none" : "not needed")], ["May", session.root ? "everything" : session.user ? "what its roles permit; pages say what is hidden" : "nothing"], ["Token", isLoggedIn() ? "in this page's memory; closing the page forgets it" : "none"]]) }),
      panel("Users and roles", { id: "users", data: state.table, error: state.error, empty: table => table.users.length ? null : "There are no users. `althing user add root` makes the first.", body: table => h("div", null,
        h("div", { className: "tools" }, h("input", { type: "search", placeholder: "Who may do what on key …", "aria-label": "Key", value: state.key, oninput: spaceOf }), h("select", { "aria-label": "Plane", onchange: event => { state.plane = event.target.value; redraw(); } }, h("option", { value: "keys" }, "coordination"), h("option", { value: "data" }, "data")), state.plane === "data" && h("input", { "aria-label": "Namespace", value: state.space, oninput: event => { state.space = event.target.value; redraw(); } })),
        matrix(table)) }),
      panel("Roles", { id: "roles", data: state.table, error: state.error, empty: table => table.roles.length ? null : "There are no roles.", body: table => h("div", { className: "roles" }, table.roles.map(roleRows)) }),
      panel("Refused logins and requests, changes of auth", { id: "refusals", data: refusals, live, hint: session.root ? "user and address, the newest first" : "who was refused is shown to the role root", empty: events => events.length ? null : "None since the nodes started.", body: eventsList }),
    ];
  },
};
