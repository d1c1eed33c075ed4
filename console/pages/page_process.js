// page_process: one process: its database, its links to others, what it owns, and its metrics.
import { at, get } from "./api.js";
import { h, replace } from "./dom.js";
import { badge, copy, curl, failed, load } from "./states.js";
import { keepFocus, table } from "./table.js";
import { bytes, count, rate } from "./text.js";
import { duration, since, time } from "./time.js";

export const title = ({ process }) => `Process ${process}`;

const facts = (list) => h("dl", { class: "facts" }, list.filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)]));

const links = (s) => s.links.length > 0 && h("section", { class: "card flush" }, h("h2", null, "Links to other processes"), table(s.links, { label: "links", key: (l) => `${l.peer} ${l.direction}`, columns: [
  { head: "Peer", cell: (l) => h("a", { href: at("system", l.peer) }, l.peer) },
  { head: "Messages", cell: (l) => (l.direction === "out" ? "sent to it" : "received from it") },
  { head: "Not done", number: true, cell: (l) => count(l.backlog) },
  { head: "Done", number: true, wide: true, cell: (l) => l.done.toLocaleString("en-US") },
  { head: "Lost", number: true, cell: (l) => (l.lost ? badge(count(l.lost), "bad") : "0") },
  { head: "Set aside", number: true, wide: true, cell: (l) => (l.unprocessable ? badge(count(l.unprocessable), "bad") : "0") },
  { head: "Rewound", number: true, wide: true, cell: (l) => h("span", { title: "how often a restored database set the link back" }, count(l.set_back)) },
] }));

const grants = (s) => s.grants?.length > 0 && h("section", { class: "card flush" }, h("h2", null, "Endpoints that it owns"), table(s.grants, { label: "endpoints", key: (g) => g.endpoint, columns: [
  { head: "Endpoint", cell: (g) => h("a", { class: "clip", href: at("endpoints", g.endpoint), title: g.endpoint }, g.endpoint) },
  { head: "Breaker", cell: (g) => badge(g.held ? "held" : g.breaker, g.held || g.breaker === "open" ? "bad" : g.breaker === "closed" ? "good" : "warn") },
  { head: "In flight", number: true, cell: (g) => `${count(g.in_flight)} of ${count(g.window)}` },
  { head: "In memory", number: true, wide: true, cell: (g) => count(g.queued) },
  { head: "On disk", number: true, wide: true, cell: (g) => count(g.rows) },
  { head: "Retrying", number: true, cell: (g) => count(g.scheduled_retries) },
] }));

// Counters with how fast they grow; those that are 0 say nothing.
function metrics(s) {
  const rows = Object.entries(s.metrics).filter(([, value]) => value).sort(([a], [b]) => (a < b ? -1 : 1));
  return h("section", { class: "card flush" }, h("h2", null, "Metrics"), rows.length ? table(rows, { label: "metrics", key: ([name]) => name, columns: [
    { head: "Name", cell: ([name]) => h("span", { class: "mono anywhere" }, name) },
    { head: "Value", number: true, cell: ([name, value]) => (name.endsWith("_bytes") ? bytes(value) : value.toLocaleString("en-US")) },
    { head: "Per second", number: true, cell: ([name]) => (name in s.rates ? rate(s.rates[name]) : "–") },
  ] }) : h("p", { class: "state soft" }, "All of them are 0."));
}

export function show(place, context) {
  const name = context.params.process;
  const path = at("processes", name);
  const main = h("div");

  const render = (s) => h("div", { class: "stack" },
    h("section", { class: "card" }, facts([
      ["Program", `${s.kind} ${s.version}`], ["Process id", [s.pid, copy(String(s.pid), null, "the process id")]],
      ["Up for", [since(s.started_at), h("span", { class: "soft" }, " since "), time(s.started_at)]],
      ["Database", [h("span", { class: "mono" }, s.store.path), copy(s.store.path, null, "the path")]],
      ["Size", `${bytes(s.store.bytes)}, of which ${bytes(s.store.wal_bytes)} write-ahead log; tables of version ${s.store.schema_version}`],
      ["Disk free", bytes(s.store.free_bytes)],
      ["Last commit", s.store.commit_ms === null ? "none since the start" : duration(s.store.commit_ms)],
      ["Last checkpoint", s.store.checkpoint_ms === null ? "none since the start" : duration(s.store.checkpoint_ms)],
      s.lease && ["Lease", badge(s.lease, s.lease === "held" ? "good" : "bad")],
      s.in_flight !== undefined && ["Attempts in progress", count(s.in_flight)],
      s.scheduled_retries !== undefined && ["Scheduled retries", count(s.scheduled_retries)]])),
    s.troubles?.length > 0 && h("section", { class: "card" }, h("h2", null, "Endpoints in trouble"), h("ul", { class: "troubles" }, s.troubles.map((t) => h("li", null, badge(t.state, t.state === "paused" ? "warn" : "bad"),
      h("span", { class: "grow" }, h("a", { href: at("endpoints", t.endpoint) }, t.endpoint), t.reason && `: ${t.reason}`), t.since && h("span", { class: "soft small" }, `for ${since(t.since)}`))))),
    links(s), grants(s), metrics(s));

  const read = () => get(path, null, context.signal);
  replace(place, h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/system" }, "System")), h("h1", null, name)), curl(path)), main);
  load(main, read, render, 8);
  context.every(3000, async () => {
    try {
      const now = await read();
      await keepFocus(main, () => replace(main, render(now)));
    } catch (e) {
      if (e.name !== "AbortError" && e.code !== "unreachable") replace(main, failed(e));
      throw e;
    }
  });
}
