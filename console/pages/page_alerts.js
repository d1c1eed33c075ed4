// page_alerts: alerts that fire, that may fire soon, and that have ended; silences.
import { act, at, get, may } from "./api.js";
import { ask, open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field } from "./form.js";
import { released } from "./pointer.js";
import { badge, curl, empty, load, toast } from "./states.js";
import { list, table } from "./table.js";
import { time } from "./time.js";

export const title = () => "Alerts";

export function show(place, context) {
  const rows = h("div");
  const silences = h("div");

  function changed() {
    alerts.reload();
    readSilences().catch(() => {});
  }

  const silence = (name) => ask({ title: name ? `Silence ${name}?` : "Silence a rule?", action: "Silence",
    text: "Its notifiers are not notified for this time. If it fires then and still does at the end, they are.",
    fields: [!name && field({ name: "name", label: "Rule", required: true, hint: "its name in alerts of grapnel.yaml, or of a built-in one" }), field({ name: "for", label: "For how long", required: true, value: "2h", hint: "such as 30m, 2h or 3d; at most 90d" }), field({ name: "note", label: "Why, for others", max: 1000 })].filter(Boolean),
    act: async (v) => {
      await act("POST", `${at("alerts", name ?? v.name)}/silence`, { for: v.for, ...(v.note ? { note: v.note } : {}) });
      toast("It is silenced.");
      changed();
    } });

  async function unsilence(name) {
    try {
      await act("POST", `${at("alerts", name)}/unsilence`, {});
      toast("It is no longer silenced.");
      changed();
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
      { head: "State", cell: (a) => [badge(`${a.state} · ${a.severity}`, a.state === "firing" ? (a.severity === "critical" ? "bad" : "warn") : a.state === "resolved" ? "good" : ""),
        a.silenced_until && [" ", badge("silenced")]] },
      { head: "What", cell: (a) => h("span", { class: "wrap" }, a.summary) },
      { head: "Since", cell: (a) => time(a.since) },
      { head: "Until", wide: true, cell: (a) => time(a.ended_at) },
      { head: "Rule", wide: true, cell: (a) => h("span", { class: "clip mono", title: a.name }, a.name) },
      ...(may("alert") ? [{ head: "", cell: (a) => ["firing", "pending"].includes(a.state) && [
        a.silenced_until ? h("button", { class: "small", onclick: () => unsilence(a.name) }, "End the silence") : h("button", { class: "small", onclick: () => silence(a.name) }, "Silence…"), " ",
        h("button", { class: "small", onclick: () => test(a.name) }, "Test")] }] : []),
    ],
    read: () => get("/alerts", { limit: 200 }, context.signal),
    none: () => h("div", { class: "card" }, empty("No alert fires, and none has", h("p", { class: "soft" }, "Rules are in ", h("code", null, "alerts"), " of grapnel.yaml; those for dead letters, delays, disk and endpoints are built in."))),
  });

  // Also of alerts that do not fire now.
  async function readSilences() {
    const { items } = await get("/silences", { limit: 100 }, context.signal);
    await released();
    replace(silences, items.length > 0 && h("section", { class: "card flush below" }, h("h2", null, "Silences"), table(items, { label: "silences", key: (s) => s.name, columns: [
      { head: "Rule", cell: (s) => h("span", { class: "clip mono", title: s.name }, s.name) }, { head: "Until", cell: (s) => time(s.silenced_until) },
      { head: "By", wide: true, cell: (s) => s.by ?? "–" }, { head: "Why", wide: true, cell: (s) => h("span", { class: "wrap" }, s.note ?? "–") },
      ...(may("alert") ? [{ head: "", cell: (s) => h("button", { class: "small", onclick: () => unsilence(s.name) }, "End it") }] : [])] })));
  }

  replace(place, h("div", { class: "head" }, h("h1", null, "Alerts"), h("span", { class: "grow" }), may("alert") && h("button", { onclick: () => silence() }, "Silence a rule…"), curl("/alerts")), rows, silences);
  alerts.reload();
  readSilences().catch(() => {});
  context.every(5000, async () => {
    if (document.querySelector("dialog[open]")) return;
    await alerts.refresh();
    await readSilences();
  });
}
