// retry_plan: the attempts of an endpoint's retry policy on an axis of time, which is logarithmic, and where each open
// delivery stands on it.
import { at } from "./api.js";
import { h, s } from "./dom.js";
import { badge } from "./states.js";
import { count, plural, visible, words } from "./text.js";
import { t } from "./texts.js";
import { duration } from "./time.js";

const LEFT = 26;
const RIGHT = 22;
const ATTEMPTS = 50; // the y of attempts
const POINTS = 104; // … and of the first row of deliveries
const POINT = 12;
const STACK_MAX = 6;
const TICKS = [1, 10, 100, 1e3, 1e4, 6e4, 6e5, 36e5, 6 * 36e5, 864e5, 7 * 864e5, 30 * 864e5, 365 * 864e5];
const SHORT = ["1 ms", "10 ms", "0.1 s", "1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "7 d", "30 d", "1 y"];

// The x of a time after the first attempt, which itself is at the left edge.
export function axis(plan, width) {
  const times = [...plan.attempts.flatMap((a) => [a.at_ms, a.at_ms - a.wait_ms + a.max_ms]), ...plan.deliveries.map((d) => d.due_after_ms ?? 0),
    plan.gives_up === "budget_time" ? plan.max_duration_ms : 0].filter((t) => t > 0);
  const last = Math.max(...times, 1);
  const first = Math.min(...times, last / 10);
  const begin = LEFT + 30;
  const x = (t) => (t <= 0 ? LEFT : begin + (Math.log(Math.max(t, first) / first) / Math.log(last / first)) * (width - RIGHT - begin));
  return { x, first, last };
}

// Draws something at each x that is far enough from the one drawn before.
const spaced = (items, x, distance) => {
  let free = -Infinity;
  return items.filter((i) => x(i) >= free && ((free = x(i) + distance), true));
};

// One without a time of its own stands at the attempt that it waits for.
const timeOf = (plan, d) => d.due_after_ms ?? plan.attempts[Math.min(d.attempts, plan.attempts.length - 1)].at_ms;

// Columns of deliveries that would cover each other: [{x, shown, more}].
export function stacks(plan, x) {
  const columns = new Map();
  for (const d of plan.deliveries) {
    const column = Math.round(x(timeOf(plan, d)) / POINT);
    columns.set(column, [...(columns.get(column) || []), d]);
  }
  return [...columns].sort(([a], [b]) => a - b).map(([column, all]) => ({ x: column * POINT, shown: all.slice(0, STACK_MAX), more: Math.max(0, all.length - STACK_MAX) }));
}

// What does not fit into the columns, as one number for those that are next to each other: [{x, more}].
export function surplus(columns) {
  const out = [];
  for (const { x, more } of columns.filter((c) => c.more)) {
    const last = out.at(-1);
    if (last && x - last.to < 40) Object.assign(last, { more: last.more + more, to: x, x: (last.from + x) / 2 });
    else out.push({ x, from: x, to: x, more });
  }
  return out;
}

// How many open deliveries wait for each attempt: those with n attempts behind them wait for attempt n + 1.
const waitFor = (plan) => new Map(plan.counts.map((c) => [c.attempts + 1, c.deliveries]));

function drawing(plan, width) {
  const { x, first, last } = axis(plan, width);
  const waiting = waitFor(plan);
  const columns = stacks(plan, x);
  const extra = surplus(columns);
  const rows = Math.max(0, ...columns.map((c) => c.shown.length)) + (extra.length ? 1 : 0);
  const height = POINTS + rows * POINT + 4;
  const xOf = (a) => x(a.at_ms);
  const end = plan.attempts.at(-1);
  const numbered = new Set([...spaced(plan.attempts.filter((a) => xOf(end) - xOf(a) >= 19), xOf, 19), end]);
  const open = plan.counts.reduce((sum, c) => sum + c.deliveries, 0);
  const ticks = spaced(TICKS.map((t, i) => ({ t, name: SHORT[i] })).filter(({ t }) => t >= first && t <= last), ({ t }) => x(t), 46);
  const now = Date.now();
  return s("svg", { class: "plan", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": t`${plan.attempts.length}${plan.attempts_more ? "+" : ""} attempts in ${duration(plan.attempts.at(-1).at_ms)}; ${plural(open, t`delivery`, t`deliveries`)} open. The table below says the same` },
  s("line", { class: "lane", x1: LEFT, x2: width - RIGHT, y1: ATTEMPTS, y2: ATTEMPTS }),
  s("text", { x: LEFT, y: 14, "text-anchor": "middle" }, "0"),
  ticks.map(({ t, name }) => [s("line", { class: "axis", x1: x(t), x2: x(t), y1: 20, y2: height - 4 }),
    s("text", { x: x(t), y: 14, "text-anchor": "middle" }, name)]),
  plan.gives_up === "budget_time" && s("line", { class: "end", x1: x(plan.max_duration_ms), x2: x(plan.max_duration_ms), y1: 20, y2: height - 4 },
    s("title", null, t`the budget of time ends after ${duration(plan.max_duration_ms)}`)),
  plan.attempts.slice(1).map((a) => {
    const from = x(a.at_ms - a.wait_ms + a.min_ms);
    const to = x(a.at_ms - a.wait_ms + a.max_ms);
    return a.max_ms > a.min_ms && s("rect", { class: "jitter", x: from, y: ATTEMPTS - 5, width: Math.max(2, to - from), height: 10, rx: 4 },
      s("title", null, t`attempt ${a.n}: ${duration(a.min_ms)} to ${duration(a.max_ms)} after the one before`));
  }),
  plan.attempts.map((a, i) => {
    const final = i === plan.attempts.length - 1 && plan.gives_up;
    return s("g", null, s("circle", { class: final ? "bad" : "", cx: xOf(a), cy: ATTEMPTS, r: numbered.has(a) ? 9 : 3 },
      s("title", null, [i ? t`attempt ${a.n}, ${duration(a.at_ms)} after the first` : t`attempt ${a.n}, at once`, final && t`; if it fails: a dead letter`])),
    numbered.has(a) && s("text", { class: "on", x: xOf(a), y: ATTEMPTS + 4, "text-anchor": "middle" }, a.n));
  }),
  spaced(plan.attempts.filter((a) => waiting.get(a.n)), xOf, 40).map((a) => s("text", { class: "name", x: xOf(a), y: ATTEMPTS + 28, "text-anchor": "middle" },
    count(waiting.get(a.n)), s("title", null, t`${plural(waiting.get(a.n), t`delivery`, t`deliveries`)} wait for attempt ${a.n}`))),
  columns.map((c) => c.shown.map((d, i) => {
    const late = d.next_attempt_at && Date.parse(d.next_attempt_at) < now;
    const next = d.status === "in_flight" ? t`the next may be in progress` : d.due_after_ms === null ? t`the next as soon as possible`
      : late ? t`the next was due ${duration(d.due_after_ms)} after the first` : t`the next is due ${duration(d.due_after_ms)} after the first`;
    const said = `${visible(d.type || d.event_id)}: ${t`${plural(d.attempts, t`attempt`, t`attempts`)} so far`}, ${next}${d.policy ? t`; it has the policy ${d.policy}` : ""}`;
    return s("a", { href: at("events", d.event_id), "aria-label": said },
      s("rect", { class: `cell ${late || d.status === "in_flight" ? "warn" : ""}`, x: c.x - 4.5, y: POINTS + i * POINT - 5, width: 9, height: 9, rx: 3 }, s("title", null, said)));
  })),
  extra.map((e) => s("text", { x: e.x, y: POINTS + STACK_MAX * POINT + 4, "text-anchor": "middle" }, `+${count(e.more)}`)));
}

const endOf = (plan) => (plan.gives_up === "budget_time" ? t`the next one would be after the end of the time` : t`the attempts are used up`);

function sentence(plan) {
  const limits = [plan.max_attempts && plural(plan.max_attempts, t`attempt`, t`attempts`), plan.max_duration_ms && duration(plan.max_duration_ms)].filter(Boolean);
  const last = plan.attempts.at(-1);
  return [t`Retry policy ${h("b", null, plan.policy)}; waits: ${words(plan.backoff)}; `, limits.length ? t`limit: ${limits.join(t` or `)}.` : t`no limit.`, " ",
    t`Retried: ${plan.retry_on}; other failures make a dead letter at once.`, " ",
    plan.gives_up ? t`A delivery that always fails is a dead letter after attempt ${last.n}, ${duration(last.at_ms)} after the first: ${endOf(plan)}.`
      : t`These are the first ${plan.attempts.length} attempts.`];
}

function rows(plan) {
  const waiting = waitFor(plan);
  const later = plan.counts.filter((c) => c.attempts + 1 > plan.attempts.length);
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": t`attempts` }, h("table", null,
    h("thead", null, h("tr", null, [t`Attempt`, t`Wait`, t`With jitter`, t`After the first`, t`Wait for it`].map((n) => h("th", { scope: "col" }, n)))),
    h("tbody", null, plan.attempts.map((a, i) => h("tr", null, h("td", null, a.n), h("td", null, i ? duration(a.wait_ms) : t`at once`),
      h("td", null, a.max_ms > a.min_ms ? t`${duration(a.min_ms)} to ${duration(a.max_ms)}` : "–"), h("td", null, duration(a.at_ms)),
      h("td", null, waiting.get(a.n) ? count(waiting.get(a.n)) : "–"))),
    later.map((c) => h("tr", null, h("td", null, c.attempts + 1), h("td", null, "–"), h("td", null, "–"), h("td", null, "–"), h("td", null, count(c.deliveries)))))));
}

// A card's contents; `width` of the drawing. `one`: it is about one delivery.
export function retryPlan(plan, width, one = false) {
  const open = plan.counts.reduce((sum, c) => sum + c.deliveries, 0);
  return [h("p", { class: "soft" }, sentence(plan)),
    h("div", { class: "life", tabindex: "0", role: "region", "aria-label": t`the plan as a picture` }, drawing(plan, width)),
    h("p", { class: "legend" }, h("span", null, t`A circle is an attempt, a bar the time that jitter gives it; time begins with the first attempt.`),
      one ? open > 0 && h("span", null, t`The square is this delivery, at the time of its next attempt.`) : h("span", null, open ? [t`${plural(open, t`delivery`, t`deliveries`)}${plan.counts_more ? "+" : ""} open: the numbers below the attempts say how many wait for each; `,
        plan.deliveries.length < open ? t`the ${plan.deliveries.length} that are due first are squares at their times.` : t`each is a square at its time, up to six above each other.`, " ", t`Choose one for its event.`] : t`No delivery is open.`)),
    plan.state !== "active" && h("p", { class: "note warn" }, t`No attempts are made now: the endpoint is ${badge(plan.state)}. Time while it is paused or held does not count.`),
    h("details", null, h("summary", null, t`The plan as a table`), rows(plan))];
}
