// page_audit: what was changed, on all processes, and by whom.
import { get } from "./api.js";
import { open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { filters, sinceOptions } from "./form.js";
import { badge, curl, empty, load, tag } from "./states.js";
import { list } from "./table.js";
import { count, words } from "./text.js";
import { time } from "./time.js";

export const title = () => "Audit";

const verify = (signal) => open("Verify the audit", (close) => {
  const result = h("div");
  load(result, () => get("/audit/verify", null, signal), (r) => h("div", { class: "stack" },
    h("p", { class: `note ${r.ok ? "good" : "bad"}` }, r.ok ? "The chains of all processes are whole." : "Something is wrong."),
    h("ul", { class: "troubles" }, r.processes.map((p) => h("li", null, badge(p.ok ? "whole" : "wrong", p.ok ? "good" : "bad"), h("span", { class: "grow" }, p.process, p.error && `: ${p.error}`,
      p.findings?.length > 0 && `: ${p.findings.map((f) => `rows ${f.from} to ${f.to} ${words(f.what)}`).join(", ")}`), p.rows !== undefined && h("span", { class: "soft" }, `${count(p.rows)} rows`))))), 3);
  return h("div", { class: "stack" }, result, h("div", { class: "buttons" }, h("button", { class: "main", onclick: () => close() }, "Close")));
});

export function show(place, context) {
  const rows = h("div");
  const form = filters(context.query, [{ name: "since", label: "Since", options: sinceOptions() }], () => audit.reload());
  const audit = list(rows, {
    label: "changes", key: (a) => `${a.process} ${a.n}`,
    columns: [
      { head: "Time", cell: (a) => time(a.at) },
      { head: "By", cell: (a) => h("span", { class: "clip", title: a.actor }, a.actor) },
      { head: "Command", cell: (a) => words(a.command) },
      { head: "Outcome", cell: (a) => h("span", { class: "clip", title: a.outcome }, tag(a.outcome, /^done/.test(a.outcome) ? "good" : /^(started|cancelled)/.test(a.outcome) ? "" : "bad")) },
      { head: "What", wide: true, cell: (a) => h("span", { class: "clip broad mono", title: JSON.stringify(a.args) }, JSON.stringify(a.args)) },
      { head: "Process", wide: true, cell: (a) => a.process },
    ],
    read: (cursor) => get("/audit", { ...form.read(), limit: 50, cursor }, context.signal),
    none: () => h("div", { class: "card" }, empty("No change", h("p", { class: "soft" }, "Each change with a token or with ", h("code", null, "grapnel"), " leaves a row here."))),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Audit"), h("span", { class: "grow" }), h("button", { onclick: () => verify(context.signal) }, "Verify"), curl("/audit")), form, rows);
  audit.reload();
}
