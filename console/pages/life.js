// life: an event's life as a picture: a line for each process and endpoint, a point for each step, in the order of
// time. The distance between two steps is written, not drawn: they are milliseconds or days apart.
import { h, s } from "./dom.js";
import { visible } from "./text.js";
import { t, word } from "./texts.js";
import { duration } from "./time.js";

const COLUMN = 76;
const LANE = 34;
const LEFT = 150;
const STEPS_MAX = 60;

const short = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

function points(event) {
  const out = [];
  for (const step of event.timeline) {
    if (/^attempt \d+ /.test(step.what)) continue; // drawn at its endpoint
    const look = /refus|dead|fail|damag|lost/.test(step.what) ? "bad" : /buffer|duplicate|gap|retr|wait/.test(step.what) ? "warn" : "";
    out.push({ at: step.at, lane: step.process, what: step.what, look });
  }
  for (const d of event.deliveries || []) {
    const lane = `→ ${d.endpoint}`;
    d.attempts.forEach((a, i) => {
      const last = i === d.attempts.length - 1;
      const good = !a.error && a.http_status >= 200 && a.http_status < 300 || (last && d.status === "delivered");
      out.push({ at: a.at, lane, what: t`attempt ${a.n}: ${a.error || a.http_status || word("delivered")}, ${duration(a.duration_ms)}`,
        look: good ? "good" : last && d.status === "dead" ? "bad" : "warn", label: String(a.http_status ?? (good ? "ok" : "✕")) });
    });
    if (d.next_attempt_at) out.push({ at: d.next_attempt_at, lane, what: t`the next attempt is due at ${d.next_attempt_at}`, look: "next", label: t`next` });
    else if (!d.attempts.length) out.push({ at: event.received_at, lane, what: t`${word(d.status)}, no attempt yet`, look: "next", label: "" });
  }
  return out.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

export function life(event) {
  const all = points(event);
  const shown = all.slice(0, STEPS_MAX);
  const lanes = [...new Set(shown.map((p) => p.lane))].sort((a, b) => a.startsWith("→") - b.startsWith("→"));
  // Steps of one millisecond share a column, unless they are in one lane.
  const columns = [];
  for (const p of shown) {
    const c = columns.at(-1);
    if (c && c.at === p.at && !c.points.some((q) => q.lane === p.lane)) c.points.push(p);
    else columns.push({ at: p.at, points: [p] });
  }
  const y = (lane) => 40 + lanes.indexOf(lane) * LANE;
  const x = (i) => LEFT + 24 + i * COLUMN;
  const width = x(columns.length - 1) + 60;
  const height = 40 + lanes.length * LANE;
  const flat = columns.flatMap((c, i) => c.points.map((p) => ({ ...p, x: x(i), y: y(p.lane) })));
  return h("div", { class: "life", tabindex: "0", role: "region", "aria-label": t`the event's life as a picture; the list of steps below says the same` },
    s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t`${shown.length} steps at ${lanes.length} processes and endpoints` },
      lanes.map((lane) => [s("text", { class: "name", x: 0, y: y(lane) + 4 }, short(visible(lane), 20), s("title", null, lane)),
        s("line", { class: "lane", x1: LEFT, x2: width, y1: y(lane), y2: y(lane) })]),
      columns.map((c, i) => s("text", { x: x(i), y: 14, "text-anchor": "middle" }, i === 0 ? "0" : `+${duration(new Date(c.at) - new Date(columns[i - 1].at))}`)),
      flat.slice(1).map((p, i) => (p.look === "next" ? null : s("path", { class: "link", d: `M${flat[i].x} ${flat[i].y}C${(flat[i].x + p.x) / 2} ${flat[i].y} ${(flat[i].x + p.x) / 2} ${p.y} ${p.x} ${p.y}` }))),
      flat.map((p) => s("g", null, s("circle", { class: p.look, cx: p.x, cy: p.y, r: 7 }, s("title", null, `${p.lane}: ${p.what}`)),
        p.label && s("text", { x: p.x, y: p.y + 20, "text-anchor": "middle" }, p.label)))),
    all.length > shown.length && h("p", { class: "soft small" }, t`The first ${STEPS_MAX} of ${all.length} steps.`));
}
