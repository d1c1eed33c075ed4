// page_event_types: the catalogue of event types, by name.
import { at, get, may } from "./api.js";
import { h, replace } from "./dom.js";
import { create } from "./event_type_form.js";
import { go } from "./router.js";
import { badge, curl, empty } from "./states.js";
import { list } from "./table.js";
import { time } from "./time.js";

export const title = () => "Event types";

export function show(place, context) {
  const rows = h("div");
  const make = async () => {
    const made = await create();
    if (made) go(at("event-types", made.name));
  };
  const button = () => may("types") && h("button", { class: "main", onclick: make }, "New event type");

  const types = list(rows, {
    label: "event types", key: (e) => e.name,
    columns: [
      { head: "Type", cell: (e) => h("a", { class: "clip broad", href: at("event-types", e.name), title: e.name }, e.name) },
      { head: "Schema", cell: (e) => (e.has_schema ? badge("has a schema", "good") : h("span", { class: "soft" }, "none")) },
      { head: "Changed", cell: (e) => time(e.changed_at) },
      { head: "Description", wide: true, cell: (e) => h("span", { class: "clip broad", title: e.description || "" }, e.description || "–") },
    ],
    read: (cursor) => get("/event-types", { limit: 100, cursor }, context.signal),
    none: () => h("div", { class: "card" }, empty("No event type in the catalogue", h("p", null, "The catalogue says what your own events mean. With a JSON Schema, ingress checks each event of a producer that has ",
      h("code", null, "check_schema: true"), "."), h("p", { class: "soft" }, "Events of other types pass, unless the producer has ", h("code", null, "unknown_types: refuse"), "."), button())),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Event types"), h("span", { class: "grow" }), curl("/event-types"), button()), rows);
  types.reload();
}
