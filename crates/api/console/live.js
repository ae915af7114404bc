// Documents that stay up to date: one stream of differences for the page that is open, and reading them every few seconds
// where the stream fails. A page in the background has no stream.

import { get, headers, pathOf } from "./api.js";

const PATHS = {
  cluster: "/v1/cluster", events: "/v1/cluster/events", ring: "/v1/ring", regions: "/v1/regions",
  locks: "/v1/locks", conflicts: "/v1/conflicts",
};
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
    const answer = await fetch(pathOf("/v1/events", { topics: this.topics.join(",") }), { headers: headers({}), signal });
    if (!answer.ok || !answer.body) throw new Error("no stream");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heard();
      const messages = (waiting + value).split("\n\n");
      waiting = messages.pop();
      messages.forEach(message => this.take(message));
      if (messages.length) this.onChange();
    }
  }

  take(message) {
    let [event, data] = ["", ""];
    for (const line of message.split("\n")) {
      if (line.startsWith("event: ")) event = line.slice(7);
      if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (!event || !data || event === "end") return;
    const [topic, kind] = event.split(".");
    const body = JSON.parse(data);
    if (kind === "error") {
      this.errors[topic] = body;
    } else {
      delete this.errors[topic];
      this.documents[topic] = kind === "patch" ? merge(this.documents[topic], body) : body;
    }
  }

  async poll(signal) {
    for (const topic of this.topics) {
      try {
        this.documents[topic] = await get(PATHS[topic], {}, { signal });
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
