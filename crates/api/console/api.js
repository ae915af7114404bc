// Requests to the REST API of this node. A token lives in this module's memory alone: no cookie and no storage, so that no
// other site and no other program on this host gets it, and closing the page is logging out.

let token = null;
const listeners = new Set();

export class ApiError extends Error {
  constructor(status, body) {
    super(body.message || `the node answered ${status}`);
    this.status = status;
    this.word = body.error || "";
    this.body = body;
  }
}

// What a page says of a key that it did not find.
export const ABSENT = new ApiError(404, { error: "key_not_found", message: "There is no such key." });
// A failure that says nothing of what was asked for.
export const isSilent = error => error.status === 0 || error.status >= 500;

export const isLoggedIn = () => token !== null;

export function setToken(value) {
  token = value;
  listeners.forEach(listener => listener());
}

export const onSession = listener => listeners.add(listener);

export function headers(more) {
  return token === null ? { ...more } : { ...more, Authorization: `Bearer ${token}` };
}

export function pathOf(path, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function call(method, path, { query, body, extra, signal } = {}) {
  let answer;
  try {
    answer = await fetch(pathOf(path, query), {
      method,
      headers: headers({ ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...extra }),
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      signal: signal || AbortSignal.timeout(20000),
    });
  } catch (error) {
    throw new ApiError(0, { error: "unreachable", message: `this node does not answer (${error.message})` });
  }
  const text = await answer.text();
  let read = {};
  try { read = text ? JSON.parse(text) : {}; } catch { read = { message: text }; }
  if (!answer.ok) {
    if (answer.status === 401 && token !== null) setToken(null);
    throw new ApiError(answer.status, read);
  }
  return { body: read, headers: answer.headers };
}

export const get = async (path, query, options) => (await call("GET", path, { query, ...options })).body;
export const getWhole = (path, query) => call("GET", path, { query });
export const put = async (path, body, query, extra) => (await call("PUT", path, { body, query, extra })).body;
export const post = async (path, body, query, extra) => (await call("POST", path, { body, query, extra })).body;
export const del = async (path, query, extra) => (await call("DELETE", path, { query, extra })).body;
export const segment = text => encodeURIComponent(text);

// A key that is not there is no error: it is looked for in a list first, and read if the list has it. Without a key that is text
// there is no such list.
export async function keyIfThere(query, options) {
  if (query.key !== undefined) {
    const { keys } = await get("/v1/coord/keys", { prefix: query.key, limit: 1 }, options);
    if (!keys.length || keys[0].key !== query.key) return null;
  }
  return get("/v1/coord/key", query, options);
}

// The same of data: body and headers, or null. Where partitions do not answer, the read says so.
export async function dataIfThere(space, key, query) {
  const list = await get(`/v1/namespaces/${segment(space)}/store/range`, { start: key, end: `${key}\0`, limit: 1, keys_only: 1 });
  if (list.complete && !list.entries.length) return null;
  return getWhole(`/v1/namespaces/${segment(space)}/data/${segment(key)}`, query);
}

// A write of data is made only over what this page has shown, or where it has shown that there is nothing.
export const condition = clock => clock ? { "X-If-Vector-Clock": clock } : { "X-Conflict-Resolution": "FAIL" };
