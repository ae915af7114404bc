// Elements from values, and a page that is brought up to date in place.
// Data becomes text nodes and attributes, never markup. Handlers are kept beside an element, so that an element that is
// updated keeps its place, focus and scroll and gets the newest handler.

const SVG = "http://www.w3.org/2000/svg";

function dispatch(event) {
  const handler = this.handlers && this.handlers[event.type];
  if (handler) handler.call(this, event);
}

function build(node, props, children) {
  node.handlers = {};
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      const type = name.slice(2).toLowerCase();
      node.handlers[type] = value;
      node.addEventListener(type, dispatch);
    } else if (name === "key") {
      node.dataKey = String(value);
    } else if (name === "value" && "value" in node) {
      node.value = value;
      node.isControlled = true;
    } else {
      node.setAttribute(name === "className" ? "class" : name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

function sameKind(old, now) {
  return old.nodeType === now.nodeType && old.nodeName === now.nodeName && old.dataKey === now.dataKey
    && !old.isHeld;
}

// Makes one element like another, touching only what differs.
export function morph(old, now) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const type of Object.keys(now.handlers || {})) {
    if (!old.handlers || !(type in old.handlers)) old.addEventListener(type, dispatch);
  }
  old.handlers = now.handlers;
  // What a person types stays.
  if (now.isControlled && document.activeElement !== old && old.value !== now.value) old.value = now.value;
  morphChildren(old, [...now.childNodes]);
}

function morphChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.dataKey !== undefined) keyed.set(child.dataKey, child);
  let at = parent.firstChild;
  for (const now of wanted) {
    let old = now.dataKey === undefined ? at : keyed.get(now.dataKey);
    if (old && sameKind(old, now)) {
      if (old === at) at = at.nextSibling; else parent.insertBefore(old, at);
      if (now.dataKey !== undefined) keyed.delete(now.dataKey);
      morph(old, now);
    } else {
      parent.insertBefore(now, at);
    }
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

// The children of an element become these.
export function show(parent, ...children) {
  const wanted = children.flat(Infinity).filter(child => child !== undefined && child !== null && child !== false);
  morphChildren(parent, wanted.map(child => child instanceof Node ? child : document.createTextNode(String(child))));
  return parent;
}
