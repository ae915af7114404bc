// A stream of server-sent events, read with the headers of this page: `EventSource` cannot send them.

import { headers, pathOf } from "./api.js";

function parse(message) {
  const found = { event: "", id: null, data: "" };
  for (const line of message.split("\n")) {
    if (line.startsWith("event: ")) found.event = line.slice(7);
    if (line.startsWith("id: ")) found.id = line.slice(4);
    if (line.startsWith("data: ")) found.data += line.slice(6);
  }
  return found.event && found.data ? { ...found, data: JSON.parse(found.data) } : null;
}

// Calls `take` with the messages of each piece that arrives; an empty list is a sign of life. Returns when the stream ends.
export async function readEvents(path, query, signal, take) {
  const answer = await fetch(pathOf(path, query), { headers: headers({}), signal });
  if (!answer.ok || !answer.body) throw new Error("no stream");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const messages = (waiting + value).split("\n\n");
    waiting = messages.pop();
    take(messages.map(parse).filter(Boolean));
  }
}
