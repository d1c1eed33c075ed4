// life: an event's life as a picture: a line for each process and endpoint, a point for each step, in the order of
// time. The distance between two steps is written, not drawn: they are milliseconds or days apart.
import { h, s } from "./dom.js";
import { visible } from "./text.js";
import { t, word } from "./texts.js";
import { duration } from "./time.js";

const COLUMN_MIN = 56; // a time such as "+108 ms"
const COLUMN_MAX = 120;
const LANE = 34;
const LEFT = 150;
const STEPS_MAX = 60;
const LANES_MAX = 14; // of endpoints

// Names that begin alike stay different.
const short = (text, n) => (text.length > n ? `${text.slice(0, n - 9)}…${text.slice(-8)}` : text);

// Deliveries that did not succeed are drawn first.
export function drawn(deliveries) {
  const rank = (d) => ({ dead: 0, retrying: 1, in_flight: 2, waiting: 3, abandoned: 4 })[d.status] ?? 5;
  return deliveries.map((d, i) => ({ d, i })).sort((a, b) => rank(a.d) - rank(b.d) || a.i - b.i).slice(0, LANES_MAX).map(({ d }) => d);
}

// The first and the last attempts; one point stands for those between them.
export function condensed(attempts, most) {
  if (attempts.length <= most) return attempts.map((a) => ({ a }));
  const first = Math.max(1, Math.floor((most - 1) / 3));
  const last = Math.max(1, most - 1 - first);
  const between = attempts.slice(first, -last);
  return [...attempts.slice(0, first).map((a) => ({ a })), { between }, ...attempts.slice(-last).map((a) => ({ a }))];
}

function points(event, deliveries) {
  const out = [];
  const most = Math.max(3, Math.floor((STEPS_MAX - 10) / Math.max(1, deliveries.length)));
  for (const step of event.timeline) {
    if (/^attempt \d+ /.test(step.what)) continue; // drawn at its endpoint
    const look = /refus|dead|fail|damag|lost/.test(step.what) ? "bad" : /buffer|duplicate|gap|retr|wait/.test(step.what) ? "warn" : "";
    out.push({ at: step.at, lane: step.process, what: step.what, look });
  }
  for (const d of deliveries) {
    const lane = `→ ${d.endpoint}`;
    condensed(d.attempts, most).forEach(({ a, between }) => {
      if (between) {
        out.push({ at: between[0].at, lane, what: t`attempts ${between[0].n} to ${between.at(-1).n}, in the list below`, look: "more", label: t`${between.length} more` });
        return;
      }
      const last = a === d.attempts.at(-1);
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
  const all = event.deliveries || [];
  const deliveries = drawn(all);
  const steps = points(event, deliveries);
  // Steps at the processes are the first to be left out.
  const shown = steps.length <= STEPS_MAX ? steps : steps.filter((p) => p.label !== undefined || steps.indexOf(p) < 20).slice(0, STEPS_MAX + LANES_MAX);
  const lanes = [...new Set(shown.map((p) => p.lane))].sort((a, b) => a.startsWith("→") - b.startsWith("→"));
  // Steps of one millisecond share a column, unless they are in one lane; of many lanes, also those that are close together.
  const columns = [];
  const span = shown.length ? new Date(shown.at(-1).at) - new Date(shown[0].at) : 0;
  const near = lanes.length > LANES_MAX / 2 ? span / 100 : 0;
  for (const p of shown) {
    const c = columns.at(-1);
    if (c && new Date(p.at) - new Date(c.at) <= near && !c.points.some((q) => q.lane === p.lane)) c.points.push(p);
    else columns.push({ at: p.at, points: [p] });
  }
  const y = (lane) => 40 + lanes.indexOf(lane) * LANE;
  // As wide as the card will be, where its steps fit into it.
  const room = (document.querySelector("main")?.clientWidth ?? 1000) - 110;
  const column = Math.min(COLUMN_MAX, Math.max(COLUMN_MIN, (room - LEFT - 84) / Math.max(1, columns.length - 1)));
  const x = (i) => LEFT + 24 + i * column;
  const width = x(columns.length - 1) + 60;
  const height = 40 + lanes.length * LANE;
  const flat = columns.flatMap((c, i) => c.points.map((p) => ({ ...p, x: x(i), y: y(p.lane) })));
  return h("div", { class: "life", tabindex: "0", role: "region", "aria-label": t`the event's life as a picture; the list of steps below says the same` },
    s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t`${shown.length} steps at ${lanes.length} processes and endpoints` },
      lanes.map((lane) => [s("text", { class: "name", x: 0, y: y(lane) + 4 }, short(visible(lane), 17), s("title", null, lane)),
        s("line", { class: "lane", x1: LEFT, x2: width, y1: y(lane), y2: y(lane) })]),
      columns.map((c, i) => s("text", { x: x(i), y: 14, "text-anchor": "middle" }, i === 0 ? "0" : `+${duration(new Date(c.at) - new Date(columns[i - 1].at))}`)),
      flat.slice(1).map((p, i) => {
        const from = near ? flat.slice(0, i + 1).findLast((q) => q.lane === p.lane) : flat[i]; // many lines across all lanes would say nothing
        return from && p.look !== "next" && s("path", { class: "link", d: `M${from.x} ${from.y}C${(from.x + p.x) / 2} ${from.y} ${(from.x + p.x) / 2} ${p.y} ${p.x} ${p.y}` });
      }),
      flat.map((p) => s("g", null, s("circle", { class: p.look, cx: p.x, cy: p.y, r: 7 }, s("title", null, `${p.lane}: ${p.what}`)),
        p.label && s("text", { x: p.x + 8, y: p.y + 17 }, p.label)))),
    (all.length > deliveries.length || steps.length > shown.length) && h("p", { class: "soft small" }, all.length > deliveries.length && t`${deliveries.length} of ${all.length} deliveries are drawn, those without success first. `,
      steps.length > shown.length && t`${steps.length - shown.length} steps of processes are only in the list below.`));
}
