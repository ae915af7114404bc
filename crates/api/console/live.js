// Documents that stay up to date: one stream of differences for the page that is open, and reading them every few seconds
// where the stream fails. A page in the background has no stream.

import { get } from "./api.js";
import { readEvents } from "./stream.js";

const PATHS = {
  cluster: "/v1/cluster", events: "/v1/cluster/events", ring: "/v1/ring", regions: "/v1/regions",
  locks: "/v1/locks", conflicts: "/v1/conflicts",
};
// Topics that are lists: a filter and a page of them go with the request.
const LISTS = ["locks", "conflicts"];
// What the stream shows by itself.
const ALWAYS = { conflicts: { order: "newest" } };
const POLL_MS = 4000;
const SILENCE_MS = 15000;

export function merge(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const merged = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]; else merged[name] = merge(merged[name], value);
  }
  return merged;
}

export class Live {
  constructor(topics, onChange) {
    this.topics = topics;
    this.onChange = onChange;
    this.query = {};
    this.documents = {};
    this.errors = {};
    this.heardAt = 0;
    this.isStale = false;
    this.isClosed = false;
    this.onVisible = () => document.hidden ? this.stop() : this.start();
    document.addEventListener("visibilitychange", this.onVisible);
    this.watchdog = setInterval(() => this.checkAge(), 2000);
    this.start();
  }

  close() {
    this.isClosed = true;
    this.stop();
    clearInterval(this.watchdog);
    document.removeEventListener("visibilitychange", this.onVisible);
  }

  stop() {
    if (this.abort) this.abort.abort();
    this.abort = null;
  }

  // Other rows of the lists than before.
  ask(query) {
    if (JSON.stringify(query) === JSON.stringify(this.query)) return;
    this.query = query;
    this.stop();
    this.start();
  }

  async start() {
    if (this.isClosed || this.abort || document.hidden || !this.topics.length) return;
    const abort = new AbortController();
    this.abort = abort;
    while (!abort.signal.aborted) {
      try {
        await this.stream(abort.signal);
      } catch {
        if (abort.signal.aborted) return;
      }
      await this.poll(abort.signal);
      await new Promise(resolve => setTimeout(resolve, POLL_MS));
    }
  }

  async stream(signal) {
    await readEvents("/v1/events", { topics: this.topics.join(","), ...this.query }, signal, messages => {
      if (signal.aborted) return;
      this.heard();
      messages.forEach(message => this.take(message));
      if (messages.length) this.onChange();
    });
  }

  take({ event, data }) {
    if (event === "end") return;
    const [topic, kind] = event.split(".");
    if (kind === "error") {
      this.errors[topic] = data;
    } else {
      delete this.errors[topic];
      this.documents[topic] = kind === "patch" ? merge(this.documents[topic], data) : data;
    }
  }

  async poll(signal) {
    for (const topic of this.topics) {
      try {
        this.documents[topic] = await get(PATHS[topic], { ...ALWAYS[topic], ...(LISTS.includes(topic) ? this.query : {}) }, { signal });
        delete this.errors[topic];
        this.heard();
      } catch (error) {
        if (signal.aborted) return;
        if (error.status) { this.errors[topic] = error.body; this.heard(); }
      }
    }
    this.onChange();
  }

  heard() {
    this.heardAt = Date.now();
    if (this.isStale) { this.isStale = false; this.onChange(); }
  }

  checkAge() {
    const isStale = this.heardAt > 0 && Date.now() - this.heardAt > SILENCE_MS;
    if (isStale) { this.isStale = true; this.onChange(); }
  }
}
