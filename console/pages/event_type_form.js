// event_type_form: adds a type to the catalogue, changes it and removes it.
import { act, at } from "./api.js";
import { ask } from "./dialog.js";
import { field } from "./form.js";

const text = (value) => (value === null || value === undefined ? "" : JSON.stringify(value, null, 2));

const fields = (type) => [
  field({ name: "description", label: "What it means", kind: "area", value: type.description ?? "", max: 1024 }),
  field({ name: "schema", label: "JSON Schema of data", kind: "area", mono: true, value: text(type.schema), hint: "empty: any data passes" }),
  field({ name: "example", label: "Example of data", kind: "area", mono: true, value: text(type.example), hint: "empty: none; it has to fit the schema" }),
];

function json(name, value) {
  if (!value.trim()) return null;
  try {
    return JSON.parse(value);
  } catch (e) {
    throw Object.assign(new Error(`${name === "schema" ? "The schema" : "The example"} is not JSON: ${e.message}`), { field: name });
  }
}

const read = (v) => ({ description: v.description.trim() || null, schema: json("schema", v.schema), example: json("example", v.example) });

export const create = () => ask({ title: "New event type", action: "Add it", text: "Each ingress knows it about a second later.",
  fields: [field({ name: "name", label: "Type", required: true, max: 255, hint: "such as invoice.paid" }), ...fields({})],
  act: (v) => act("POST", "/event-types", { name: v.name, ...Object.fromEntries(Object.entries(read(v)).filter(([, value]) => value !== null)) }) });

export const change = (type) => ask({ title: `Change ${type.name}`, action: "Change", text: "Events that were accepted stay accepted.", fields: fields(type),
  act: (v) => {
    const body = Object.fromEntries(Object.entries(read(v)).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(type[key] ?? null)));
    if (!Object.keys(body).length) throw new Error("Nothing was changed.");
    return act("PATCH", at("event-types", type.name), body, { match: `"${type.version}"` });
  } });

export const remove = (type) => ask({ title: `Remove ${type.name} from the catalogue?`, action: "Remove", danger: true,
  text: "Its events are then those of an unknown type: producers with unknown_types: refuse get 422, others send them unchecked.",
  act: () => act("DELETE", at("event-types", type.name), undefined, { match: `"${type.version}"` }) });
