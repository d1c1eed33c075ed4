// page_dead_letter: one dead letter: why it is dead, what was sent, and the decision about it.
import { act, at, get, may } from "./api.js";
import { ask } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field } from "./form.js";
import { payload } from "./payload.js";
import { badge, copy, curl, load, toast } from "./states.js";
import { words } from "./text.js";
import { t } from "./texts.js";
import { time } from "./time.js";

export const title = ({ id }) => t`Dead letter ${id}`;

const WHY = {
  rejected: () => t`The endpoint refused it with a status that is not retried.`,
  budget_attempts: () => t`All attempts of its retry policy failed.`,
  budget_time: () => t`The time of its retry policy has passed.`,
  expired: () => t`It was no longer of use at that time.`,
  endpoint_gone: () => t`The endpoint responded 410: it wants no more events.`,
  endpoint_removed: () => t`The endpoint was removed.`,
  blocked_address: () => t`The endpoint's address is blocked, as it is private.`,
  crashed_deliverer: () => t`A deliverer crashed while it sent this event.`,
  abandoned: () => t`An operator abandoned it.`,
  damaged: () => t`Its bytes on disk are damaged.`,
};

const bytesOf = (d) => (d.body !== undefined ? new TextEncoder().encode(d.body)
  : d.body_b64 !== undefined ? Uint8Array.from(atob(d.body_b64), (c) => c.charCodeAt(0)) : null);

export function show(place, context) {
  const { id } = context.params;
  const path = at("dead-letters", id);
  const main = h("div");

  const decide = (what, text, action, fields, said, danger) => ask({ title: text[0], text: text[1], action, fields, danger, act: async (v) => {
    await act("POST", `${path}/${what}`, Object.fromEntries(Object.entries(v).filter(([, x]) => x)));
    toast(said);
    read();
  } });
  const note = (label) => [field({ name: "note", label, required: true, kind: "area", max: 4000 })];

  function render(d) {
    const data = bytesOf(d);
    const open = d.state === "dead" && may("dead-letter");
    return h("div", { class: "stack" },
      h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/dead-letters" }, t`Dead letters`)), h("h1", null, `${d.type || t`Event`}: ${words(d.reason)}`)), badge(d.state),
        open && [h("button", { class: "main", onclick: () => decide("retry", [t`Retry this dead letter?`, t`It is delivered again, with a new retry budget.`], t`Retry`,
          [field({ name: "to", label: t`To another endpoint instead`, hint: t`empty: to the same` })], t`It is tried again.`) }, t`Retry…`),
        h("button", { onclick: () => decide("resolve", [t`Resolve this dead letter?`, t`It was handled in another way. A lane that it halts continues.`], t`Resolve`, note(t`What was done`), t`It is resolved.`) }, t`Resolve…`),
        h("button", { class: "danger", onclick: () => decide("discard", [t`Discard this dead letter?`, t`It is not needed. A lane that it halts continues.`], t`Discard`, note(t`Why it is not needed`), t`It is discarded.`, true) }, t`Discard…`)],
        curl(path)),
      h("div", { class: "columns" }, h("section", { class: "card" }, h("h2", null, t`Why`), h("p", null, WHY[d.reason]?.() || (d.reason.startsWith("refused:") ? t`It was refused before routing, so no endpoint has it.` : words(d.reason))),
        h("dl", { class: "facts" }, [[t`Endpoint`, d.endpoint ? h("a", { href: at("endpoints", d.endpoint) }, d.endpoint) : "–"], [t`Dead since`, time(d.dead_at)], [t`First attempt`, time(d.first_at)], [t`Attempts`, d.attempts],
          d.last_http_status && [t`Last status`, badge(d.last_http_status, "bad")], d.last_error && [t`Last error`, d.last_error], d.note && [t`Note`, d.note]].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)])),
        d.last_response && [h("h3", null, t`The last response`), h("pre", { class: "block", tabindex: "0" }, d.last_response)]),
      h("section", { class: "card" }, h("h2", null, t`The event`), h("dl", { class: "facts" }, [[t`Event`, [h("a", { class: "mono", href: at("events", d.event_id) }, d.event_id), copy(d.event_id, null, t`the id of the event`)]], [t`Dead letter`, [h("span", { class: "mono" }, d.id), copy(d.id, null, t`the id of the dead letter`)]],
        [t`Type`, d.type], [t`Workspace`, [d.workspace, d.sequence && t`, number ${d.sequence}`]], [t`Source`, d.source], [t`Received`, time(d.received_at)], d.provider_id && [t`Provider's id`, h("span", { class: "mono" }, d.provider_id)]].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)])))),
      h("section", { class: "card" }, h("h2", null, t`Payload`), data ? payload({ bytes: data, type: "" }, `/api/v1${at("events", d.event_id)}/payload`) : h("p", { class: "soft" }, t`It is no longer stored.`),
        d.headers && h("details", null, h("summary", null, t`Headers of the request`), h("pre", { class: "block", tabindex: "0" }, d.headers.map(([n, v]) => `${n}: ${v}`).join("\n")))),
      h("section", { class: "card flush" }, h("h2", null, t`History`), h("div", { class: "table", tabindex: "0", role: "region", "aria-label": t`history` }, h("table", null, h("thead", null, h("tr", null, [t`Time`, t`From`, t`To`, t`What`].map((n) => h("th", { scope: "col" }, n)))),
        h("tbody", null, d.history.map((c) => h("tr", null, h("td", null, time(c.at, { exact: true })), h("td", null, c.from ? badge(c.from) : "–"), h("td", null, badge(c.to)), h("td", null, c.what))))))));
  }

  const read = () => load(main, () => get(path, null, context.signal), render, 8);
  replace(place, main);
  read();
}
