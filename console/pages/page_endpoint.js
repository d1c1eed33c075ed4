// page_endpoint: one endpoint: how it does, what waits for it, its settings, and what can be done with it.
import { act, at, get, inPortal, isTenant, may } from "./api.js";
import { chart } from "./chart.js";
import { ask, open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { change, remove, rotate, shown } from "./endpoint_form.js";
import { exchange } from "./exchange.js";
import { released } from "./pointer.js";
import { go, setQuery, titled } from "./router.js";
import { replay } from "./replay.js";
import { retryPlan } from "./retry_plan.js";
import { wouldGet } from "./routing.js";
import { badge, copy, curl, empty, load, toast } from "./states.js";
import { list } from "./table.js";
import { count, percent, plural, rate, words } from "./text.js";
import { t } from "./texts.js";
import { duration, since, time } from "./time.js";
import { stateBadge, stateOf } from "./page_endpoints.js";

export const title = ({ name }) => t`Endpoint ${name}`;

const PERIODS = ["5m", "15m", "1h"];
const STATUSES = ["", "open", "delivered", "dead", "abandoned"];

const verdictOf = ({ verdict, reason }) => [verdict === "delivered" ? t`The endpoint accepted it.` : verdict === "retried" ? t`An event would be retried.`
  : verdict === "dead" ? t`An event would be a dead letter.` : t`An event would be tried again: the deliverer failed.`, verdict !== "delivered" && reason && ` ${words(reason)}`];

export function show(place, context) {
  const { name } = context.params;
  const path = at("endpoints", name);
  const main = h("div");
  const numbers = h("div");
  const pictures = h("div", { class: "columns" });
  const plan = h("div");
  const usual = h("div");
  const deliveries = h("div");
  let period = PERIODS.includes(context.query.get("period")) ? context.query.get("period") : "1h";
  let status = STATUSES.includes(context.query.get("status")) ? context.query.get("status") : "";
  const charts = {};
  const keep = () => setQuery({ period: period === "1h" ? "" : period, status });

  async function doIt(what, said) {
    try {
      await act("POST", `${path}/${what}`, {});
      toast(said);
      await read();
    } catch (e) {
      toast(e.message);
    }
  }

  const pause = () => ask({ title: t`Pause this endpoint?`, action: t`Pause`,
    text: t`No attempts are made until it is resumed. Its deliveries wait; that time does not count in their retry budgets.`,
    act: () => doIt("pause", t`It is paused.`) });

  const test = () => open(t`A test event`, (close) => {
    const place = h("div");
    load(place, () => act("POST", `${path}/test`, {}), (done) => h("div", { class: "stack" },
      h("p", { class: `note ${done.verdict === "delivered" ? "good" : "bad"}` }, verdictOf(done)),
      exchange(done)), 4);
    return h("div", { class: "stack" }, place, h("div", { class: "buttons" }, h("button", { class: "main", onclick: () => close() }, t`Close`)));
  });

  const acts = (e) => [
    may("test") && h("button", { onclick: test }, t`Test`),
    may("pause") && ["paused", "disabled", "held"].includes(e.state) && h("button", { class: "main", onclick: () => doIt("resume", t`It is resumed.`) }, t`Resume`),
    may("pause") && e.state === "active" && h("button", { onclick: pause }, t`Pause…`),
    e.managed_by === "api" && !e.temporary && may("endpoints") && [
      h("button", { onclick: async () => (await change(e)) && (toast(t`It is changed.`), read()) }, t`Change…`),
      h("button", { onclick: async () => (await rotate(e)) && read() }, t`New secret…`)],
    !isTenant() && e.managed_by && may("replay") && h("button", { onclick: async () => (await replay({ endpoint: name })) && (toast("They are sent again."), go("/jobs")) }, "Replay…"),
    e.managed_by === "api" && may("endpoints") && h("button", { class: "danger", onclick: async () => (await remove(e)) && (toast(t`It is deleted.`), go("/endpoints")) }, t`Delete…`),
  ];

  function render(e) {
    titled(shown(e));
    const s = e.settings || {};
    return h("div", { class: "stack" },
      h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/endpoints" }, t`Endpoints`)), h("h1", null, shown(e))),
        stateBadge(e), acts(e), curl(path)),
      e.reason && h("p", { class: "note warn" }, t`${words(e.state)} since ${time(e.since)}: ${e.reason}`),
      stateOf(e) === "failing" && h("p", { class: "note bad" }, t`All of its attempts have failed for ${since(e.failing_since)}.`),
      e.halted.length > 0 && h("section", { class: "card" }, h("h2", null, t`${plural(e.halted_lanes, t`lane`, t`lanes`)} wait for a decision`), h("ul", { class: "troubles" }, e.halted.slice(0, 10).map((l) =>
        h("li", null, h("span", { class: "grow" }, t`${l.workspace ?? t`all workspaces`}, since ${time(l.since)}`), h("a", { href: at("dead-letters", l.dead_letter_id) }, t`the dead letter`))))),
      h("div", { class: "columns" }, h("section", { class: "card" }, h("h2", null, t`Settings`), h("dl", { class: "facts" },
        [[t`Name`, [h("span", { class: "mono" }, e.name), copy(e.name, null, t`the name`)]],
          s.url && ["URL", h("span", { class: "mono" }, s.url)], s.transport === "pull" && [t`Transport`, t`pull: consumers take its deliveries`],
          [t`Order`, e.ordered === "none" ? t`several deliveries at the same time` : e.ordered === "all" ? t`one delivery at a time` : t`one at a time in each workspace`],
          !inPortal() && ["Deliverer", e.owner ?? "no deliverer has it"],
          !isTenant() && ["Made", e.managed_by === "api" ? ["at run time, ", time(e.created_at), e.created_by && ` by ${e.created_by}`] : e.managed_by === "file" ? ["in grapnel.yaml: change it there, then run ", h("code", null, "grapnel reload")] : "it was removed"],
          e.expires_at && [t`Ends`, time(e.expires_at)]].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)])),
      Object.keys(s).length > 0 && h("details", null, h("summary", null, t`All settings that differ from their defaults`), h("pre", { class: "block", tabindex: "0" }, JSON.stringify(s, null, 2)))),
      numbers),
      pictures,
      usual,
      e.managed_by && plan,
      e.managed_by && h("section", { class: "card" }, h("h2", null, t`Would it get this event?`), wouldGet({ endpoint: name, signal: context.signal })),
      h("section", { class: "card flush" }, h("h2", { class: "row" }, h("span", { class: "grow" }, t`Deliveries`), h("select", { "aria-label": t`status of deliveries`, onchange: (v) => {
        status = v.target.value;
        keep();
        rows.reload();
      } }, STATUSES.map((value) => h("option", { value, selected: value === status }, words(value) || t`any status`)))), deliveries));
  }

  function renderNumbers(s) {
    const attempts = s.attempts;
    return h("section", { class: "card" }, h("h2", { class: "row" }, h("span", { class: "grow" }, t`How it does`), h("span", { class: "tabs" }, PERIODS.map((p) =>
      h("button", { class: "small", "aria-pressed": String(p === period), onclick: () => {
        period = p;
        keep();
        readNumbers();
      } }, p)))),
    h("dl", { class: "facts" }, [
      [t`Delivered`, [percent(s.success_rate), h("span", { class: "soft" }, t` of ${plural(attempts, t`attempt`, t`attempts`)}: ${count(s.outcomes.delivered)} delivered, ${count(s.outcomes.retrying)} failed and retried, ${count(s.outcomes.dead)} dead`)]],
      [t`Responses`, Object.entries(s.statuses).filter(([, n]) => n).map(([k, n]) => [badge(`${k === "none" ? t`no response` : k}: ${count(n)}`, k === "2xx" ? "good" : "bad"), " "])],
      [t`Latency`, `p50 ${duration(s.latency_ms.p50)} · p95 ${duration(s.latency_ms.p95)} · p99 ${duration(s.latency_ms.p99)}`],
      [t`Open`, [t`${count(s.in_flight)} in flight, ${count(s.waiting)}${s.waiting_more ? "+" : ""} waiting, ${count(s.retrying)} retrying`, s.oldest_waiting_at && t`, the oldest for ${since(s.oldest_waiting_at)}`]],
      [t`Breaker`, s.breaker === null ? t`not known` : [badge(s.breaker, s.breaker === "closed" ? "good" : "bad"), s.window !== null && t` ${plural(s.window, t`attempt`, t`attempts`)} at the same time`, s.rate_wait_ms > 0 && [" ", badge(t`its rate limit holds deliveries up`, "warn")]]],
      [t`Last success`, time(s.last_success_at)], [t`Last failure`, time(s.last_failure_at)],
    ].map(([n, v]) => [h("dt", null, n), h("dd", null, v)])));
  }

  const CLASSES = ["2xx", "3xx", "4xx", "5xx", "none"];
  const share = (n, key) => (n ? percent(n[key]) : "–");

  function renderUsual(u) {
    const said = {
      unused: "The console has seen no response yet. It learns for 7 days and 200 responses before it judges.",
      learning: ["The console still learns what is usual: it has watched this endpoint for ", duration(u.watched_ms), ` and ${plural(u.responses + u.recent_responses, "response")}, and needs 7 days and 200 responses. Until then another mix of statuses makes no alert.`],
      usual: "The newest responses are as usual, or too few to judge.",
      unusual: [h("b", null, "A class of failures has a larger share than usual. "), "Was the endpoint, or a proxy before it, just changed?"],
    }[u.state];
    return h("section", { class: "card", id: "usual" }, h("h2", null, "Usual responses"), h("div", { class: "stack" },
      h("p", { class: u.state === "unusual" ? "note bad" : null }, said),
      (u.shares || u.recent) && h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "usual responses" }, h("table", null,
        h("thead", null, h("tr", null, ["Response", "Usually", "In the last one to two hours"].map((n) => h("th", { scope: "col" }, n)))),
        h("tbody", null, CLASSES.map((key) => h("tr", null, h("td", null, key === "none" ? "no response" : key), h("td", null, share(u.shares, key)), h("td", null, share(u.recent, key))))))),
      u.alert === null && h("p", { class: "soft" }, "No alert rule for another mix of statuses watches this endpoint.")));
  }

  // Of no use to a workspace, which has no alerts.
  async function readUsual() {
    const isRead = () => !usual.isConnected || usual.contains(document.activeElement);
    if (isTenant() || isRead()) return;
    try {
      const u = await get(`${path}/usual`, null, context.signal);
      await released();
      if (!isRead()) replace(usual, renderUsual(u));
    } catch (e) {
      if (e.name === "AbortError") return;
      if (!usual.childElementCount) replace(usual, h("section", { class: "card" }, h("h2", null, "Usual responses"), h("p", { class: "soft" }, e.message)));
    }
  }

  async function readNumbers() {
    const [stats, series] = await Promise.allSettled([get(`${path}/stats`, { period }, context.signal),
      isTenant() ? Promise.reject() : get("/series", { names: `endpoint_delivered:${name},endpoint_failed:${name},endpoint_p95:${name}`, from: period }, context.signal)]);
    await released();
    if (context.signal.aborted) return;
    if (series.status === "fulfilled" && !/[*,]/.test(name)) {
      const [ok, bad, p95] = series.value.series.map((s) => s.values);
      const base = { from: Date.parse(series.value.from), step: series.value.step * 1000 };
      const put = (key, data) => {
        if (charts[key]) charts[key].update(data);
        else pictures.append(h("section", { class: "card" }, h("h2", null, data.label), (charts[key] = chart(data))));
      };
      put("rates", { ...base, label: "Attempts per second", show: rate, lines: [{ label: "delivered/s", values: ok }, { label: "failed/s", values: bad }] });
      put("latency", { ...base, label: "Duration of an attempt", seconds: true, show: (v) => (v === null ? "–" : duration(v * 1000)), lines: [{ label: "p95", values: p95 }] });
    }
    if (stats.status === "fulfilled") replace(numbers, renderNumbers(stats.value));
  }

  // Stays as it is while somebody reads its table or is in the drawing.
  async function readPlan() {
    const isRead = () => !plan.isConnected || plan.querySelector("details[open]") || plan.contains(document.activeElement);
    if (isRead()) return;
    try {
      const p = await get(`${path}/plan`, null, context.signal);
      await released();
      if (!isRead()) replace(plan, h("section", { class: "card" }, h("h2", null, t`Retry plan`), retryPlan(p, Math.max(260, Math.min(1100, plan.clientWidth - 34)))));
    } catch (e) {
      if (e.name !== "AbortError" && !plan.childElementCount) replace(plan, h("section", { class: "card" }, h("h2", null, t`Retry plan`), h("p", { class: "soft" }, e.message)));
    }
  }

  const rows = list(deliveries, {
    label: t`deliveries`, key: (d) => d.event_id,
    columns: [
      { head: t`Received`, cell: (d) => time(d.received_at) },
      { head: t`Event`, cell: (d) => h("a", { class: "clip", href: at("events", d.event_id), title: d.type }, d.type || d.event_id) },
      { head: t`Status`, cell: (d) => badge(d.status) },
      { head: t`Workspace`, wide: true, cell: (d) => h("span", { class: "clip", title: d.workspace }, d.workspace) },
      { head: t`Attempts`, number: true, cell: (d) => d.attempts },
      { head: t`Last result`, wide: true, cell: (d) => h("span", { class: "clip", title: d.last_error || "" }, d.last_error || d.last_http_status || "–") },
      { head: t`Next attempt`, wide: true, cell: (d) => time(d.next_attempt_at) },
    ],
    read: (cursor) => get("/deliveries", { endpoint: name, status, limit: 25, cursor }, context.signal),
    none: () => empty(status ? t`No such delivery` : t`No delivery yet`, h("p", { class: "soft" }, status ? t`Choose another status.` : t`It has had no event since it was made, or they have left the history.`)),
  });

  async function read() {
    const shownNow = await load(main, () => get(path, null, context.signal), render, 8);
    if (shownNow) {
      readNumbers();
      readPlan();
      readUsual();
      rows.reload();
    }
  }

  replace(place, main);
  read();
  context.every(5000, async () => {
    if (document.querySelector("dialog[open]") || !numbers.isConnected) return;
    await Promise.all([readNumbers(), readPlan(), readUsual()]);
    await rows.refresh();
  });
}
