// page_system: the processes, their databases and disks, the relays of outboxes, and what is wrong with any of them.
import { at, get } from "./api.js";
import { h, replace } from "./dom.js";
import { badge, curl, load, tag } from "./states.js";
import { keepFocus, table } from "./table.js";
import { bytes, count, plural, rate } from "./text.js";
import { duration, since, time } from "./time.js";

export const title = () => "System";

const processBadge = (p) => (p.up ? badge(p.ready ? p.state : "not ready", p.ready ? "good" : "warn") : badge("down", "bad"));
const soft = (text) => h("span", { class: "soft small" }, text);

function wrong(all, relays) {
  const list = [...all.flatMap((p) => p.problems.map((text) => ({ look: p.up ? "warn" : "bad", who: p.process, text, href: p.up ? at("system", p.process) : null }))),
    ...relays.filter((r) => !r.connected && all.find((p) => p.process === r.process)?.up)
      .map((r) => ({ look: "bad", who: r.process, text: `relay ${r.relay}: ${r.error || "its database was not reached yet"}` }))];
  return h("section", { class: "card", "aria-label": "What is wrong now" }, h("h2", null, "What is wrong now"), list.length
    ? h("ul", { class: "troubles" }, list.map((t) => h("li", null, t.href ? h("a", { href: t.href, class: `badge ${t.look}` }, t.who) : tag(t.who, t.look), h("span", { class: "grow" }, t.text))))
    : h("p", null, badge("nothing", "good"), ` ${plural(all.length, "process runs", "processes run")}.`));
}

const processes = (all) => table(all, { label: "processes", key: (p) => p.process, columns: [
  { head: "Process", cell: (p) => (p.up ? h("a", { href: at("system", p.process) }, p.process) : p.process) },
  { head: "State", cell: (p) => processBadge(p) },
  ...(all.some((p) => p.host) ? [{ head: "Host", cell: (p) => p.host ?? "this one" }] : []),
  { head: "Up for", number: true, wide: true, cell: (p) => (p.started_at ? h("span", { title: `since ${p.started_at}` }, since(p.started_at)) : "–") },
  { head: "Backlog", number: true, cell: (p) => count(p.waiting) },
  { head: "Database", number: true, wide: true, cell: (p) => bytes(p.store?.bytes) },
  { head: "WAL", number: true, wide: true, cell: (p) => bytes(p.store?.wal_bytes) },
  { head: "Disk free", number: true, cell: (p) => bytes(p.store?.free_bytes) },
  { head: "Commit", number: true, wide: true, cell: (p) => duration(p.store?.commit_ms) },
  { head: "Checkpoint", number: true, wide: true, cell: (p) => duration(p.store?.checkpoint_ms) },
  { head: "Pid", number: true, wide: true, cell: (p) => p.pid ?? "–" },
  { head: "Version", wide: true, cell: (p) => p.version ?? "–" },
] });

const lag = (r) => (r.oldest_ms === null ? "–" : r.oldest_ms === 0 ? "0" : duration(r.oldest_ms));

const relayTable = (all) => h("section", { class: "card flush" }, h("h2", null, "Relays of outbox tables"), table(all, { label: "relays", key: (r) => `${r.process} ${r.relay}`, columns: [
  { head: "Relay", cell: (r) => h("span", { class: "clip", title: r.relay }, r.relay) },
  { head: "Database", cell: (r) => [badge(r.connected ? "connected" : "away", r.connected ? "good" : "bad"), r.since && soft(` for ${since(r.since)}`)] },
  { head: "Behind", number: true, cell: (r) => h("span", { title: "the age of the oldest row that was not taken" }, lag(r)) },
  { head: "Waiting", number: true, cell: (r) => (r.waiting >= 10000 ? "10,000+" : count(r.waiting)) },
  { head: "Lag p50 · p99", number: true, wide: true, cell: (r) => h("span", { title: "of the last minute" }, `${duration(r.lag_p50_ms)} · ${duration(r.lag_p99_ms)}`) },
  { head: "Taken/s", number: true, wide: true, cell: (r) => rate(r.taken_per_s) },
  { head: "Outcomes/s", number: true, wide: true, cell: (r) => rate(r.written_per_s) },
  { head: "To write", number: true, wide: true, cell: (r) => h("span", { title: "outcomes that their rows do not have yet" }, count(r.outcomes_waiting)) },
  { head: "Set aside", number: true, wide: true, cell: (r) => (r.set_aside ? h("span", { title: "rows that the database refused to change" }, badge(count(r.set_aside), "warn")) : r.set_aside ?? "–") },
  { head: "Process", wide: true, cell: (r) => r.process },
] }));

export function show(place, context) {
  const main = h("div");

  async function readAll() {
    const [all, relays] = await Promise.all([get("/processes", null, context.signal), get("/relays", null, context.signal)]);
    return { all: all.items, relays: relays.items, at: new Date().toISOString() };
  }

  const render = ({ all, relays, at: when }) => h("div", { class: "stack" }, wrong(all, relays), processes(all),
    relays.length > 0 && relayTable(relays), h("p", { class: "soft small" }, "Read at ", time(when), ". Backlog: messages that other processes do not have yet. Commit and checkpoint: how long the last one took."));

  replace(place, h("div", { class: "head" }, h("h1", null, "System"), h("span", { class: "grow" }), curl("/processes")), main);
  load(main, readAll, render, 8);
  context.every(3000, async () => {
    const now = await readAll();
    await keepFocus(main, () => replace(main, render(now)));
  });
}
