// page_events: a search of events, and a list that follows them live.
import { at, get, inPortal, isTenant, stream } from "./api.js";
import { h, replace } from "./dom.js";
import { filters, sinceOptions } from "./form.js";
import { go, setQuery } from "./router.js";
import { badge, copy, curl, empty } from "./states.js";
import { wouldGet } from "./routing.js";
import { list } from "./table.js";
import { words } from "./text.js";
import { t } from "./texts.js";
import { time } from "./time.js";

export const title = () => t`Events`;

const STATUSES = ["", "routed", "done", "buffered", "duplicate", "ignored", "refused", "expired"];

export function show(place, context) {
  const rows = h("div");
  let live = context.query.get("live") === "1";
  let ending = null; // of the stream

  const form = filters(context.query, [
    { name: "id", label: t`Search by id  ( / )`, search: true },
    { name: "type", label: t`Type` },
    ...(isTenant() ? [] : [{ name: "workspace", label: t`Workspace` }]),
    { name: "source", label: t`Source` },
    { name: "endpoint", label: t`Endpoint` },
    { name: "status", label: t`Status`, options: STATUSES.map((value) => ({ value, label: words(value) || t`any status` })) },
    { name: "since", label: t`Received`, options: sinceOptions() },
  ], (now) => {
    if (/^evt_[0-9A-Z]{26}$/.test(now.id)) {
      go(at("events", now.id));
      return;
    }
    keep();
    events.reload();
    follow();
  });

  function keep() {
    setQuery({ ...form.read(), live: live ? "1" : "" });
  }

  const filtered = () => Object.values(form.read()).some(Boolean);

  const events = list(rows, {
    label: t`events`,
    key: (e) => e.id,
    columns: [
      { head: t`Received`, cell: (e) => time(e.received_at) },
      { head: t`Type`, cell: (e) => h("a", { class: "clip", href: at("events", e.id), title: e.type }, e.type || t`(no type)`) },
      { head: t`Status`, cell: (e) => [badge(e.status), e.late && [" ", badge("late", "warn")]] },
      ...(isTenant() ? [] : [{ head: t`Workspace`, cell: (e) => h("span", { class: "clip", title: e.workspace }, e.workspace) }]),
      { head: t`Nr.`, number: true, wide: true, cell: (e) => e.sequence ?? "–" },
      { head: t`Source`, wide: true, cell: (e) => h("span", { class: "clip", title: e.source }, e.source) },
      { head: t`Provider's id`, wide: true, cell: (e) => h("span", { class: "clip mono", title: e.provider_id || "" }, e.provider_id || "–") },
      { head: t`Id`, wide: true, cell: (e) => [h("span", { class: "mono" }, `…${e.id.slice(-6)}`), copy(e.id, null, t`the id`)] },
    ],
    read: (cursor) => get("/events", { ...form.read(), limit: 50, cursor }, context.signal),
    none: () => h("div", { class: "card" }, filtered()
      ? empty(t`No event matches`, h("p", { class: "soft" }, t`Loosen a filter. Searches by id find whole ids; * stands for any text in types and names.`),
        h("button", { onclick: () => form.set({}) }, t`Clear the filters`))
      : inPortal() ? empty(t`No event yet`, h("p", { class: "soft" }, t`Events appear here when they are sent to you.`))
      : empty(t`No event yet`, h("p", null, "Send a signed one through a source of yours:"), h("pre", null, "grapnel send SOURCE"),
        h("p", { class: "soft" }, "Requests that ingress refused are not events: ", isTenant() ? "ask who runs Grapnel." : [h("a", { href: "/rejects" }, "they have a page"), ", with the reason."]))),
  });

  // ---- live: whatever happens makes the list read its first page again, at most once a second ----

  let due = false;
  const lamp = h("button", { "aria-pressed": String(live), onclick: () => {
    live = !live;
    lamp.setAttribute("aria-pressed", String(live));
    keep();
    follow();
  } }, t`Live`);

  function follow() {
    ending?.abort();
    ending = null;
    if (!live) {
      replace(lamp, t`Live`);
      return;
    }
    const mine = (ending = new AbortController());
    context.signal.addEventListener("abort", () => mine.abort());
    const now = form.read();
    const query = { kinds: "event,attempt" };
    for (const name of ["workspace", "source"]) if (now[name] && !now[name].includes("*")) query[name] = now[name];
    stream(query, mine.signal, () => {
      due = true;
    }, (on) => {
      replace(lamp, on ? t`● Live` : t`Live, connecting…`);
      due = on;
    });
  }
  context.every(1000, async () => {
    if (!due) return;
    due = false;
    await events.refresh();
  });

  // Made when it is opened, with what the filters say by then.
  const asked = h("div");
  const explained = h("details", { class: "card below", ontoggle: (e) => {
    if (e.target.open && e.target === explained && !asked.childElementCount) replace(asked, wouldGet({ query: form.read(), signal: context.signal }));
  } }, h("summary", null, t`Which endpoints would get an event?`), asked);

  replace(place, h("div", { class: "head" }, h("h1", null, t`Events`), h("span", { class: "grow" }), lamp, curl("/events?limit=50")), form, rows, explained);
  events.reload();
  follow();
}
