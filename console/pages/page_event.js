// page_event: one event: its life as a picture, its deliveries and attempts, its payload, and what can be done with it.
import { act, at, get, getBytes, inPortal, isTenant, may } from "./api.js";
import { ask } from "./dialog.js";
import { h, replace } from "./dom.js";
import { exchange } from "./exchange.js";
import { field } from "./form.js";
import { life } from "./life.js";
import { payload, save } from "./payload.js";
import { released } from "./pointer.js";
import { retryPlan } from "./retry_plan.js";
import { titled } from "./router.js";
import { whatBecame } from "./routing.js";
import { badge, copy, curl, failed, load, toast } from "./states.js";
import { count, plural, words } from "./text.js";
import { t } from "./texts.js";
import { duration, time } from "./time.js";

export const title = ({ id }) => t`Event ${id}`;

const DELIVERIES = 20; // so many are shown at once
const ATTEMPTS = 8; // … of a delivery, the newest
const STEPS = 300;

export function show(place, context) {
  const { id } = context.params;
  const path = at("events", id);
  const main = h("div");
  const body = h("div");
  const openDetails = new Set(); // attempts that the reader has opened
  let became = null;
  let first = true;

  const resend = (endpoint) => ask({
    title: t`Send this event again?`, action: t`Send again`,
    text: endpoint ? t`It is delivered to ${endpoint} again, with its id and number. A receiver that has seen the id ignores it.`
      : isTenant() ? t`It is delivered again, with its id and number, to the endpoint below.`
        : "It is delivered again, with its id and number, to the endpoint below; without one, to all that are subscribed.",
    fields: [endpoint || field({ name: "endpoint", label: t`Only to this endpoint`, required: !may("bulk") }),
      endpoint && h("input", { type: "hidden", name: "endpoint", value: endpoint })].filter((f) => f instanceof Node),
    act: async (v) => {
      await act("POST", `${path}/resend`, v.endpoint ? { endpoint: v.endpoint } : {});
      toast(t`It is sent again.`);
      read();
    } });

  const retry = async (endpoint) => {
    try {
      const reply = await act("POST", `${path}/retry`, { endpoint });
      const d = reply.deliveries[0];
      toast(d?.why || (d?.result === "now" ? "An attempt is made now." : words(d?.result)));
      read();
    } catch (e) {
      toast(e.message);
    }
  };

  const abandon = (endpoint) => ask({ title: `Abandon the delivery to ${endpoint}?`, danger: true, action: "Abandon",
    text: "No further attempt is made. It becomes a dead letter, which you can retry later.",
    fields: [field({ name: "note", label: "Why, for others", required: true, kind: "area", max: 4000 })],
    act: async ({ note }) => {
      await act("POST", `${path}/abandon`, { endpoint, note });
      toast("It is abandoned.");
      read();
    } });

  const evidence = () => ask({ title: "Download the evidence?", action: "Download",
    text: ["One signed JSON file with all that Grapnel has stored about this event: the request, each attempt with its response, and what people did. With ",
      h("code", null, "verify-evidence.py"), " and the public key that ", h("code", null, "grapnel evidence key"), " prints, anybody can verify that no byte was changed. It contains the payload."],
    act: async () => save((await getBytes(`${path}/evidence`, context.signal)).bytes, `evidence-${id}.json`) });

  const release = () => ask({ title: "Release this duplicate?", action: "Release",
    text: "Grapnel suppressed it, as it has the id of an earlier event. Released, it is delivered like any event.",
    act: async () => {
      await act("POST", `${path}/release`, {});
      toast("It is released.");
      read();
    } });

  // The first of many, and a button for the others; what was asked for stays when the page is read again.
  function few(key, items, most, what, render) {
    if (items.length <= most || openDetails.has(key)) return items.map(render);
    const rest = h("div", { class: "stack" });
    replace(rest, h("button", { onclick: () => {
      openDetails.add(key);
      replace(rest, items.slice(most).map(render));
    } }, what(count(items.length - most))));
    return [items.slice(0, most).map(render), rest];
  }

  function attempt(d, a) {
    const key = `${d.endpoint} ${a.n} ${a.at}`;
    const good = a.http_status >= 200 && a.http_status < 300;
    return h("details", { open: openDetails.has(key), ontoggle: (e) => (e.target.open ? openDetails.add(key) : openDetails.delete(key)) },
      h("summary", null, t`Attempt ${a.n}: `, badge(a.http_status ?? (a.error ? t`no response` : "delivered"), good || !a.error ? "good" : "bad"), " ",
        h("span", { class: "soft" }, duration(a.duration_ms), " · ", time(a.at), a.deliverer && ` · ${a.deliverer}`)),
      exchange(a));
  }

  // Its place in the plan of its retry policy, read when somebody opens it.
  function planOf(d) {
    const key = `plan ${d.endpoint}`;
    const place = h("div");
    const read = () => load(place, () => get(`${at("endpoints", d.endpoint)}/plan`, { event: id }, context.signal),
      (p) => h("div", null, retryPlan(p, Math.max(260, Math.min(1100, main.clientWidth - 34)), true)), 4);
    return h("details", { open: openDetails.has(key), ontoggle: (e) => {
      if (!e.target.open) openDetails.delete(key);
      else {
        openDetails.add(key);
        if (!place.childElementCount) read();
      }
    } }, h("summary", null, t`Its place in the retry plan`), place);
  }

  function delivery(d) {
    const isOpen = ["waiting", "in_flight", "retrying"].includes(d.status);
    return h("section", { class: "card" },
      h("div", { class: "row" }, h("h3", { class: "grow anywhere" }, h("a", { href: at("endpoints", d.endpoint) }, d.endpoint)), badge(d.status),
        isOpen && may("delivery") && h("button", { onclick: () => retry(d.endpoint) }, "Try now"),
        isOpen && may("delivery") && h("button", { class: "danger", onclick: () => abandon(d.endpoint) }, "Abandon…"),
        !isOpen && may("resend") && h("button", { onclick: () => resend(d.endpoint) }, t`Send again…`)),
      d.reason && h("p", null, t`Reason: ${words(d.reason)}. `, d.status === "dead" && h("a", { href: `/dead-letters?endpoint=${encodeURIComponent(d.endpoint)}` }, t`Its dead letters`)),
      d.next_attempt_at && h("p", null, t`The next attempt is due at ${time(d.next_attempt_at)}.`),
      d.retry && h("p", { class: "soft small" }, t`Retry policy ${d.retry.policy}.`),
      isOpen && planOf(d),
      d.attempts_left_out > 0 && h("p", { class: "soft small" }, t`${count(d.attempts_left_out)} older attempts are not shown.`),
      d.attempts.length ? few(`attempts ${d.endpoint}`, [...d.attempts].reverse(), ATTEMPTS, (n) => t`Show ${n} earlier attempts`, (a) => attempt(d, a)) : h("p", { class: "soft" }, t`There was no attempt yet.`));
  }

  function render(e) {
    titled(e.type || t`Event`);
    const deliveries = e.deliveries || [];
    return h("div", { class: "stack" },
      h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/events" }, t`Events`)),
        h("h1", null, e.type || t`Event`)), !inPortal() && e.timeline?.[0]?.what.startsWith("a test of the console") && badge("test event", "info"), e.status && badge(e.status),
      e.status === "duplicate" && may("delivery") && h("button", { onclick: release }, "Release…"),
      may("resend") && h("button", { onclick: () => resend() }, t`Send again…`),
      may("evidence") && h("button", { onclick: evidence }, "Evidence…"), curl(path)),
      e.unreachable?.length > 0 && h("p", { class: "note warn" }, inPortal() ? t`A part is missing at the moment.` : `A part is missing: ${e.unreachable.join(", ")} did not respond.`),
      h("section", { class: "card" }, h("dl", { class: "facts" },
        [[t`Id`, [h("span", { class: "mono" }, e.id), copy(e.id, null, t`the id`)]],
          [t`Received`, [time(e.received_at, { exact: true }), e.remote && t` from ${e.remote}`]],
          e.source && [t`Source`, h("a", { href: `/events?source=${encodeURIComponent(e.source)}` }, e.source)],
          e.workspace !== undefined && [t`Workspace`, [isTenant() ? e.workspace : h("a", { href: at("workspaces", e.workspace) }, e.workspace), e.sequence && t`, number ${e.sequence}`]],
          e.provider_id && [t`Provider's id`, [h("span", { class: "mono" }, e.provider_id), copy(e.provider_id, null, t`the provider's id`)]],
          e.delivery_id && [t`Provider's delivery`, h("span", { class: "mono" }, e.delivery_id)],
          e.reason && [t`Reason`, words(e.reason)],
          e.duplicate_of && [t`Duplicate of`, h("a", { class: "mono", href: at("events", e.duplicate_of) }, e.duplicate_of)],
          e.request && ["Request", h("a", { class: "mono", href: at("events", e.request) }, e.request)],
          e.late && [t`Late`, t`Later events of its stream were delivered before it.`],
          e.gap && [t`Did not wait for`, e.gap]].filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
      e.timeline?.length > 0 && h("section", { class: "card" }, h("h2", null, t`Its life`), life({ ...e, deliveries })),
      e.events?.length > 0 && h("section", { class: "card" }, h("h2", null, plural(e.events.length, "event")), h("ul", null, e.events.map((p) =>
        h("li", { class: "row" }, h("a", { href: at("events", p.id) }, p.type || p.id), badge(p.status))))),
      h("h2", null, deliveries.length ? plural(deliveries.length, t`delivery`, t`deliveries`) : t`No delivery`),
      deliveries.length ? few("deliveries", [...deliveries].sort((a, b) => (a.status === "delivered") - (b.status === "delivered")), DELIVERIES, (n) => t`Show ${n} more deliveries`, delivery) : h("p", { class: "soft" }, e.status === "buffered" ? t`It waits for earlier events of its stream.`
        : e.status === "refused" ? t`It was refused, and became a dead letter.` : e.status === "ignored" || e.status === "done" ? t`No endpoint is subscribed to it; below it says why.` : t`It has no delivery yet.`),
      (became ??= whatBecame(path, context.signal)).element,
      h("section", { class: "card" }, h("h2", null, t`Payload`), body),
      e.timeline?.length > 0 && h("section", { class: "card flush" }, h("h2", null, t`All steps`), h("div", { class: "table", tabindex: "0", role: "region", "aria-label": t`steps` },
        h("table", null, h("thead", null, h("tr", null, [t`Time`, t`Process`, t`Step`].map((n) => h("th", { scope: "col" }, n)))),
          h("tbody", null, e.timeline.slice(0, STEPS).map((step) => h("tr", null, h("td", null, time(step.at, { exact: true })), h("td", null, step.process), h("td", null, h("span", { class: "wrap" }, step.what))))))),
        e.timeline.length > STEPS && h("p", { class: "more soft" }, t`The first ${STEPS} of ${count(e.timeline.length)} steps.`, !inPortal() && [" ", h("code", null, `grapnel trace ${e.id}`), " prints all."])));
  }

  const several = (reply) => h("div", { class: "stack" }, h("div", { class: "head" }, h("h1", null, "Several events have this id")),
    h("section", { class: "card" }, h("ul", null, reply.matches.map((m) => h("li", { class: "row" }, time(m.received_at), h("a", { href: at("events", m.id) }, m.type || m.id), badge(m.status))))));

  async function read() {
    const shown = await load(main, () => get(path, null, context.signal), (e) => (e.matches ? several(e) : render(e)), 10);
    if (shown && first) readBody();
    first = first && !shown;
  }

  async function readBody() {
    try {
      replace(body, payload(await getBytes(`${path}/payload`, context.signal), `/api/v1${path}/payload`));
    } catch (e) {
      if (e.name !== "AbortError") replace(body, e.status === 404 ? h("p", { class: "soft" }, e.message) : failed(e, readBody));
    }
  }

  const isRead = () => main.querySelector("details[open]") || document.querySelector("dialog[open]") || main.contains(document.activeElement);

  replace(place, main);
  read();
  // What is open changes by itself.
  context.every(3000, async () => {
    if (isRead() || [...main.querySelectorAll(".badge.info, .badge.warn")].every((b) => b.closest("#why"))) return;
    const e = await get(path, null, context.signal);
    await released();
    if (e.matches || isRead()) return;
    replace(main, render(e));
    await became?.refresh();
  });
}
