// page_overview: how the pipeline does now, and what is wrong, with links to where it is mended.
import { at, get } from "./api.js";
import { chart, spark } from "./chart.js";
import { h, replace } from "./dom.js";
import { released } from "./pointer.js";
import { href, setQuery } from "./router.js";
import { badge, curl, empty, failed, skeleton } from "./states.js";
import { count, plural, rate } from "./text.js";
import { duration, since } from "./time.js";

export const title = () => "Overview";

const NAMES = ["accepted", "delivered", "end_to_end_p50", "end_to_end_p95", "end_to_end_p99", "open:waiting", "in_flight",
  "scheduled_retries", "dead_letters", "dead", "buffered", "gaps", "backlog"];
const RANGES = [["15m", "15 min"], ["1h", "1 h"], ["24h", "24 h"], ["7d", "7 d"], ["30d", "30 d"]];
const seconds = (v) => (v === null ? "–" : duration(v * 1000));

const TROUBLES = {
  held: "is held: it refused every event", disabled: "is disabled", paused: "is paused",
};

// What is wrong, in words: [{look, what, href, link}]
function troubles(alerts, endpoints, series) {
  const out = [];
  for (const a of alerts.items.filter((i) => i.state === "firing"))
    out.push({ look: a.severity === "critical" ? "bad" : "warn", word: a.severity, what: a.summary,
      more: `for ${since(a.since)}`, href: endpoints.items.some((e) => e.name === a.subject) ? at("endpoints", a.subject) : /dead|dlq/.test(a.name) ? "/dead-letters" : "/alerts" });
  for (const e of endpoints.items) {
    const name = e.description || e.name;
    const what = TROUBLES[e.state] ? `Endpoint ${name} ${TROUBLES[e.state]}${e.state !== "held" && e.reason ? `: ${e.reason}` : ""}`
      : e.failing_since ? `Endpoint ${name} has failed for ${since(e.failing_since)}`
        : e.halted_lanes ? `${plural(e.halted_lanes, "lane")} of endpoint ${name} wait for a decision about a dead letter` : null;
    if (what) out.push({ look: e.state === "paused" ? "warn" : "bad", word: e.state === "active" ? "failing" : e.state, what,
      more: e.waiting + e.retrying ? `${plural(e.waiting + e.retrying, "delivery waits", "deliveries wait")}` : "", href: at("endpoints", e.name) });
  }
  if ((series.gaps ?? 0) > 0) out.push({ look: "warn", word: "gap", what: `${plural(series.gaps, "gap")} in the numbers of providers: later events may wait`, href: "/workspaces" });
  return out;
}

export function show(place, context) {
  const range = RANGES.some(([r]) => r === context.query.get("range")) ? context.query.get("range") : "15m";
  let shown = range;
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "time" });
  const wrong = h("section", { class: "card", "aria-label": "What is wrong now" }, h("h2", null, "What is wrong now"), skeleton(2));
  const tiles = h("div", { class: "tiles", "aria-label": "numbers" }, Array.from({ length: 6 }, () => h("div", { class: "tile" }, h("span", { class: "soft" }, "\u00a0"), h("span", { class: "figure" }, "–"), spark([]))));
  const events = h("section", { class: "card" }, h("h2", null, "Events per second"));
  const latency = h("section", { class: "card" }, h("h2", null, "Time to delivery"));
  const open = h("section", { class: "card" }, h("h2", null, "Open deliveries"));
  const charts = {};

  function drawTabs() {
    replace(tabs, RANGES.map(([value, name]) => h("button", { "aria-pressed": String(value === shown), onclick: () => {
      shown = value;
      setQuery({ range: value === "15m" ? "" : value });
      drawTabs();
      read();
    } }, name)));
  }

  function draw(card, key, data) {
    if (charts[key]) charts[key].update(data);
    else card.append((charts[key] = chart(data)));
  }

  // "2 min 9 s" is too long for a tile.
  const brief = (text) => text.split(" ").slice(0, 2).join(" ");

  function tile(name, value, unit, values, to, look) {
    return h(to ? "a" : "div", { class: `tile ${look || ""}`, href: to }, h("span", { class: "soft small" }, name),
      h("span", { class: "figure" }, value, unit && h("small", null, unit)), spark(values));
  }

  function render(reply) {
    const from = Date.parse(reply.from);
    const step = reply.step * 1000;
    const all = Object.fromEntries(reply.series.map((s) => [s.name, s.values]));
    // The newest step may not be measured yet.
    const now = Object.fromEntries(Object.entries(all).map(([n, v]) => [n, v.slice(-3).findLast((x) => x !== null) ?? null]));
    const waiting = all["open:waiting"];
    const p95 = now.end_to_end_p95;
    replace(tiles,
      tile("Accepted", rate(now.accepted), "/s", all.accepted, "/events"),
      tile("Delivered", rate(now.delivered), "/s", all.delivered, "/events?status=done"),
      tile("Time to delivery", brief(seconds(p95)), "p95", all.end_to_end_p95, null, p95 > 5 ? "warn" : ""),
      tile("Waiting", count(now["open:waiting"]), "", waiting, "/endpoints"),
      tile("Retrying", count(now.scheduled_retries), "", all.scheduled_retries, "/endpoints", now.scheduled_retries ? "warn" : ""),
      tile("Dead letters", count(now.dead_letters), "", all.dead_letters, "/dead-letters", now.dead_letters ? "bad" : ""));
    draw(events, "events", { label: "events per second", from, step, show: rate,
      lines: [{ label: "accepted", values: all.accepted }, { label: "delivered", values: all.delivered }, { label: "dead", values: all.dead }] });
    draw(latency, "latency", { label: "time to delivery", from, step, show: seconds, seconds: true,
      lines: [["p50", "end_to_end_p50"], ["p95", "end_to_end_p95"], ["p99", "end_to_end_p99"]].map(([label, n]) => ({ label, values: all[n] })) });
    draw(open, "open", { label: "open deliveries", from, step, show: count, whole: true,
      lines: [{ label: "waiting", values: waiting }, { label: "in flight", values: all.in_flight }, { label: "retrying", values: all.scheduled_retries }] });
    return now;
  }

  function renderWrong(list, endpoints) {
    replace(wrong, h("h2", null, "What is wrong now"), list.length
      ? h("ul", { class: "troubles" }, list.slice(0, 12).map((t) => h("li", null, badge(t.word, t.look),
        h("span", { class: "grow" }, t.href ? h("a", { href: t.href }, t.what) : t.what), t.more && h("span", { class: "soft small" }, t.more))),
      list.length > 12 && h("li", null, h("a", { href: "/endpoints" }, `${count(list.length - 12)} more`)))
      : endpoints.items.length ? h("p", null, badge("nothing", "good"), " Every endpoint gets its events, and no alert fires.")
        : empty("No endpoint yet", h("p", null, "Events are stored, but nobody gets them. Add an endpoint to grapnel.yaml and run ",
          h("code", null, "grapnel reload"), ", or ", h("a", { href: "/endpoints" }, "make one here"), ".")));
  }

  async function read() {
    const [series, alerts, endpoints] = await Promise.allSettled([
      get("/series", { names: NAMES.join(","), from: shown }, context.signal),
      get("/alerts", { limit: 100 }, context.signal), get("/endpoints", { limit: 1000 }, context.signal)]);
    await released();
    if (context.signal.aborted) return;
    const now = series.status === "fulfilled" ? render(series.value) : {};
    const lost = [series, alerts, endpoints].find((r) => r.status === "rejected");
    const known = { alerts: alerts.value ?? { items: [] }, endpoints: endpoints.value ?? { items: [] } };
    if (lost && lost.reason.code !== "unreachable") {
      const list = troubles(known.alerts, known.endpoints, now);
      list.unshift({ look: "bad", word: "away", what: lost.reason.message, href: "/system" });
      renderWrong(list, known.endpoints);
    } else if (!lost) renderWrong(troubles(known.alerts, known.endpoints, now), known.endpoints);
    else if (!wrong.querySelector("li, p")) replace(wrong, h("h2", null, "What is wrong now"), failed(lost.reason));
  }

  replace(place, h("div", { class: "head" }, h("h1", null, "Overview"), h("span", { class: "grow" }), tabs,
    curl(`/series?names=${NAMES.slice(0, 5).join(",")}`)),
  h("div", { class: "stack" }, tiles, wrong, h("div", { class: "columns three" }, events, latency, open)));
  drawTabs();
  read();
  context.every(5000, read);
}
