// page_events: a search of events, and a list that follows them live.
import { at, get, isTenant, stream } from "./api.js";
import { h, replace } from "./dom.js";
import { filters, SINCE } from "./form.js";
import { go, setQuery } from "./router.js";
import { badge, copy, curl, empty } from "./states.js";
import { wouldGet } from "./routing.js";
import { list } from "./table.js";
import { words } from "./text.js";
import { time } from "./time.js";

export const title = () => "Events";
export const tenant = true;

const STATUSES = ["", "routed", "done", "buffered", "duplicate", "ignored", "refused", "expired"];

export function show(place, context) {
  const rows = h("div");
  let live = context.query.get("live") === "1";
  let ending = null; // of the stream

  const form = filters(context.query, [
    { name: "id", label: "Search by id  ( / )", search: true },
    { name: "type", label: "Type" },
    ...(isTenant() ? [] : [{ name: "workspace", label: "Workspace" }]),
    { name: "source", label: "Source" },
    { name: "endpoint", label: "Endpoint" },
    { name: "status", label: "Status", options: STATUSES.map((value) => ({ value, label: words(value) || "any status" })) },
    { name: "since", label: "Received", options: SINCE },
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
    label: "events",
    key: (e) => e.id,
    columns: [
      { head: "Received", cell: (e) => time(e.received_at) },
      { head: "Type", cell: (e) => h("a", { class: "clip", href: at("events", e.id), title: e.type }, e.type || "(no type)") },
      { head: "Status", cell: (e) => [badge(e.status), e.late && [" ", badge("late", "warn")]] },
      { head: "Workspace", wide: isTenant(), cell: (e) => h("span", { class: "clip", title: e.workspace }, e.workspace) },
      { head: "Nr.", number: true, wide: true, cell: (e) => e.sequence ?? "–" },
      { head: "Source", wide: true, cell: (e) => h("span", { class: "clip", title: e.source }, e.source) },
      { head: "Provider's id", wide: true, cell: (e) => h("span", { class: "clip mono", title: e.provider_id || "" }, e.provider_id || "–") },
      { head: "Id", wide: true, cell: (e) => [h("span", { class: "mono" }, `…${e.id.slice(-6)}`), copy(e.id, null, "the id")] },
    ],
    read: (cursor) => get("/events", { ...form.read(), limit: 50, cursor }, context.signal),
    none: () => h("div", { class: "card" }, filtered()
      ? empty("No event matches", h("p", { class: "soft" }, "Loosen a filter. Searches by id find whole ids; * stands for any text in types and names."),
        h("button", { onclick: () => form.set({}) }, "Clear the filters"))
      : empty("No event yet", h("p", null, "Send a signed one through a source of yours:"), h("pre", null, "grapnel send SOURCE"),
        h("p", { class: "soft" }, "Requests that ingress refused are not events: ", isTenant() ? "ask who runs Grapnel." : [h("a", { href: "/rejects" }, "they have a page"), ", with the reason."]))),
  });

  // ---- live: whatever happens makes the list read its first page again, at most once a second ----

  let due = false;
  const lamp = h("button", { "aria-pressed": String(live), onclick: () => {
    live = !live;
    lamp.setAttribute("aria-pressed", String(live));
    keep();
    follow();
  } }, "Live");

  function follow() {
    ending?.abort();
    ending = null;
    if (!live) {
      replace(lamp, "Live");
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
      replace(lamp, on ? "● Live" : "Live, connecting…");
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
  } }, h("summary", null, "Which endpoints would get an event?"), asked);

  replace(place, h("div", { class: "head" }, h("h1", null, "Events"), h("span", { class: "grow" }), lamp, curl("/events?limit=50")), form, rows, explained);
  events.reload();
  follow();
}
