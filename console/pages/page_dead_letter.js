// page_dead_letter: one dead letter: why it is dead, what was sent, and the decision about it.
import { act, at, get, may } from "./api.js";
import { ask } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field } from "./form.js";
import { payload } from "./payload.js";
import { badge, copy, curl, load, toast } from "./states.js";
import { words } from "./text.js";
import { time } from "./time.js";

export const title = ({ id }) => `Dead letter ${id}`;
export const tenant = true;

const WHY = {
  rejected: "The endpoint refused it with a status that is not retried.",
  budget_attempts: "All attempts of its retry policy failed.",
  budget_time: "The time of its retry policy has passed.",
  expired: "It was no longer of use at that time.",
  endpoint_gone: "The endpoint responded 410: it wants no more events.",
  endpoint_removed: "The endpoint was removed.",
  blocked_address: "The endpoint's address is blocked, as it is private.",
  crashed_deliverer: "A deliverer crashed while it sent this event.",
  abandoned: "An operator abandoned it.",
  damaged: "Its bytes on disk are damaged.",
};

const bytesOf = (d) => (d.body !== undefined ? new TextEncoder().encode(d.body)
  : d.body_b64 !== undefined ? Uint8Array.from(atob(d.body_b64), (c) => c.charCodeAt(0)) : null);

export function show(place, context) {
  const { id } = context.params;
  const path = at("dead-letters", id);
  const main = h("div");

  const decide = (what, text, action, fields, said, danger) => ask({ title: text[0], text: text[1], action, fields, danger, act: async (v) => {
    const reply = await act("POST", `${path}/${what}`, Object.fromEntries(Object.entries(v).filter(([, x]) => x)));
    if (reply.refused?.length) throw new Error(reply.refused[0].why);
    toast(said);
    read();
  } });
  const note = (label) => [field({ name: "note", label, required: true, kind: "area", max: 4000 })];

  function render(d) {
    const data = bytesOf(d);
    const open = d.state === "dead" && may("dead-letter");
    return h("div", { class: "stack" },
      h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/dead-letters" }, "Dead letters")), h("h1", null, `${d.type || "Event"}: ${words(d.reason)}`)), badge(d.state),
        open && [h("button", { class: "main", onclick: () => decide("retry", ["Retry this dead letter?", "It is delivered again, with a new retry budget."], "Retry",
          [field({ name: "to", label: "To another endpoint instead", hint: "empty: to the same" })], "It is tried again.") }, "Retry…"),
        h("button", { onclick: () => decide("resolve", ["Resolve this dead letter?", "It was handled in another way. A lane that it halts continues."], "Resolve", note("What was done"), "It is resolved.") }, "Resolve…"),
        h("button", { class: "danger", onclick: () => decide("discard", ["Discard this dead letter?", "It is not needed. A lane that it halts continues."], "Discard", note("Why it is not needed"), "It is discarded.", true) }, "Discard…")],
        curl(path)),
      h("div", { class: "columns" }, h("section", { class: "card" }, h("h2", null, "Why"), h("p", null, WHY[d.reason] || (d.reason.startsWith("refused:") ? "It was refused before routing, so no endpoint has it." : words(d.reason))),
        h("dl", { class: "facts" }, [["Endpoint", d.endpoint ? h("a", { href: at("endpoints", d.endpoint) }, d.endpoint) : "–"], ["Dead since", time(d.dead_at)], ["First attempt", time(d.first_at)], ["Attempts", d.attempts],
          d.last_http_status && ["Last status", badge(d.last_http_status, "bad")], d.last_error && ["Last error", d.last_error], d.note && ["Note", d.note]].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)])),
        d.last_response && [h("h3", null, "The last response"), h("pre", { class: "block", tabindex: "0" }, d.last_response)]),
      h("section", { class: "card" }, h("h2", null, "The event"), h("dl", { class: "facts" }, [["Event", [h("a", { class: "mono", href: at("events", d.event_id) }, d.event_id), copy(d.event_id, null, "the id of the event")]], ["Dead letter", [h("span", { class: "mono" }, d.id), copy(d.id, null, "the id of the dead letter")]],
        ["Type", d.type], ["Workspace", [d.workspace, d.sequence && `, number ${d.sequence}`]], ["Source", d.source], ["Received", time(d.received_at)], d.provider_id && ["Provider's id", h("span", { class: "mono" }, d.provider_id)]].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)])))),
      h("section", { class: "card" }, h("h2", null, "Payload"), data ? payload({ bytes: data, type: "" }, `/api/v1${at("events", d.event_id)}/payload`) : h("p", { class: "soft" }, "It is no longer stored."),
        d.headers && h("details", null, h("summary", null, "Headers of the request"), h("pre", { class: "block", tabindex: "0" }, d.headers.map(([n, v]) => `${n}: ${v}`).join("\n")))),
      h("section", { class: "card flush" }, h("h2", null, "History"), h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "history" }, h("table", null, h("thead", null, h("tr", null, ["Time", "From", "To", "What"].map((n) => h("th", { scope: "col" }, n)))),
        h("tbody", null, d.history.map((c) => h("tr", null, h("td", null, time(c.at, { exact: true })), h("td", null, c.from ? badge(c.from) : "–"), h("td", null, badge(c.to)), h("td", null, c.what))))))));
  }

  const read = () => load(main, () => get(path, null, context.signal), render, 8);
  replace(place, main);
  read();
}
