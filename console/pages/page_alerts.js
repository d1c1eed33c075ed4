// page_alerts: alerts that fire, that may fire soon, and that have ended; silences.
import { act, at, get, may } from "./api.js";
import { ask, open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field } from "./form.js";
import { badge, curl, empty, load, toast } from "./states.js";
import { list } from "./table.js";
import { time } from "./time.js";

export const title = () => "Alerts";

export function show(place, context) {
  const rows = h("div");

  const silence = (name) => ask({ title: `Silence ${name}?`, action: "Silence",
    text: "Its notifiers are not notified for this time. If it fires then and still does at the end, they are.",
    fields: [field({ name: "for", label: "For how long", required: true, value: "2h", hint: "such as 30m, 2h or 3d; at most 90d" }), field({ name: "note", label: "Why, for others", max: 1000 })],
    act: async (v) => {
      await act("POST", `${at("alerts", name)}/silence`, v.note ? v : { for: v.for });
      toast("It is silenced.");
      alerts.reload();
    } });

  async function unsilence(name) {
    try {
      await act("POST", `${at("alerts", name)}/unsilence`, {});
      toast("It is no longer silenced.");
      alerts.reload();
    } catch (e) {
      toast(e.message);
    }
  }

  const test = (name) => open(`A test of ${name}`, (close) => {
    const result = h("div");
    load(result, () => act("POST", `${at("alerts", name)}/test`, {}), (r) => h("ul", { class: "troubles" }, r.results.map((n) =>
      h("li", null, badge(n.ok ? "notified" : "failed", n.ok ? "good" : "bad"), h("span", null, n.notifier, n.why && `: ${n.why}`))), !r.results.length && h("li", null, "It has no notifiers.")), 2);
    return h("div", { class: "stack" }, result, h("div", { class: "buttons" }, h("button", { class: "main", onclick: () => close() }, "Close")));
  });

  const alerts = list(rows, {
    label: "alerts", key: (a) => `${a.name} ${a.subject} ${a.since} ${a.state}`,
    columns: [
      { head: "State", cell: (a) => badge(`${a.state} · ${a.severity}`, a.state === "firing" ? (a.severity === "critical" ? "bad" : "warn") : a.state === "resolved" ? "good" : "") },
      { head: "What", cell: (a) => h("span", { class: "wrap" }, a.summary) },
      { head: "Since", cell: (a) => time(a.since) },
      ...(may("alert") ? [{ head: "", cell: (a) => ["firing", "pending"].includes(a.state) && [
        a.silenced_until ? h("button", { class: "small", onclick: () => unsilence(a.name) }, "End the silence") : h("button", { class: "small", onclick: () => silence(a.name) }, "Silence…"), " ",
        h("button", { class: "small", onclick: () => test(a.name) }, "Test")] }] : []),
      { head: "Until", wide: true, cell: (a) => time(a.ended_at) },
      { head: "Rule", wide: true, cell: (a) => h("span", { class: "clip mono", title: a.name }, a.name) },
      { head: "Silenced until", wide: true, cell: (a) => time(a.silenced_until) },
    ],
    read: () => get("/alerts", { limit: 200 }, context.signal),
    none: () => h("div", { class: "card" }, empty("No alert fires, and none has", h("p", { class: "soft" }, "Rules are in ", h("code", null, "alerts"), " of grapnel.yaml; those for dead letters, delays, disk and endpoints are built in."))),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Alerts"), h("span", { class: "grow" }), curl("/alerts")), rows);
  alerts.reload();
  context.every(5000, () => !document.querySelector("dialog[open]") && alerts.refresh());
}
