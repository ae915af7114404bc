// The last hour of a node as charts, from samples that the node itself keeps.

import { h } from "./dom.js";
import { chart } from "./charts.js";
import { nodesOf, panel } from "./panels.js";
import { get } from "./api.js";

const state = { node: "", data: undefined, error: undefined };

async function load(redraw) {
  const { node } = state;
  try {
    const data = await get("/v1/cluster/metrics", { node });
    if (node === state.node) { state.data = data; state.error = undefined; }
  } catch (error) { state.error = error; }
  redraw();
}

export const page = {
  name: "metrics", title: "Metrics", topics: ["cluster"],
  enter({ path, redraw }) { state.node = path[0] || ""; state.data = undefined; load(redraw); },
  tick({ redraw }) { load(redraw); },
  tickMs: 5000,
  render({ live }) {
    const { cluster } = live.documents;
    const current = state.node || (cluster ? cluster.node : "");
    return [
      h("nav", { className: "tabs", key: "nodes", "aria-label": "Nodes" }, cluster ? nodesOf(cluster).map(({ id, name }) => h("a", { href: `#/metrics/${id}`, key: id, "aria-current": id === current ? "true" : undefined }, name)) : []),
      panel("The last hour", { id: "charts", data: state.data, error: state.error, hint: state.data && `${state.data.name}, a sample every ${state.data.samples.step_ms / 1000} s`, body: data => h("div", { className: "charts" }, data.series.map(series => chart({ ...series, values: data.samples.values[series.name] || [], endMs: data.samples.end_ms, stepMs: data.samples.step_ms }))) }),
    ];
  },
};
