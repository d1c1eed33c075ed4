// sequence: the numbers of one stream of events, drawn as a line of cells: what has come, what is missing, what waits
// for it, and what came late.
import { at } from "./api.js";
import { h, s } from "./dom.js";
import { count, plural, words } from "./text.js";

const SIZE = 18;
const STEP = 22;
const ROW = 40;
const CELLS_MAX = 160;
const RUN_MAX = 12; // a longer run of numbers without an event is one wide cell

const LOOKS = { done: "good", routed: "", buffered: "warn", refused: "bad", expired: "bad" };

// The cells of the newest numbers, oldest first: {n, event, gap, count}. A long run without an event is one cell of `count`
// numbers between its first and last ones, so that a gap of a million numbers is drawn like one of ten.
export function cellsOf(events, gaps) {
  const numbers = [...events.keys()].sort((a, b) => b - a);
  const missing = gaps.filter((g) => g.status !== "filled");
  const bottom = Math.min(...numbers, ...missing.map((g) => g.from));
  const cells = [];
  let next = 0; // the index of the newest event that is not above n
  let n = Math.max(...numbers, ...missing.map((g) => g.to));
  while (n >= bottom && cells.length < CELLS_MAX) {
    if (events.has(n)) {
      cells.push({ n, event: events.get(n), count: 1 });
      n--;
      continue;
    }
    while (next < numbers.length && numbers[next] > n) next++;
    const gap = missing.find((g) => n >= g.from && n <= g.to) || null;
    const below = gap ? gap.from : Math.max(bottom, ...missing.filter((g) => g.to < n).map((g) => g.to + 1));
    const from = Math.max(below, (numbers[next] ?? -Infinity) + 1);
    const one = (at) => ({ n: at, event: null, gap, count: 1 });
    if (n - from + 1 <= RUN_MAX) for (let k = n; k >= from; k--) cells.push(one(k));
    else cells.push(one(n), one(n - 1), { n: from + 2, gap, event: null, count: n - from - 3 }, one(from + 1), one(from));
    n = from - 1;
  }
  return { cells: cells.reverse(), older: n >= bottom };
}

// Where each cell is: rows from left to right; a run is as wide as its number needs.
function placed(cells, width) {
  let x = 2;
  let y = 2;
  return cells.map((c) => {
    const wide = c.count === 1 ? SIZE : Math.ceil((count(c.count).length * 7 + 34) / STEP) * STEP - (STEP - SIZE);
    if (x > 2 && x + wide > width - 4) {
      x = 2;
      y += ROW;
    }
    const cell = { ...c, x, y, wide, first: x === 2 };
    x += wide + STEP - SIZE;
    return cell;
  });
}

// A number has its text below it if it is the first of a row, a round one, or the last, and the one before leaves space for it.
function numbered(cells) {
  let free = -Infinity;
  let row = -1;
  return new Set(cells.filter((c, i) => {
    if (c.y !== row) free = -Infinity;
    row = c.y;
    const long = String(c.n).length * 7;
    const at = c.first ? c.x : c.x + SIZE / 2 - long / 2;
    if (c.count > 1 || at < free || !(c.first || c.n % 10 === 0 || i === cells.length - 1 || cells[i - 1].count > 1)) return false;
    free = at + long + 8;
    return true;
  }));
}

// `events`: {number: event}; `gaps`: [{from, to, status}], missing numbers. At most so many of the newest numbers are drawn.
export function sequence(label, events, gaps, width) {
  const { cells: all, older } = cellsOf(events, gaps);
  const cells = placed(all, width);
  const named = numbered(cells);
  const height = (cells.at(-1)?.y ?? 0) + ROW;
  const lost = cells.filter((c) => c.gap && !c.event).reduce((sum, c) => sum + c.count, 0);
  return h("div", { class: "life" }, s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `${label}: numbers ${cells[0]?.n} to ${cells.at(-1)?.n}, ${lost ? `${plural(lost, "number")} missing` : "none is missing"}` },
  cells.map((c) => {
    const state = c.event ? c.event.status : c.gap ? (c.gap.status === "open" ? "missing" : words(c.gap.status)) : "not stored";
    const look = c.event ? (c.event.late ? "late" : LOOKS[c.event.status] ?? "") : c.gap?.status === "open" ? "missing" : "away";
    const said = c.count > 1 ? `${c.n} to ${c.n + c.count - 1}: ${count(c.count)} numbers, ${state}` : `${c.n}: ${state}${c.event?.late ? ", late" : ""}${c.event ? ` (${c.event.type})` : ""}`;
    const cell = s("rect", { class: `cell ${look}`, x: c.x, y: c.y, width: c.wide, height: SIZE, rx: 4 }, s("title", null, said));
    return [c.event ? s("a", { href: at("events", c.event.id), "aria-label": `${c.n}: ${state}` }, cell) : cell,
      c.count > 1 && s("text", { x: c.x + c.wide / 2, y: c.y + 13, "text-anchor": "middle" }, `… ${count(c.count)}`),
      named.has(c) && s("text", { x: c.first ? c.x : c.x + SIZE / 2, y: c.y + SIZE + 13, "text-anchor": c.first ? "start" : "middle" }, c.n)];
  })), older && h("p", { class: "soft small" }, "Older numbers are not drawn; search for their events."));
}

export const legend = () => h("p", { class: "legend" }, [["good", "delivered"], ["", "being delivered"], ["late", "came late"], ["warn", "buffered: waits for an earlier number"],
  ["missing", "missing"], ["away", "skipped, or not in the history"]].map(([look, what]) => h("span", null, s("svg", { class: "key", width: 14, height: 12, "aria-hidden": "true" },
  s("rect", { class: `cell ${look}`, x: 1, y: 1, width: 10, height: 10, rx: 3 })), what)));
