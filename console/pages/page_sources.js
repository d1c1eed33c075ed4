// page_sources: all sources and producers: what they send, what is refused, and since when they are silent, if that is unusual.
import { at, get } from "./api.js";
import { spark } from "./chart.js";
import { h, prose, replace } from "./dom.js";
import { filters } from "./form.js";
import { badge, curl, empty, load } from "./states.js";
import { keepFocus, table } from "./table.js";
import { count, words } from "./text.js";
import { since, time } from "./time.js";

export const title = () => "Sources";

const UNUSUAL = 20; // missing events

const EXAMPLE = `sources:
  - name: github
    provider: github
    secrets: ["file:github.secret"]`;

const none = () => h("div", { class: "card" }, empty("No source yet",
  h("p", null, "A source is what one provider sends to Grapnel. Add one to ", h("code", null, "grapnel.yaml"), ", put the provider's secret into the file that it names, and run ", h("code", null, "grapnel reload"), ". Then this page says what to enter at the provider."),
  h("pre", { class: "block" }, EXAMPLE), h("p", { class: "soft" }, prose("`grapnel check --provider github` describes a provider; `docs/PROVIDERS.md` describes all of them."))));

// The reason that most refused requests have.
const refused = (s) => (s.refused ? h("a", { href: `/rejects?source=${encodeURIComponent(s.name)}`, title: s.reasons.map((r) => `${words(r.reason)}: ${r.count}`).join("\n") },
  badge(count(s.refused), "warn"), s.reasons.length > 0 && h("span", { class: "soft small wide" }, ` ${words(s.reasons[0].reason)}${s.reasons.length > 1 ? ", …" : ""}`)) : count(s.refused));

export const lastEvent = (s) => (s.last_event_at ? h("span", { title: `${s.last_event_at.replace("T", " ").replace("Z", "")} UTC` }, `${since(s.last_event_at)} ago`)
  : h("span", { class: "soft", title: "none since ingress started, nor among the newest events before" }, s.accepted === null ? "–" : "none lately"));

export function show(place, context) {
  const rows = h("div");
  let all = null;
  const form = filters(context.query, [{ name: "name", label: "Search by name or provider  ( / )", search: true }], () => all && replace(rows, render()));

  async function readAll() {
    const [sources, series] = await Promise.all([get("/sources", null, context.signal),
      get("/series", { names: "source_accepted:*", from: "1h", step: 60 }, context.signal)]);
    const values = Object.fromEntries(series.series.map((s) => [s.name.slice("source_accepted:".length), s.values]));
    return sources.items.map((s) => ({ ...s, values: values[s.name] ?? [] }));
  }

  function render() {
    if (!all.length) return none();
    const text = form.read().name.toLowerCase();
    const found = all.filter((s) => s.name.toLowerCase().includes(text) || (s.provider ?? "").includes(text));
    if (!found.length) return h("div", { class: "card" }, empty("No source matches", h("button", { onclick: () => form.set({}) }, "Clear the filter")));
    const from = all[0].counted_since;
    return h("div", { class: "stack" }, table(found, { label: "sources", key: (s) => s.name, columns: [
      { head: "Source", cell: (s) => h("a", { class: "clip name", href: at("sources", s.name), title: s.name }, s.name) },
      { head: "Provider", cell: (s) => s.provider ?? h("span", { class: "soft" }, "producer") },
      { head: "Last event", cell: (s) => [lastEvent(s), s.missing > UNUSUAL && [" ", badge("unusually silent", "bad")]] },
      { head: "Last hour", wide: true, cell: (s) => h("span", { class: "spark" }, spark(s.values)) },
      { head: "Requests", number: true, wide: true, cell: (s) => count(s.requests) },
      { head: "Accepted", number: true, wide: true, cell: (s) => count(s.accepted) },
      { head: "Duplicates", number: true, wide: true, cell: (s) => count(s.duplicates) },
      { head: "Refused", cell: refused },
    ] }), h("p", { class: "soft small" }, from ? ["Counted since the start of ingress: ", time(from), "."] : "No ingress publishes its numbers: ", !from && h("a", { href: "/system" }, "look at the processes")));
  }

  replace(place, h("div", { class: "head" }, h("h1", null, "Sources"), h("span", { class: "grow" }), curl("/sources")), form, rows);
  load(rows, async () => {
    all = await readAll();
  }, render, 6);
  context.every(5000, async () => {
    all = await readAll();
    await keepFocus(rows, () => replace(rows, render()));
  });
}
