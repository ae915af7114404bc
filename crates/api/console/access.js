// Users, roles and permissions of both planes as a matrix, who may do what on one key, and the session of this page.

import { h } from "./dom.js";
import { Pages, badge, button, facts, filterField, pager, panel } from "./panels.js";
import { get, isLoggedIn, setToken } from "./api.js";
import { eventsList } from "./overview.js";

const ROWS = 50;
const state = { filter: "", pages: { users: new Pages(), roles: new Pages() }, user: "", table: undefined, error: undefined, key: "", plane: "keys", space: "default" };

async function load(redraw, session) {
  if (!session.root) { state.error = { status: 403, message: "users, roles and permissions are shown to the role root" }; redraw(); return; }
  try { state.table = await get("/v1/access"); state.error = undefined; } catch (error) { state.error = error; }
  redraw();
}

// Bytes as a text of one letter a byte, so that any two compare as their bytes do.
const bytesOf = text => String.fromCharCode(...new TextEncoder().encode(text));
const fieldBytes = (permission, name) => permission[name] !== undefined ? bytesOf(permission[name]) : permission[`${name}_base64`] !== undefined ? atob(permission[`${name}_base64`]) : "";
const fieldText = (permission, name) => permission[name] ?? `base64:${permission[`${name}_base64`]}`;

function keysText(permission) {
  const start = fieldText(permission, "start");
  if (permission.is_one_key) return start;
  if (permission.is_open) return start === "\0" || start === "" ? "all keys" : `${start} …`;
  return `${start} to ${fieldText(permission, "end")}`;
}

function isOfKey(permission, key) {
  const start = fieldBytes(permission, "start");
  return permission.is_one_key ? key === start : key >= start && (permission.is_open || key < fieldBytes(permission, "end"));
}

// What a role permits on one key: none, or some of `read`, `write` and `admin`.
function rightsOf(role, plane, space, key) {
  const wanted = bytesOf(key);
  const isMeant = permission => plane === "keys" ? isOfKey(permission, wanted) : (permission.namespace === "*" || permission.namespace === space) && wanted.startsWith(fieldBytes(permission, "prefix"));
  const found = role.role === "root" ? ["admin"] : role[plane].filter(isMeant).map(permission => permission.access);
  return found.flatMap(access => ({ readwrite: ["read", "write"], admin: ["read", "write", "admin"] })[access] || [access]);
}

const plain = { read: "reads", write: "writes", readwrite: "reads and writes", admin: "administers" };

function together(rights) {
  const found = new Set(rights);
  return found.has("admin") ? "admin" : found.has("read") && found.has("write") ? "readwrite" : [...found][0];
}

// A page of the rows whose name has the filter in it, and the way to the next.
function paged(name, rows, redraw) {
  const pages = state.pages[name];
  const wanted = rows.filter(row => (row.user ?? row.role).includes(state.filter) || (row.roles || []).some(role => role.includes(state.filter)));
  const from = Number(pages.at) || 0;
  return [wanted.slice(from, from + ROWS), pager(pages, from + ROWS < wanted.length ? String(from + ROWS) : null, redraw)];
}

function matrix(table, redraw) {
  const [users, turn] = paged("users", table.users, redraw);
  const roles = new Map(table.roles.map(role => [role.role, role]));
  const columns = [...new Set(table.users.length > ROWS || roles.size > ROWS ? users.flatMap(user => user.roles) : [...roles.keys(), ...table.users.flatMap(user => user.roles)])];
  const may = user => together(user.roles.flatMap(name => rightsOf(roles.get(name) || { role: name, keys: [], data: [] }, state.plane, state.space, state.key)));
  return h("div", null, turn, h("div", { className: "scroll", tabindex: "0", role: "region", "aria-label": "Users and roles" }, h("table", { className: "matrix" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "User"), columns.map(role => h("th", { scope: "col", className: "mid", key: role }, role)), state.key && h("th", { scope: "col" }, `on ${state.key}`))),
    h("tbody", null, users.map(user => h("tr", { key: user.user, "aria-selected": user.user === state.user ? "true" : undefined }, h("th", { scope: "row" }, user.user), columns.map(role => h("td", { className: "mid" }, user.roles.includes(role) ? h("span", { className: "yes", role: "img", "aria-label": "has this role" }, "●") : "")), state.key && h("td", null, may(user) ? badge(plain[may(user)], "good") : badge("nothing", ""))))))));
}

function roleRows(role) {
  const rows = [...role.keys.map(permission => [permission.access, "coordination", keysText(permission)]), ...role.data.map(permission => [permission.access, `data in ${permission.namespace === "*" ? "every namespace" : permission.namespace}`, fieldBytes(permission, "prefix") ? `${fieldText(permission, "prefix")} …` : "all keys"])];
  if (role.role === "root") rows.unshift(["admin", "everything", "all keys and all calls"]);
  return h("section", { className: "role", key: role.role }, h("h3", null, role.role), rows.length ? h("ul", { className: "plain" }, rows.map(([access, plane, keys]) => h("li", null, badge(plain[access], "info"), ` ${plane}: `, h("code", null, keys)))) : h("p", { className: "quiet" }, "permits nothing"));
}

export const page = {
  name: "access", title: "Access", topics: ["events"],
  enter({ path, redraw, session }) { state.user = path[0] || ""; load(redraw, session); },
  render({ live, session, redraw, login }) {
    const filter = text => { state.filter = text; Object.values(state.pages).forEach(pages => pages.first()); redraw(); };
    const spaceOf = event => { state.key = event.target.value; redraw(); };
    const refusals = live.documents.events && live.documents.events.events.filter(event => ["login", "denied", "auth"].includes(event.kind));
    return [
      panel("This session", { id: "session", data: session, actions: session && session.auth ? [isLoggedIn() ? button("Log out", () => setToken(null)) : button("Log in", login)] : [], body: () => facts([["Auth", session.auth ? badge("on", "good") : badge("off: every caller may do everything", "warn")], ["User", session.user || (session.auth ? "none" : "not needed")], ["May", session.root ? "everything" : session.user ? "what its roles permit; pages say what is hidden" : "nothing"], ["Token", isLoggedIn() ? "in this page's memory; closing the page forgets it" : "none"]]) }),
      panel("Users and roles", { id: "users", data: state.table, error: state.error, empty: table => table.users.length ? null : "There are no users. `althing user add root` makes the first.", body: table => h("div", null,
        h("div", { className: "tools" }, filterField("Filter by user or role", state.filter, filter), h("input", { type: "search", placeholder: "Who may do what on key …", "aria-label": "Key", value: state.key, oninput: spaceOf }), h("select", { "aria-label": "Plane", onchange: event => { state.plane = event.target.value; redraw(); } }, h("option", { value: "keys" }, "coordination"), h("option", { value: "data" }, "data")), state.plane === "data" && h("input", { "aria-label": "Namespace", value: state.space, oninput: event => { state.space = event.target.value; redraw(); } })),
        matrix(table, redraw)) }),
      panel("Roles", { id: "roles", data: state.table, error: state.error, empty: table => table.roles.length ? null : "There are no roles.", body: table => { const [roles, turn] = paged("roles", table.roles, redraw); return h("div", null, turn, h("div", { className: "roles" }, roles.map(roleRows))); } }),
      panel("Refused logins and requests, changes of auth", { id: "refusals", data: refusals, live, hint: session.root ? "user and address, the newest first" : "who was refused is shown to the role root", empty: events => events.length ? null : "None since the nodes started.", body: eventsList }),
    ];
  },
};
