// page_event_type: one type of the catalogue: what it means, its schema and its example.
import { at, get, may } from "./api.js";
import { h, replace } from "./dom.js";
import { change, remove } from "./event_type_form.js";
import { go } from "./router.js";
import { copy, curl, load, toast } from "./states.js";
import { pretty, quoted } from "./text.js";
import { time } from "./time.js";

export const title = ({ name }) => `Event type ${name}`;

const document_ = (name, value, none) => h("section", { class: "card" }, h("h2", { class: "row" }, h("span", { class: "grow" }, name),
  value !== null && copy(JSON.stringify(value, null, 2), "copy", `the ${name.toLowerCase()}`)),
value === null ? h("p", { class: "soft" }, none)
  : h("pre", { class: "block", tabindex: "0" }, pretty(JSON.stringify(value)).map((p) => (p.kind ? h("span", { class: p.kind }, p.text) : p.text))));

export function show(place, context) {
  const { name } = context.params;
  const path = at("event-types", name);
  const main = h("div");

  const acts = (e) => may("types") && [
    h("button", { onclick: async () => (await change(e)) && (toast("It is changed."), read()) }, "Change…"),
    h("button", { class: "danger", onclick: async () => (await remove(e)) && (toast("It is removed."), go("/event-types")) }, "Remove…")];

  const render = (e) => h("div", { class: "stack" },
    h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/event-types" }, "Event types")), h("h1", null, e.name)), acts(e), curl(path)),
    h("section", { class: "card" }, e.description && h("p", null, e.description), h("dl", { class: "facts" },
      [["Type", [h("span", { class: "mono" }, e.name), copy(e.name, null, "the type")]], ["Changed", [time(e.changed_at), ` by ${e.changed_by}`]], ["Made", time(e.created_at)],
        ["Its events", h("a", { href: `/events?type=${encodeURIComponent(e.name)}` }, "Search for them")],
        ["On the command line", [h("code", null, `grapnel types show ${quoted(e.name)}`)]]].map(([n, v]) => [h("dt", null, n), h("dd", null, v)]))),
    h("div", { class: "columns" }, document_("Schema", e.schema, "It has no schema: any data passes."), document_("Example", e.example, "It has no example.")));

  const read = () => load(main, () => get(path, null, context.signal), render, 6);
  replace(place, main);
  read();
}
