// page_rejects: requests that ingress refused, with the reason; and one of them with its bytes.
import { at, get, may } from "./api.js";
import { h, replace } from "./dom.js";
import { filters, sinceOptions } from "./form.js";
import { payload } from "./payload.js";
import { badge, copy, curl, empty, load } from "./states.js";
import { list } from "./table.js";
import { bytes, words } from "./text.js";
import { time } from "./time.js";

export const title = ({ id }) => (id ? `Refused request ${id}` : "Refused requests");

const SHOWN = 200;

// The usual mistake behind the refusal, as `grapnel rejects explain` says it.
const explained = (e) => h("div", { class: "stack" },
  e.findings.map((f) => h("div", null, h("p", null, badge(words(f.mistake), f.certain ? "bad" : "warn"), !f.certain && " perhaps: ", " ", f.text), h("p", { class: "soft" }, f.fix))),
  e.findings.length === 0 && !e.note && h("p", null, `No usual mistake explains it: ${e.tried} signatures were compared. Either the secret is one that Grapnel does not have, or somebody else sent the request.`),
  e.note && h("p", { class: "soft" }, e.note),
  !e.complete && h("p", { class: "soft" }, "The body is large, so not all mistakes were tried."));

function why(id, context) {
  const place = h("div");
  load(place, () => get(at("rejects", id, "explanation"), null, context.signal), explained, 2);
  return h("section", { class: "card" }, h("h2", null, h("span", { class: "grow" }, "Why"), curl(at("rejects", id, "explanation"))), place);
}

function one(place, context) {
  const { id } = context.params;
  const main = h("div");
  replace(place, main);
  load(main, () => get(at("rejects", id), null, context.signal), (r) => h("div", { class: "stack" },
    h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/rejects" }, "Refused requests")), h("h1", null, words(r.reason))), badge(r.status, "bad"), curl(at("rejects", id))),
    h("section", { class: "card" }, h("dl", { class: "facts" }, [
      ["Id", [h("span", { class: "mono" }, r.id), copy(r.id, null, "the id")]], ["Refused", time(r.at, { exact: true })], ["Reason", words(r.reason)],
      ["Source", r.source ? h("a", { href: at("sources", r.source) }, r.source) : "the path names no configured source"], ["Request", h("span", { class: "mono" }, `${r.method} ${r.path}`)], ["From", r.remote],
      r.delivery_id && ["Provider's delivery", h("span", { class: "mono" }, r.delivery_id)], ["Body", bytes(r.body_bytes)], ["Process", r.process],
    ].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)]))),
    may("explain") && why(r.id, context),
    h("section", { class: "card" }, h("h2", null, "Headers, without secrets"), h("pre", { class: "block", tabindex: "0" }, r.headers.map(([n, v]) => `${n}: ${v}`).join("\n"))),
    h("section", { class: "card" }, h("h2", null, "Body"), r.body_b64 !== undefined
      ? payload({ bytes: Uint8Array.from(atob(r.body_b64), (c) => c.charCodeAt(0)), type: "" }, null)
      : h("p", { class: "soft" }, "It is not kept: bodies are kept for a day, up to 64 MiB in all."))), 8);
}

export function show(place, context) {
  if (context.params.id) {
    one(place, context);
    return;
  }
  const rows = h("div");
  const form = filters(context.query, [{ name: "source", label: "Source  ( / )", search: true }, { name: "id", label: "Provider's delivery id" },
    { name: "since", label: "Since", options: sinceOptions() }], () => rejects.reload());
  const rejects = list(rows, {
    label: "refused requests", key: (r) => r.id ?? r.at + r.process,
    columns: [
      { head: "Refused", cell: (r) => time(r.at) },
      { head: "Reason", cell: (r) => (r.id ? h("a", { href: at("rejects", r.id) }, words(r.reason)) : words(r.reason)) },
      { head: "Status", cell: (r) => badge(r.status, r.status < 500 ? "warn" : "bad") },
      { head: "Source", cell: (r) => (r.source ? h("a", { class: "clip", href: at("sources", r.source), title: r.source }, r.source) : "unknown") },
      { head: "From", wide: true, cell: (r) => r.remote },
      { head: "Request", wide: true, cell: (r) => h("span", { class: "clip mono", title: r.path }, `${r.method} ${r.path}`) },
      { head: "Body", number: true, wide: true, cell: (r) => bytes(r.body_bytes) },
    ],
    read: () => get("/rejects", { ...form.read(), limit: SHOWN }, context.signal),
    none: () => h("div", { class: "card" }, Object.values(form.read()).some(Boolean)
      ? empty("No refused request matches", h("button", { onclick: () => form.set({}) }, "Clear the filters"))
      : empty("No request was refused", h("p", { class: "soft" }, "Requests with a wrong signature, an unknown source or a body that is too large appear here, with the reason and the bytes."))),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Refused requests"), h("span", { class: "grow" }), curl("/rejects")), form, rows,
    h("p", { class: "soft small below" }, `The newest ${SHOWN} that match. Of each source, the last thousand are kept.`));
  rejects.reload();
  context.every(5000, () => rejects.refresh());
}
