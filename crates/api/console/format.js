// Numbers in units, and times in the reader's zone with UTC on hover.

import { h } from "./dom.js";

const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let unit = 0;
  while (count >= 1000 && unit < BYTES.length - 1) { count /= 1000; unit += 1; }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${BYTES[unit]}`;
}

export const number = count => count === null || count === undefined ? "–" : Number(count).toLocaleString("en");

export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (value >= 100) return String(Math.round(value));
  return value >= 1 ? value.toFixed(1) : value.toFixed(2);
}

export const rate = value => value === null || value === undefined ? "–" : `${short(value)}/s`;

export function millis(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 60000) return duration(value);
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(value >= 1 ? 1 : 2)} ms`;
}

export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

export const percent = value => value === null || value === undefined ? "–" : `${value >= 10 ? Math.round(value) : value.toFixed(1)} %`;

const BY_UNIT = { per_second: rate, ms: millis, bytes, percent, count: short };
export const inUnit = (value, unit) => (BY_UNIT[unit] || short)(value);

const pad = part => String(part).padStart(2, "0");
const clock = date => `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;

// A moment in milliseconds since 1970, or as a text that a Date reads.
export function time(moment) {
  if (!moment) return "–";
  const date = new Date(moment);
  const isToday = date.toDateString() === new Date().toDateString();
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} `;
  return h("time", { datetime: date.toISOString(), title: `${date.toISOString().replace("T", " ").replace("Z", "")} UTC` },
    (isToday ? "" : day) + clock(date));
}

export const clockOf = moment => clock(new Date(moment)).slice(0, 5);
export const age = moment => `${duration(Date.now() - moment)} ago`;
