// page_source: one source: what it sends, what was refused, how to set up its provider, and a test event.
import { act, at, get, may } from "./api.js";
import { chart } from "./chart.js";
import { ask } from "./dialog.js";
import { h, prose, replace } from "./dom.js";
import { released } from "./pointer.js";
import { go } from "./router.js";
import { badge, copy, curl, empty, load, tag, toast } from "./states.js";
import { table } from "./table.js";
import { bytes, count, plural, rate, words } from "./text.js";
import { duration, time } from "./time.js";
import { lastEvent } from "./page_sources.js";

export const title = ({ name }) => `Source ${name}`;

const REFUSED = 10;
const facts = (list) => h("dl", { class: "facts" }, list.filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)]));

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const nameOf = (s) => (s.provider === "custom" ? "its provider" : s.title);

// What to enter where, one step after the other.
function setUp(s) {
  const steps = s.kind === "producer" ? [
    ["Where", ["Your service posts events to ", h("code", null, s.local_url), copy(s.local_url, null, "the URL"), ", or to the same path of your proxy."]],
    ["Token", `It sends a token of this producer, which has ${plural(s.secrets, "token")} now. Only hashes of tokens are stored.`],
    ["Try it", h("pre", { class: "block", tabindex: "0" }, `curl -H "Authorization: Bearer $TOKEN" ${s.local_url} \\\n  -d '{"type":"invoice.paid","workspace":"acme","data":{}}'`)],
  ] : [
    ["URL", s.url ? ["Give the provider this URL: ", h("code", null, s.url), copy(s.url, null, "the URL")]
      : ["Give the provider the address at which your proxy can be reached, with the path ", h("code", null, s.path), copy(s.path, null, "the path"),
        ": ", h("code", null, `YOUR-HOST${s.path}`), ", over HTTPS. On the machine itself it is ", h("code", null, s.local_url), ". With ", h("code", null, "public_url"), " of the source this page shows the whole URL."]],
    s.setup && ["At the provider", [prose(capital(s.setup)), "."]],
    ["Secret", [s.secret && [prose(capital(s.secret)), ". "], "Put it where ", h("code", null, "secrets"), " of this source in ", h("code", null, "grapnel.yaml"),
      ` says (a file, or a variable of the environment), and run `, h("code", null, "grapnel reload"), `. It has ${plural(s.secrets, "secret")} now; with a second one, both are accepted while you change it.`]],
    ["Try it", [s.no_test ? `${capital(s.no_test)}.` : "Send a test event from here; then let the provider send one."]],
  ];
  return h("section", { class: "card" }, h("h2", null, s.kind === "producer" ? "Publish to it" : `Set up ${nameOf(s)}`), h("div", { class: "stack" }, facts(steps),
    s.failure && h("p", null, h("b", null, "After a response that is not 2xx: "), prose(s.failure), "."), s.notes && h("p", { class: "soft" }, prose(s.notes))));
}

const HOUR = 3600000;
const WEEK = 168; // hours
const MONDAY = 96; // hours of the week begin with a Thursday, as 1970 did

// The usual rates of the week that ends with the present hour.
function weekOf({ hours }) {
  const now = Math.floor(Date.now() / HOUR);
  const from = now - WEEK + 1;
  return { label: "usual events an hour, of the hours of a week", from: from * HOUR, step: HOUR, show: rate,
    lines: [{ label: "usual events an hour", values: Array.from({ length: WEEK }, (_, i) => hours[(from + i + WEEK - MONDAY) % WEEK] ?? null) }] };
}

// What was learned about it, in sentences.
function usualSentences(s) {
  const u = s.usual;
  const said = {
    unused: ["No event has come yet. The console begins to learn with the first one, and learns for 14 days before it judges."],
    learning: ["The console still learns what is usual: it has watched this source for ", duration(u.watched_ms), ", and needs 14 days. Until ", time(u.judged_from), " at least, a silence of this source makes no alert."],
    rare: ["It sends too rarely: no silence of it can be called unusual. A rule with ", h("code", null, "when: source_silent"), " and ", h("code", null, "silent_for"), " watches such a source."],
    usual: ["At this hour of the week it usually sends about ", h("b", null, `${rate(u.rate)} events an hour`), "; on its quietest day, ", rate(u.quiet_rate),
      ". A silence that begins now is usual for up to ", h("b", null, duration(u.silence_ms)), "."],
    unusual: [h("b", null, "It is silent for longer than usual."), ` Since its last event it would usually have sent about ${plural(s.missing, "event")}, in relation to its earlier silences. Is the webhook still enabled at the provider?`],
  }[u.state];
  return [h("p", { class: u.state === "unusual" ? "note bad" : null }, said),
    u.state !== "unused" && !u.watching && h("p", { class: "note warn" }, "The console does not hear ingress at the moment. This time is neither silence nor learned."),
    u.state !== "unused" && u.alert === null && h("p", { class: "soft" }, "No alert rule for an unusual silence watches this source."),
    u.alert_at && h("p", null, "Without another event the alert ", h("a", { href: "/alerts" }, u.alert), " fires at about ", time(u.alert_at), ".")];
}

function usual(s, picture) {
  const u = s.usual;
  return h("section", { class: "card", id: "usual" }, h("h2", null, "What is usual for it"), h("div", { class: "stack" }, usualSentences(s),
    facts([u.watched_ms > 0 && ["Watched for", [duration(u.watched_ms), h("span", { class: "soft" }, " altogether")]],
      s.kind === "source" && ["Refused before", u.refusals.length ? h("ul", { class: "plain" }, u.refusals.map((r) => h("li", null, words(r.reason), h("span", { class: "soft" }, ", last ", time(r.seen_at)), r.new && [" ", badge("new", "warn")])))
        : "no request in the last weeks"]]), picture));
}

const rejects = (s, rows) => h("section", { class: "card flush" }, h("h2", null, h("span", { class: "grow" }, "Refused requests"), rows.length > 0 && h("a", { class: "small", href: `/rejects?source=${encodeURIComponent(s.name)}` }, "All of them")),
  rows.length ? table(rows, { label: "refused requests", key: (r) => r.id ?? r.at, columns: [
    { head: "Refused", cell: (r) => time(r.at) },
    { head: "Reason", cell: (r) => (r.id ? h("a", { href: at("rejects", r.id) }, words(r.reason)) : words(r.reason)) },
    { head: "Status", cell: (r) => badge(r.status, r.status < 500 ? "warn" : "bad") },
    { head: "Body", number: true, cell: (r) => bytes(r.body_bytes) },
    { head: "From", wide: true, cell: (r) => r.remote },
    { head: "Request", wide: true, cell: (r) => h("span", { class: "clip mono", title: r.path }, `${r.method} ${r.path}`) },
  ] }) : empty("No request was refused"));

const events = (s, rows) => h("section", { class: "card flush" }, h("h2", null, h("span", { class: "grow" }, "Newest events"), rows.length > 0 && h("a", { class: "small", href: `/events?source=${encodeURIComponent(s.name)}` }, "All of them")),
  rows.length ? table(rows, { label: "events", key: (e) => e.id, columns: [
    { head: "Received", cell: (e) => time(e.received_at) },
    { head: "Type", cell: (e) => h("a", { class: "clip", href: at("events", e.id), title: e.type }, e.type || e.id) },
    { head: "Status", cell: (e) => badge(e.status) },
    { head: "Workspace", wide: true, cell: (e) => h("span", { class: "clip", title: e.workspace }, e.workspace) },
  ] }) : empty("No event yet", h("p", { class: "soft" }, s.kind === "source" ? "Set the provider up as below, and send a test event." : "Publish one as below.")));

export function show(place, context) {
  const { name } = context.params;
  const path = at("sources", name);
  const head = h("div", { class: "head" });
  const main = h("div");
  let picture = null;
  let week = null;

  // Only the numbers are needed to show the page: what the other processes have may be missing.
  async function readAll() {
    const [source, refused, newest, series] = await Promise.allSettled([get(path, null, context.signal), get("/rejects", { source: name, limit: REFUSED }, context.signal),
      get("/events", { source: name, limit: 5 }, context.signal), get("/series", { names: `source_accepted:${name},source_refused:${name}`, from: "1h", step: 30 }, context.signal)]);
    if (source.status === "rejected") throw source.reason;
    return { s: source.value, refused: refused.value?.items, newest: newest.value?.items, series: series.value,
      away: [refused, newest].filter((r) => r.status === "rejected" && r.reason.code !== "unreachable").map((r) => r.reason.message) };
  }

  const send = (s) => ask({ title: "Send a test event?", action: "Send it",
    text: `Grapnel makes an event as ${nameOf(s)} sends it, signs it with the source's secret, and posts it to ingress. It takes the usual way: every endpoint that is subscribed to its type gets it. It is marked as a test of the console.`,
    act: async () => {
      const sent = await act("POST", `${path}/test`, {});
      if (!sent.event) throw new Error(`Ingress responded ${sent.http_status}: ${sent.error}. The refused requests say why.`);
      toast("Ingress accepted it.");
      go(at("events", sent.event));
    } });

  function render({ s, refused, newest, series, away }) {
    replace(head, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/sources" }, "Sources")), h("h1", null, name)), tag(s.provider ?? "producer"),
      may("test") && !s.no_test && h("button", { onclick: () => send(s) }, "Send a test event…"), curl(path));
    const data = series && { label: "events and refused requests per second", from: Date.parse(series.from), step: series.step * 1000, show: rate,
      lines: [{ label: "accepted", values: series.series[0].values }, { label: "refused", values: series.series[1].values }] };
    if (data && picture) picture.update(data);
    else if (data) picture = chart(data);
    const learned = s.usual.hours.some((v) => v !== null) && weekOf(s.usual);
    if (learned && week) week.update(learned);
    else if (learned) week = chart(learned);
    return h("div", { class: "stack" }, away.length > 0 && h("p", { class: "note warn" }, [...new Set(away)].join(" ")),
      h("div", { class: "columns" },
        h("section", { class: "card" }, h("h2", null, "Numbers"), facts([["Last event", lastEvent(s)], ["Requests", count(s.requests)], ["Accepted", count(s.accepted)], ["Duplicates", count(s.duplicates)],
          ["Refused", [count(s.refused), s.reasons.length > 0 && h("span", { class: "soft" }, `: ${s.reasons.map((r) => `${words(r.reason)} ${count(r.count)}`).join(", ")}`)]],
          ["Counted since", s.counted_since ? time(s.counted_since) : "no ingress publishes its numbers"]])),
        h("section", { class: "card" }, h("h2", null, "Last hour, per second"), picture)),
      usual(s, learned && week),
      newest && events(s, newest), refused && s.kind === "source" && rejects(s, refused), setUp(s),
      s.facts.length > 0 && h("section", { class: "card" }, h("h2", null, "How its requests are read"), facts(s.facts.map((f) => [f.name, prose(f.text)]))));
  }

  const isRead = () => main.contains(document.activeElement) || document.querySelector("dialog[open]") || String(getSelection());

  replace(place, head, main);
  replace(head, h("h1", null, name));
  load(main, readAll, render, 10);
  context.every(5000, async () => {
    if (isRead()) return;
    const now = await readAll();
    await released();
    if (!isRead()) replace(main, render(now));
  });
}
