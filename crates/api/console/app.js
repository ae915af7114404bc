// The console: which page is open, who is logged in, and what is drawn when something has changed.

import { h, show } from "./dom.js";
import { get, isLoggedIn, onSession, post, setToken } from "./api.js";
import { Live } from "./live.js";
import { ask, toast } from "./dialog.js";
import { badge, errorNote } from "./panels.js";
import { openCommands } from "./commands.js";
import { page as overview } from "./overview.js";
import { page as keys } from "./keys.js";
import { page as data } from "./data.js";
import { page as locks } from "./locks.js";
import { page as leases } from "./leases.js";
import { page as conflicts } from "./conflicts.js";
import { page as regions } from "./regions.js";
import { page as access } from "./access.js";
import { page as maintenance } from "./maintenance.js";
import { page as metrics } from "./metrics.js";

const PAGES = [overview, keys, data, locks, leases, conflicts, regions, access, maintenance, metrics];
const state = { page: overview, path: [], live: null, session: undefined, error: undefined, timer: null, isMenuOpen: false, isDrawing: false };
const [bar, side, main] = ["bar", "side", "main"].map(id => document.getElementById(id));

// All changes of one moment are drawn together.
function redraw() {
  if (state.isDrawing) return;
  state.isDrawing = true;
  requestAnimationFrame(() => { state.isDrawing = false; draw(); });
}

const mayEnter = () => state.session && (!state.session.auth || state.session.user);
const context = () => ({ live: state.live, session: state.session, path: state.path, redraw, login });

function draw() {
  drawBar();
  drawSide();
  if (state.error) { show(main, errorNote(state.error), h("button", { type: "button", onclick: begin }, "Try again")); return; }
  if (!state.session) { show(main, h("p", { className: "quiet", role: "status" }, "Asking this node …")); return; }
  if (!mayEnter()) { show(main, loginForm()); return; }
  show(main, h("h1", { key: "title" }, state.page.title), state.page.render(context()));
}

function drawBar() {
  const cluster = state.live && state.live.documents.cluster;
  const { session } = state;
  const toggle = () => { state.isMenuOpen = !state.isMenuOpen; redraw(); };
  show(bar,
    h("button", { type: "button", className: "menu", "aria-label": "Menu", "aria-expanded": String(state.isMenuOpen), "aria-controls": "side", onclick: toggle }, "☰"),
    h("a", { href: "#/overview", className: "brand" }, "Althing"),
    session && h("span", { className: "quiet where" }, `${session.node} in ${session.region}`),
    cluster && h("span", { className: `dot ${cluster.healthy ? "good" : "bad"}`, role: "img", "aria-label": cluster.healthy ? "healthy" : "needs attention", title: cluster.summary }),
    state.live && state.live.isStale ? badge("this node does not answer", "bad") : null,
    h("span", { className: "grow" }),
    h("button", { type: "button", className: "find", onclick: () => openCommands(PAGES, now) }, h("span", null, "Find or run "), h("kbd", null, "Ctrl K")),
    session && session.user && h("span", { className: "user" }, session.user));
}

const now = () => ({ cluster: state.live && state.live.documents.cluster, session: state.session });

function drawSide() {
  side.classList.toggle("open", state.isMenuOpen);
  show(side, h("ul", null, PAGES.map(page => h("li", { key: page.name }, h("a", { href: `#/${page.name}`, "aria-current": page === state.page ? "page" : undefined }, page.title)))),
    h("p", { className: "quiet foot" }, h("a", { href: "/api-docs" }, "API"), " · ", h("a", { href: "/metrics" }, "Prometheus"), state.session ? ` · ${state.session.version}` : ""));
}

function loginForm() {
  const submit = async event => {
    event.preventDefault();
    const { user, password, token } = event.target.elements;
    try {
      setTokenQuietly(token.value || (await post("/v1/session", { user: user.value, password: password.value })).token);
      await begin();
      if (!mayEnter()) { setTokenQuietly(null); throw new Error("this token is not known"); }
    } catch (error) { toast(error.message, "bad"); }
  };
  return h("form", { className: "login panel", key: "login", onsubmit: submit }, h("h1", null, "Log in"), h("p", { className: "quiet" }, "Auth is on. The token stays in this page's memory: no cookie is set, and closing or reloading the page logs out. A client certificate that names a user needs no login."),
    h("label", null, h("span", null, "User"), h("input", { name: "user", autocomplete: "username" })), h("label", null, h("span", null, "Password"), h("input", { name: "password", type: "password", autocomplete: "current-password" })),
    h("details", null, h("summary", null, "Use a token instead"), h("label", null, h("span", null, "Token, as `althing auth login` prints it"), h("input", { name: "token", autocomplete: "off" }))), h("button", { type: "submit", className: "primary" }, "Log in"));
}

let isQuiet = false;
function setTokenQuietly(token) { isQuiet = true; setToken(token); isQuiet = false; }

async function login() {
  const values = await ask({ title: "Log in", fields: [{ name: "user", label: "User" }, { name: "password", label: "Password", type: "password" }], action: "Log in" });
  if (!values) return;
  try { setToken((await post("/v1/session", values)).token); } catch (error) { toast(error.message, "bad"); }
}

function leave() {
  if (state.live) state.live.close();
  if (state.page.leave) state.page.leave();
  clearInterval(state.timer);
  state.live = null;
}

function enter() {
  leave();
  const [name, ...path] = location.hash.replace(/^#\/?/, "").split("/");
  state.page = PAGES.find(page => page.name === name) || overview;
  state.path = path.map(decodeURIComponent);
  state.isMenuOpen = false;
  document.body.dataset.console = state.page.name;
  document.title = `${state.page.title} – Althing`;
  if (mayEnter()) {
    state.live = new Live(state.page.topics, redraw);
    if (state.page.enter) state.page.enter(context());
    if (state.page.tick) state.timer = setInterval(() => { if (!document.hidden) state.page.tick(context()); }, state.page.tickMs);
  }
  show(main);
  draw();
}

async function begin() {
  try {
    state.session = await get("/v1/session");
    state.error = undefined;
  } catch (error) { state.error = error; }
  enter();
}

addEventListener("hashchange", () => { enter(); main.focus(); });
addEventListener("keydown", event => {
  const isTyping = event.target.closest && event.target.closest("input,textarea,select,[contenteditable]");
  if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !isTyping)) {
    event.preventDefault();
    if (mayEnter()) openCommands(PAGES, now);
  }
});
onSession(() => { if (!isQuiet) begin(); });
begin();

export { isLoggedIn };
