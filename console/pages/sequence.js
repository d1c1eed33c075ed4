// sequence: the numbers of one stream of events, drawn as a line of cells: what has come, what is missing, what waits
// for it, and what came late.
import { at } from "./api.js";
import { h, s } from "./dom.js";
import { plural, words } from "./text.js";

const SIZE = 18;
const STEP = 22;
const ROW = 40;
const CELLS_MAX = 160;

const LOOKS = { done: "good", routed: "", buffered: "warn", refused: "bad", expired: "bad" };

// `events`: {number: event}; `gaps`: [{from, to, status}], missing numbers. At most so many of the newest numbers are drawn.
export function sequence(label, events, gaps, width) {
  const numbers = [...events.keys()];
  const missing = gaps.filter((g) => g.status !== "filled");
  const top = Math.max(...numbers, ...missing.map((g) => g.to));
  const bottom = Math.max(Math.min(...numbers, ...missing.map((g) => g.from)), top - CELLS_MAX + 1);
  const columns = Math.max(1, Math.floor((width - 8) / STEP));
  const cells = [];
  for (let n = bottom; n <= top; n++) cells.push({ n, event: events.get(n), gap: missing.find((g) => n >= g.from && n <= g.to) });
  const rows = Math.ceil(cells.length / columns);
  const x = (i) => (i % columns) * STEP + 2;
  const y = (i) => Math.floor(i / columns) * ROW + 2;
  const lost = cells.filter((c) => c.gap && !c.event).length;
  return h("div", { class: "life" }, s("svg", { width, height: rows * ROW, viewBox: `0 0 ${width} ${rows * ROW}`, role: "group",
    "aria-label": `${label}: numbers ${bottom} to ${top}, ${lost ? `${plural(lost, "number")} missing` : "none is missing"}` },
  cells.map((c, i) => {
    const state = c.event ? c.event.status : c.gap ? (c.gap.status === "open" ? "missing" : words(c.gap.status)) : "not stored";
    const look = c.event ? (c.event.late ? "late" : LOOKS[c.event.status] ?? "") : c.gap?.status === "open" ? "missing" : "away";
    const cell = s("rect", { class: `cell ${look}`, x: x(i), y: y(i), width: SIZE, height: SIZE, rx: 4 }, s("title", null, `${c.n}: ${state}${c.event?.late ? ", late" : ""}${c.event ? ` (${c.event.type})` : ""}`));
    return [c.event ? s("a", { href: at("events", c.event.id), "aria-label": `${c.n}: ${state}` }, cell) : cell,
      (i % columns === 0 || c.n % 10 === 0 || i === cells.length - 1) && s("text", { x: x(i) + SIZE / 2, y: y(i) + SIZE + 13, "text-anchor": i % columns === 0 ? "start" : "middle", dx: i % columns === 0 ? -SIZE / 2 : 0 }, c.n)];
  })));
}

export const legend = () => h("p", { class: "legend" }, [["good", "delivered"], ["", "being delivered"], ["late", "came late"], ["warn", "buffered: waits for an earlier number"],
  ["missing", "missing"], ["away", "skipped, or not in the history"]].map(([look, what]) => h("span", null, s("svg", { class: "key", width: 14, height: 12, "aria-hidden": "true" },
  s("rect", { class: `cell ${look}`, x: 1, y: 1, width: 10, height: 10, rx: 3 })), what)));
