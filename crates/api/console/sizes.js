// What fills the stores: folders of the coordination store and namespaces of the data, about how large each is, from samples. It
// reads many keys, so that it is done when it is asked for.

import { h } from "./dom.js";
import { button, panel, table } from "./panels.js";
import { bytes, number, time } from "./format.js";
import { get, segment } from "./api.js";

const SAMPLE = 20;
const SAMPLE_DATA = 200;
const SPACES_MAX = 50;
const NOTHING = { folders: [], spaces: [] };
const state = { prefix: "", found: NOTHING, error: undefined, isRunning: false };

// As JSON shows them: keys and values, without what the store adds.
const textBytes = entry => new TextEncoder().encode(`${entry.key}${JSON.stringify(entry.value)}`).length;

async function sizeOf(space) {
  const path = `/v1/namespaces/${segment(space.namespace)}/store/range`;
  const sample = await get(path, { limit: SAMPLE_DATA });
  const total = sample.next_page ? await get(path, { count: 1 }) : { count: sample.entries.length, complete: sample.complete };
  const mean = sample.entries.reduce((sum, entry) => sum + textBytes(entry), 0) / Math.max(1, sample.entries.length);
  return { ...space, count: total.count, isPart: !total.complete, bytes: Math.round(mean * total.count) };
}

async function measure(redraw) {
  const { prefix } = state;
  state.isRunning = true;
  redraw();
  try {
    const list = await get("/v1/coord/keys", { prefix, delimiter: "/", limit: 200, sample: SAMPLE });
    const spaces = (await get("/v1/namespaces")).namespaces.slice(0, SPACES_MAX);
    const sizes = [];
    for (const space of spaces) sizes.push(await sizeOf(space));
    const byBytes = name => (left, right) => right[name] - left[name];
    state.found = { prefix, at: Date.now(), isPart: Boolean(list.next_page), folders: list.folders.sort(byBytes("bytes_about")), spaces: sizes.sort(byBytes("bytes")) };
    state.error = undefined;
  } catch (error) { state.error = error; }
  state.isRunning = false;
  redraw();
}

export function sizesPanel({ session, redraw }) {
  const into = prefix => { state.prefix = prefix; measure(redraw); };
  const run = button(state.isRunning ? "Measuring …" : "Measure", () => measure(redraw), { disabled: state.isRunning ? true : undefined });
  return panel("What fills the stores", {
    id: "sizes", data: state.found, error: session.root ? state.error : { status: 403, message: "sizes are shown to the role root" },
    actions: session.root ? [state.prefix ? button("All keys", () => into("")) : null, run] : [],
    empty: found => found.at ? null : "Measuring reads some keys of each folder and namespace, and says about how much each takes.",
    body: ({ at, isPart, prefix, folders, spaces }) => h("div", { className: "columns" },
      h("div", null, h("h3", null, `Coordination store, below ${prefix || "all keys"}`), table("folders", [
        { title: "Folder", cell: folder => folder.prefix === undefined ? h("code", null, `base64:${folder.prefix_base64}`) : h("button", { type: "button", className: "name folder", onclick: () => into(folder.prefix) }, folder.prefix) },
        { title: "Keys", className: "num", sort: folder => folder.count, cell: folder => number(folder.count) },
        { title: "About", className: "num", sort: folder => folder.bytes_about, cell: folder => bytes(folder.bytes_about) },
      ], folders, { key: folder => folder.prefix ?? folder.prefix_base64, redraw, label: "Folders by size" }), isPart ? h("p", { className: "quiet" }, "The first 200 folders.") : null),
      h("div", null, h("h3", null, "Data, one copy"), table("spaces", [
        { title: "Namespace", cell: space => h("a", { href: `#/data/${segment(space.namespace)}` }, space.namespace) },
        { title: "Keys", className: "num", sort: space => space.count, cell: space => `${number(space.count)}${space.isPart ? " or more" : ""}` },
        { title: "Copies", className: "num", cell: space => space.n },
        { title: "About", className: "num", sort: space => space.bytes, cell: space => bytes(space.bytes) },
      ], spaces, { key: space => space.namespace, redraw, label: "Namespaces by size" }), h("p", { className: "quiet" }, "Measured ", time(at), "."))),
  });
}
