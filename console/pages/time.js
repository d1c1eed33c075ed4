// time: shows times in the viewer's zone, with UTC in the title.
import { h } from "./dom.js";
import { fixed } from "./text.js";

const two = (n) => String(n).padStart(2, "0");
const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
const clock = (d) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

// A <time> of an RFC 3339 text; a dash for null.
export function time(text, { exact = false } = {}) {
  if (!text) return h("span", { class: "soft" }, "–");
  const d = new Date(text);
  const date = day(d) === day(new Date()) && !exact ? "" : `${day(d)} `;
  const ms = exact ? `.${String(d.getMilliseconds()).padStart(3, "0")}` : "";
  return h("time", { datetime: text, title: `${text.replace("T", " ").replace("Z", "")} UTC` }, `${date}${clock(d)}${ms}`);
}

export const clockOf = (ms, withDay) => `${withDay ? `${day(new Date(ms)).slice(5)} ` : ""}${clock(new Date(ms)).slice(0, withDay ? 5 : 8)}`;

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${fixed(ms, 1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? fixed(s, 1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 >= 1 ? ` ${Math.floor(s % 60)} s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h${s % 3600 >= 60 ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`;
  return `${Math.floor(s / 86400)} d${s % 86400 >= 3600 ? ` ${Math.floor((s % 86400) / 3600)} h` : ""}`;
}

export const since = (text) => duration(Math.max(0, Date.now() - new Date(text)));
