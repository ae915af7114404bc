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

// A write of data is made only over what this page has shown, or where it has shown that there is nothing.
export const condition = clock => clock ? { "X-If-Vector-Clock": clock } : { "X-Conflict-Resolution": "FAIL" };
