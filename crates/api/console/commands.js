// The command box: the CLI's verbs against the API, with completion, and jumps to any page, key, lock, node or user.

import { h, show } from "./dom.js";
import { condition, dataIfThere, del, get, keyIfThere, post, put, segment } from "./api.js";
import { ask } from "./dialog.js";
import { textOf } from "./diff.js";

const key = name => ({ key: name });
const NO_KEY = { status: "there is no such key" };
const clip = value => { const text = textOf(value); return text.length > 500 ? `${text.slice(0, 500)} …` : text; };
const data = (space, name) => `/v1/namespaces/${segment(space)}/data/${segment(name)}`;

async function sure(title, change) {
  if (!await ask({ title, text: "It happens at once.", action: "Do it", danger: true })) return { status: "not done" };
  return change();
}

// What is there is shown before it is written over, and the write is refused if it has changed since.
async function over(name, found, change) {
  if (!found) return change();
  return await ask({ title: `Write over ${name}`, text: ["It holds:", clip(found.value ?? found.value_base64)], action: "Write", danger: true }) ? change() : { status: "not done" };
}

async function putKey([name, ...value]) {
  const found = await keyIfThere(key(name));
  return over(name, found, () => put("/v1/coord/key", { value: value.join(" "), mod_revision: found ? found.mod_revision : 0, lease: found?.lease || undefined }, key(name)));
}

async function deleteKey([name]) {
  const found = await keyIfThere(key(name));
  if (!found) return NO_KEY;
  return sure(`Delete ${name}, which holds: ${clip(found.value ?? found.value_base64)}`, () => del("/v1/coord/key", { ...key(name), mod_revision: found.mod_revision }));
}

async function readData(space, name) {
  const found = await dataIfThere(space, name);
  return { found: found && found.body, clock: found ? found.headers.get("x-vector-clock") : "" };
}

async function putData([space, name, ...words]) {
  const { found, clock } = await readData(space, name);
  let value = words.join(" ");
  try { value = JSON.parse(value); } catch { /* it is text */ }
  return over(`${space}/${name}`, found, () => put(data(space, name), { value }, {}, condition(clock)));
}

async function deleteData([space, name]) {
  const { found, clock } = await readData(space, name);
  if (!found) return NO_KEY;
  return sure(`Delete ${space}/${name}, which holds: ${clip(found.value)}`, () => del(data(space, name), {}, condition(clock)));
}

// Words, what they take, what they do, and what a word of theirs completes to.
const VERBS = [
  ["get", "KEY", async ([name]) => await keyIfThere(key(name)) ?? NO_KEY, "keys"],
  ["put", "KEY VALUE", putKey, "keys"],
  ["del", "KEY", deleteKey, "keys"],
  ["history", "KEY", ([name]) => get("/v1/coord/history", key(name)), "keys"],
  ["lock inspect", "NAME", ([name]) => get("/v1/lock", { name }), "locks"],
  ["lock list", "[PREFIX]", ([prefix]) => get("/v1/locks", { prefix }), "locks"],
  ["data get", "NAMESPACE KEY", async ([space, name]) => (await dataIfThere(space, name, { explain: 1 }))?.body ?? NO_KEY],
  ["data put", "NAMESPACE KEY VALUE", putData],
  ["data del", "NAMESPACE KEY", deleteData],
  ["data ls", "NAMESPACE [PREFIX]", ([space, prefix]) => get(`/v1/namespaces/${segment(space)}/store/range`, { prefix, limit: 50, keys_only: 1 })],
  ["conflicts", "[TEXT]", ([filter]) => get("/v1/conflicts", { filter, order: "newest" })],
  ["conflicts show", "ID", ([id]) => get(`/v1/conflicts/${segment(id)}`)],
  ["conflicts restore", "ID", ([id]) => sure("Write the losing value again", () => post(`/v1/conflicts/${segment(id)}/restore`))],
  ["crdt increment", "NAMESPACE KEY [AMOUNT]", ([space, name, amount]) => post(`/v1/namespaces/${segment(space)}/crdt/${segment(name)}/increment`, { amount: Number(amount ?? 1) }, { type: "counter" })],
  ["clients", "[TEXT]", ([filter]) => get("/v1/clients", { filter, limit: 50 })],
  ["watches", "[TEXT]", ([filter]) => get("/v1/watches", { filter, limit: 50 })],
  ["lease list", "", () => get("/v1/leases", { limit: 50 })],
  ["slow-requests", "", () => get("/v1/slow-requests")],
  ["settings", "", () => get("/v1/settings")],
  ["upgrade status", "", () => get("/v1/upgrade")],
  ["quota", "", () => get("/v1/quota")],
  ["member list", "", () => get("/v1/cluster")],
  ["endpoint status", "", () => get("/v1/cluster")],
  ["ring", "", () => get("/v1/ring")],
  ["ring leave", "NODE", ([node]) => sure(`Let ${node} hand its partitions over and leave the ring`, () => del(`/v1/ring/nodes/${segment(node)}`)), "nodes"],
  ["ring stay", "NODE", ([node]) => put(`/v1/ring/nodes/${segment(node)}`), "nodes"],
  ["region list", "", () => get("/v1/regions")],
  ["namespace list", "", () => get("/v1/namespaces")],
  ["user list", "", async () => (await get("/v1/access")).users],
  ["role list", "", async () => (await get("/v1/access")).roles],
  ["compaction", "REVISION", ([revision]) => sure(`Compact up to ${revision}`, () => post("/v1/compaction", { revision: Number(revision) }))],
  ["compaction status", "", () => get("/v1/compaction")],
  ["defrag", "", () => sure("Defragment this node", () => post("/v1/defragment"))],
  ["alarm disarm", "", () => sure("Clear all alarms", () => del("/v1/alarms"))],
  ["move-leader", "NODE", ([node]) => sure(`Hand leadership to ${node}`, () => put("/v1/leader", { node })), "nodes"],
];

// `compaction status` is not `compaction` of a revision called so.
function verbOf(text) {
  const fitting = VERBS.filter(([word]) => text === word || text.startsWith(`${word} `));
  return fitting.sort((one, other) => other[0].length - one[0].length)[0];
}

const state = { dialog: null, choices: [], at: 0, asked: 0 };
const USERS_KEPT_MS = 10000;
const kept = { users: [], until: 0 };

// The users of all are read once for a while, and not at every letter.
async function userNames() {
  if (Date.now() > kept.until) Object.assign(kept, { users: (await get("/v1/access")).users.map(user => user.user), until: Date.now() + USERS_KEPT_MS });
  return kept.users;
}

// A list that a role may not read would be refused, and each refusal is noted for root: others than root go to what they type.
async function names(kind, typed, session) {
  if (!session.root && !["nodes", "locks"].includes(kind)) return [];
  try {
    if (kind === "keys") { const found = await get("/v1/coord/keys", { prefix: typed, limit: 8 }); return found.keys.map(item => item.key).filter(Boolean); }
    if (kind === "locks") return (await get("/v1/locks", { prefix: typed, limit: 8 })).locks.map(lock => lock.name);
    if (kind === "users") return (await userNames()).filter(name => name.startsWith(typed));
    if (kind === "data") { const found = await get("/v1/namespaces/default/store/range", { prefix: typed, limit: 8, keys_only: 1 }); return found.entries.map(item => item.key); }
    if (kind === "nodes") return Object.values((await get("/v1/cluster")).nodes).map(node => node.name).filter(name => name.startsWith(typed));
  } catch { /* without permission there is nothing to complete */ }
  return [];
}

// A key, lock or data key of exactly this name, whether there is one or not.
function directJumps(typed) {
  const folder = typed.slice(0, typed.lastIndexOf("/") + 1);
  return [
    { label: typed, hint: "open the key", go: `#/keys/${segment(folder)}/${segment(typed)}` },
    { label: typed, hint: "open the data key", go: `#/data/default/${segment(typed)}` },
  ];
}

async function choicesFor(text, pages, { cluster, session }) {
  const typed = text.trimStart();
  const verb = verbOf(typed);
  if (verb) {
    const [word, takes, , kind] = verb;
    const rest = typed.slice(word.length).trimStart();
    const found = kind && !rest.includes(" ") ? await names(kind, rest, session) : [];
    return [{ label: typed.trim() === word && takes && !takes.startsWith("[") ? `${word} ${takes}` : `Run: ${typed}`, hint: "enter runs it", run: true }, ...found.filter(name => name !== rest).map(name => ({ label: `${word} ${name}`, fill: `${word} ${name}`, hint: kind.slice(0, -1) }))];
  }
  const small = typed.toLowerCase();
  const has = name => name.toLowerCase().includes(small);
  const jumps = pages.filter(page => has(page.title)).map(page => ({ label: page.title, hint: "page", go: `#/${page.name}` }));
  const verbs = VERBS.filter(([word]) => word.startsWith(small)).map(([word, takes]) => ({ label: `${word} ${takes}`, hint: "command", fill: `${word} ` }));
  const nodes = Object.entries((cluster || { nodes: {} }).nodes).filter(([, node]) => small && has(node.name)).map(([id, node]) => ({ label: node.name, hint: "node", go: `#/metrics/${id}` }));
  const [keys, locks, users, records] = typed.length > 1 ? await Promise.all(["keys", "locks", "users", "data"].map(kind => names(kind, typed, session))) : [[], [], [], []];
  const direct = typed && !session.root ? directJumps(typed.trim()) : [];
  return [...jumps, ...nodes, ...locks.map(name => ({ label: name, hint: "lock", go: `#/locks/${segment(name)}` })), ...users.map(name => ({ label: name, hint: "user", go: `#/access/${segment(name)}` })), ...keys.map(name => ({ label: name, hint: "key", go: `#/keys/${segment(name.slice(0, name.lastIndexOf("/") + 1))}/${segment(name)}` })), ...records.map(name => ({ label: name, hint: "data key", go: `#/data/default/${segment(name)}` })), ...verbs, ...direct].slice(0, 14);
}

async function run(text) {
  const verb = verbOf(text);
  if (!verb) throw new Error(`no command \`${text}\``);
  const words = text.slice(verb[0].length).trim().split(/\s+/).filter(Boolean);
  const needed = verb[1].split(" ").filter(word => word && !word.startsWith("["));
  if (words.length < needed.length) throw new Error(`it takes ${verb[1]}`);
  return verb[2](words);
}

export function openCommands(pages, now) {
  if (state.dialog) return;
  const input = h("input", { type: "text", id: "command", role: "combobox", "aria-expanded": "true", "aria-controls": "choices", "aria-label": "Command, page, key, data key, lock, user or node", placeholder: "Jump to a page, key, data key, lock, user or node, or run a command", autocomplete: "off", spellcheck: "false" });
  const list = h("ul", { id: "choices", role: "listbox" });
  const output = h("pre", { className: "value command-output", tabindex: "0", hidden: true });
  const close = () => { state.dialog.close(); state.dialog.remove(); state.dialog = null; };
  const draw = () => {
    show(list, state.choices.map((choice, nth) => h("li", { role: "option", key: `${choice.hint}${choice.label}`, id: `choice-${nth}`, "aria-selected": String(nth === state.at), onclick: () => { state.at = nth; choose(); } }, h("span", null, choice.label), h("span", { className: "quiet" }, choice.hint))));
    input.setAttribute("aria-activedescendant", `choice-${state.at}`);
  };
  const offer = async () => {
    const turn = ++state.asked;
    const found = await choicesFor(input.value, pages, now());
    if (turn !== state.asked) return;
    state.choices = found;
    state.at = 0;
    draw();
  };
  const choose = async () => {
    const choice = state.choices[state.at];
    if (choice && choice.go) { location.hash = choice.go; close(); return; }
    if (choice && choice.fill) { input.value = choice.fill; offer(); input.focus(); return; }
    output.hidden = false;
    output.textContent = "…";
    try { output.textContent = JSON.stringify(await run(input.value.trim()), null, 2); } catch (error) { output.textContent = error.message; }
  };
  const onkeydown = event => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { state.at = (state.at + step + state.choices.length) % Math.max(1, state.choices.length); draw(); event.preventDefault(); }
    if (event.key === "Tab" && state.choices[state.at] && state.choices[state.at].fill) { input.value = state.choices[state.at].fill; offer(); event.preventDefault(); }
    if (event.key === "Enter") { event.preventDefault(); choose(); }
  };
  input.addEventListener("input", offer);
  input.addEventListener("keydown", onkeydown);
  state.dialog = h("dialog", { className: "commands", "aria-label": "Commands", oncancel: event => { event.preventDefault(); close(); }, onclick: event => { if (event.target === state.dialog) close(); } }, input, list, output);
  document.body.append(state.dialog);
  state.dialog.showModal();
  input.focus();
  offer();
}
