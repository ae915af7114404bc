// The command box: the CLI's verbs against the API, with completion, and jumps to any page, key, lock, node or user.

import { h, show } from "./dom.js";
import { del, get, post, put, segment } from "./api.js";
import { ask } from "./dialog.js";

const key = name => ({ key: name });
const seen = async name => { try { return (await get("/v1/coord/key", key(name))).mod_revision; } catch (error) { if (error.status === 404) return 0; throw error; } };
const data = (space, name) => `/v1/namespaces/${segment(space)}/data/${segment(name)}`;

async function sure(title, change) {
  if (!await ask({ title, text: "It happens at once.", action: "Do it", danger: true })) return { status: "not done" };
  return change();
}

// Words, what they take, what they do, and what a word of theirs completes to.
const VERBS = [
  ["get", "KEY", ([name]) => get("/v1/coord/key", key(name)), "keys"],
  ["put", "KEY VALUE", async ([name, ...value]) => put("/v1/coord/key", { value: value.join(" "), mod_revision: await seen(name) }, key(name)), "keys"],
  ["del", "KEY", ([name]) => sure(`Delete ${name}`, async () => del("/v1/coord/key", { ...key(name), mod_revision: await seen(name) })), "keys"],
  ["history", "KEY", ([name]) => get("/v1/coord/history", key(name)), "keys"],
  ["lock inspect", "NAME", ([name]) => get("/v1/lock", { name }), "locks"],
  ["lock list", "[PREFIX]", ([prefix]) => get("/v1/locks", { prefix }), "locks"],
  ["data get", "NAMESPACE KEY", ([space, name]) => get(data(space, name), { explain: 1 })],
  ["data put", "NAMESPACE KEY VALUE", ([space, name, ...value]) => put(data(space, name), { value: value.join(" ") })],
  ["conflicts", "", () => get("/v1/conflicts")],
  ["member list", "", () => get("/v1/cluster")],
  ["endpoint status", "", () => get("/v1/cluster")],
  ["ring", "", () => get("/v1/ring")],
  ["region list", "", () => get("/v1/regions")],
  ["namespace list", "", () => get("/v1/namespaces")],
  ["user list", "", async () => (await get("/v1/access")).users],
  ["role list", "", async () => (await get("/v1/access")).roles],
  ["compaction", "REVISION", ([revision]) => sure(`Compact up to ${revision}`, () => post("/v1/compaction", { revision: Number(revision) }))],
  ["alarm disarm", "", () => sure("Clear all alarms", () => del("/v1/alarms"))],
  ["move-leader", "NODE", ([node]) => sure(`Hand leadership to ${node}`, () => put("/v1/leader", { node })), "nodes"],
];

const state = { dialog: null, choices: [], at: 0, asked: 0 };

async function names(kind, typed) {
  try {
    if (kind === "keys") { const found = await get("/v1/coord/keys", { prefix: typed, limit: 8 }); return found.keys.map(item => item.key).filter(Boolean); }
    if (kind === "locks") return (await get("/v1/locks", { prefix: typed, limit: 8 })).locks.map(lock => lock.name);
    if (kind === "nodes") return Object.values((await get("/v1/cluster")).nodes).map(node => node.name).filter(name => name.startsWith(typed));
  } catch { /* without permission there is nothing to complete */ }
  return [];
}

async function choicesFor(text, pages, cluster) {
  const typed = text.trimStart();
  const verb = VERBS.find(([word]) => typed === word || typed.startsWith(`${word} `));
  if (verb) {
    const [word, takes, , kind] = verb;
    const rest = typed.slice(word.length).trimStart();
    const found = kind && !rest.includes(" ") ? await names(kind, rest) : [];
    return [{ label: typed.trim() === word && takes && !takes.startsWith("[") ? `${word} ${takes}` : `Run: ${typed}`, hint: "enter runs it", run: true }, ...found.filter(name => name !== rest).map(name => ({ label: `${word} ${name}`, fill: `${word} ${name}`, hint: kind.slice(0, -1) }))];
  }
  const small = typed.toLowerCase();
  const has = name => name.toLowerCase().includes(small);
  const jumps = pages.filter(page => has(page.title)).map(page => ({ label: page.title, hint: "page", go: `#/${page.name}` }));
  const verbs = VERBS.filter(([word]) => word.startsWith(small)).map(([word, takes]) => ({ label: `${word} ${takes}`, hint: "command", fill: `${word} ` }));
  const nodes = Object.entries((cluster || { nodes: {} }).nodes).filter(([, node]) => small && has(node.name)).map(([id, node]) => ({ label: node.name, hint: "node", go: `#/metrics/${id}` }));
  const [keys, locks] = typed.length > 1 ? await Promise.all([names("keys", typed), names("locks", typed)]) : [[], []];
  return [...jumps, ...nodes, ...locks.map(name => ({ label: name, hint: "lock", go: `#/locks/${segment(name)}` })), ...keys.map(name => ({ label: name, hint: "key", go: `#/keys/${segment(name.slice(0, name.lastIndexOf("/") + 1))}/${segment(name)}` })), ...verbs].slice(0, 14);
}

async function run(text) {
  const verb = VERBS.find(([word]) => text === word || text.startsWith(`${word} `));
  if (!verb) throw new Error(`no command \`${text}\``);
  const words = text.slice(verb[0].length).trim().split(/\s+/).filter(Boolean);
  const needed = verb[1].split(" ").filter(word => word && !word.startsWith("["));
  if (words.length < needed.length) throw new Error(`it takes ${verb[1]}`);
  return verb[2](words);
}

export function openCommands(pages, cluster) {
  if (state.dialog) return;
  const input = h("input", { type: "text", id: "command", role: "combobox", "aria-expanded": "true", "aria-controls": "choices", "aria-label": "Command, page, key, lock or node", placeholder: "Jump to a page, key, lock or node, or run a command", autocomplete: "off", spellcheck: "false" });
  const list = h("ul", { id: "choices", role: "listbox" });
  const output = h("pre", { className: "value command-output", tabindex: "0", hidden: true });
  const close = () => { state.dialog.close(); state.dialog.remove(); state.dialog = null; };
  const draw = () => {
    show(list, state.choices.map((choice, nth) => h("li", { role: "option", key: `${choice.hint}${choice.label}`, id: `choice-${nth}`, "aria-selected": String(nth === state.at), onclick: () => { state.at = nth; choose(); } }, h("span", null, choice.label), h("span", { className: "quiet" }, choice.hint))));
    input.setAttribute("aria-activedescendant", `choice-${state.at}`);
  };
  const offer = async () => {
    const turn = ++state.asked;
    const found = await choicesFor(input.value, pages, cluster());
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
