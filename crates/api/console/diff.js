// Two texts side by side with what differs marked: by lines, and within the longest run of words.

import { h } from "./dom.js";

export const textOf = value => value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);

function common(left, right) {
  const rows = left.length + 1;
  const lengths = Array.from({ length: rows }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = left[i] === right[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

// Each side as parts, with whether the other side has them.
export function differences(one, other) {
  const words = text => text.match(/\w+|\s+|[^\w\s]/g) || [];
  const [left, right] = [words(one).slice(0, 800), words(other).slice(0, 800)];
  const lengths = common(left, right);
  const [shownLeft, shownRight] = [[], []];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      shownLeft.push([left[i], true]); shownRight.push([right[j], true]); i += 1; j += 1;
    } else if (j >= right.length || (i < left.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      shownLeft.push([left[i], false]); i += 1;
    } else {
      shownRight.push([right[j], false]); j += 1;
    }
  }
  return [shownLeft, shownRight];
}

const marked = (parts, tag) => parts.map(([text, isSame]) => isSame ? text : h(tag, null, text));

export function sideBySide(left, right, titles) {
  const [one, other] = differences(textOf(left), textOf(right));
  return h("div", { className: "sides" },
    h("div", null, h("h3", null, titles[0]), h("pre", null, marked(one, "del"))),
    h("div", null, h("h3", null, titles[1]), h("pre", null, marked(other, "ins"))));
}
