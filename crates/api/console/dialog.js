// Questions before something is changed, and short notes afterwards.

import { h, show } from "./dom.js";

export function toast(text, kind) {
  const note = h("div", { className: `toast ${kind || ""}` }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 8000 : 4000);
}

// Fields: { name, label, value, type, hint, rows, options }. Resolves with their values, or null.
export function ask({ title, text, fields = [], action, danger }) {
  return new Promise(resolve => {
    const inputs = {};
    const field = ({ name, label, value = "", type = "text", hint, rows, options }) => {
      const input = options ? h("select", { name }, options.map(option => h("option", { value: option }, option)))
        : rows ? h("textarea", { name, rows: String(rows), spellcheck: "false" }) : h("input", { name, type, autocomplete: "off" });
      input.value = value;
      inputs[name] = input;
      return h("label", null, h("span", null, label), input, hint && h("small", { className: "quiet" }, hint));
    };
    const end = value => { dialog.close(); dialog.remove(); resolve(value); };
    const values = () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]));
    const form = h("form", { method: "dialog", onsubmit: event => { event.preventDefault(); end(values()); } },
      h("h2", null, title), (Array.isArray(text) ? text : [text]).filter(Boolean).map(line => h("p", null, line)),
      fields.map(field),
      h("footer", null, h("button", { type: "button", onclick: () => end(null) }, "Cancel"),
        h("button", { type: "submit", className: danger ? "danger" : "primary" }, action)));
    const dialog = h("dialog", { "aria-label": title, oncancel: event => { event.preventDefault(); end(null); } }, form);
    document.body.append(dialog);
    dialog.showModal();
    const first = Object.values(inputs)[0];
    if (first) first.focus();
  });
}

// Runs a change and says what came of it.
export async function attempt(change, done) {
  try {
    const answer = await change();
    toast(done);
    return answer ?? true;
  } catch (error) {
    toast(error.message, "bad");
    return null;
  }
}

export { h, show };
