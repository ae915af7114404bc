// Charts as SVG: a sparkline for a row, and a line chart with axes for a page of its own.

import { h, svg } from "./dom.js";
import { clockOf, inUnit } from "./format.js";

function line(values, width, height, top) {
  const step = width / Math.max(1, values.length - 1);
  let path = "";
  let isDrawn = false;
  values.forEach((value, nth) => {
    if (value === null || value === undefined) { isDrawn = false; return; }
    path += `${isDrawn ? "L" : "M"}${(nth * step).toFixed(1)} ${(height - (value / top) * height).toFixed(1)}`;
    // A sample between two that are not known is a dot.
    if (!isDrawn) path += "h.01";
    isDrawn = true;
  });
  return path;
}

export function sparkline(values, label) {
  if (!values || values.length < 2) return h("span", { className: "quiet" }, "");
  const top = Math.max(1e-9, ...values.filter(value => value !== null)) * 1.1;
  return svg("svg", { class: "spark", viewBox: "0 0 48 18", width: "48", height: "18", role: "img", "aria-label": label },
    svg("path", { d: line(values, 48, 17, top), fill: "none" }));
}

// A round number at or above the largest value.
function ceiling(largest) {
  if (!(largest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 2.5, 5, 10].map(part => part * power).find(round => round >= largest) || largest;
}

export function chart({ title, metric, help, unit, values, endMs, stepMs }) {
  const [width, height] = [320, 96];
  const known = values.filter(value => value !== null && value !== undefined);
  const last = [...values].reverse().find(value => value !== null && value !== undefined);
  const top = ceiling(Math.max(0, ...known));
  const startMs = endMs - (values.length - 1) * stepMs;
  const path = line(values, width, height, top);
  const summary = known.length ? inUnit(last, unit) : "no samples";
  const say = (graph, x, text) => {
    const hover = graph.querySelector(".hover");
    hover.setAttribute("x1", x);
    hover.setAttribute("x2", x);
    graph.closest("figure").querySelector("output").textContent = text;
  };
  const follow = event => {
    const box = event.currentTarget.getBoundingClientRect();
    const nth = Math.round(((event.clientX - box.left) / box.width) * (values.length - 1));
    if (nth < 0 || nth >= values.length) return;
    say(event.currentTarget, String((nth * width) / Math.max(1, values.length - 1)), `${inUnit(values[nth], unit)} at ${clockOf(startMs + nth * stepMs)}`);
  };
  const leave = event => say(event.currentTarget, "-1", summary);
  return h("figure", { className: "chart", key: title },
    h("figcaption", null, h("strong", null, title), h("output", { className: "reading" }, summary)),
    svg("svg", { viewBox: `0 -2 ${width} ${height + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${summary}`, onmousemove: follow, onmouseleave: leave },
      [0, 0.5, 1].map(part => svg("line", { class: "grid", x1: "0", x2: String(width), y1: String(height * part), y2: String(height * part) })),
      known.length === values.length && path && svg("path", { class: "area", d: `${path}L${width} ${height}L0 ${height}Z` }),
      svg("path", { class: "line", d: path, fill: "none" }), svg("line", { class: "hover", y1: "0", y2: String(height), x1: "-1", x2: "-1" })),
    h("div", { className: "axis" }, h("span", null, known.length ? clockOf(startMs) : ""), h("span", null, `max ${inUnit(top, unit)}`), h("span", null, known.length ? clockOf(endMs) : "")),
    h("p", { className: "quiet" }, metric ? h("a", { href: "/metrics", title: help || "" }, metric) : "measured on the disk of the data directory", help ? ` – ${help}` : ""));
}
