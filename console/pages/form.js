// form: fields, their values, and the row of filters above a list.
import { h } from "./dom.js";
import { setQuery } from "./router.js";
import { t } from "./texts.js";

let last = 0;

// A label with an input: {name, label, hint, kind, value, required, options, mono}
export function field({ name, label, hint, kind = "text", value = "", required = false, options, mono = false, max, min }) {
  const id = `f${++last}`;
  const common = { id, name, required, class: mono ? "mono" : null, "aria-describedby": hint ? `${id}h` : null };
  const input = options
    ? h("select", common, options.map((o) => h("option", { value: o.value ?? o, selected: (o.value ?? o) === value }, o.label ?? o)))
    : kind === "area"
      ? h("textarea", { ...common, value, maxlength: max })
      : h("input", { ...common, type: kind, value, maxlength: kind === "text" ? max : null, min, autocomplete: "off", spellcheck: "false" });
  return h("div", { class: "field" }, h("label", { for: id, class: "small" }, label), input, hint && h("span", { class: "hint", id: `${id}h` }, hint));
}

export const values = (form) => Object.fromEntries(new FormData(form));

// The filters of a list: {name, label, options or placeholder, search}. They are in the address, so that a view
// can be linked to. `changed` is called with them.
export function filters(query, list, changed) {
  let timer = 0;
  const read = () => Object.fromEntries(list.map((f) => [f.name, form.elements[f.name].value.trim()]));
  const apply = () => {
    clearTimeout(timer);
    const now = read();
    setQuery(now);
    changed(now);
  };
  const form = h("form", { class: "filters", role: "search", onsubmit: (e) => (e.preventDefault(), apply()) },
    list.map((f) => f.options
      ? h("select", { name: f.name, "aria-label": f.label, onchange: apply },
        f.options.map((o) => h("option", { value: o.value, selected: o.value === (query.get(f.name) || "") }, o.label)))
      : h("input", { name: f.name, type: "search", "aria-label": f.label, placeholder: f.label, value: query.get(f.name) || "",
        autocomplete: "off", spellcheck: "false", "data-search": f.search ? "" : null,
        oninput: () => {
          clearTimeout(timer);
          timer = setTimeout(apply, 350);
        } })));
  form.read = read;
  form.set = (now) => {
    for (const f of list) form.elements[f.name].value = now[f.name] || "";
    apply();
  };
  return form;
}

export const sinceOptions = () => [
  { value: "", label: t`any time` }, { value: "5m", label: t`last 5 minutes` }, { value: "1h", label: t`last hour` },
  { value: "24h", label: t`last 24 hours` }, { value: "7d", label: t`last 7 days` },
];
