// routing: which endpoints would get an event and why; and for a stored event, what became of it at each endpoint, or why
// it was never routed there.
import { at, get, isTenant } from "./api.js";
import { h, replace } from "./dom.js";
import { field, values } from "./form.js";
import { badge, copy, empty, failed } from "./states.js";
import { list } from "./table.js";
import { plural, words } from "./text.js";
import { time } from "./time.js";

const ANSWERS = { true: ["yes", "good"], false: ["no", ""], null: ["depends", "warn"] };

const mark = (met) => badge(met === null ? "not known" : met ? "met" : "not met", met === null ? "warn" : met ? "good" : "bad");

const named = (e, what) => [h("a", { class: "clip", href: at("endpoints", e.endpoint), title: e.endpoint }, e.endpoint), h("div", null, what)];

// The rules of one endpoint's subscription, behind a summary.
function rules(all) {
  if (!all.length) return null;
  return h("details", null, h("summary", null, `${plural(all.length, "rule")}`), h("ul", { class: "rules" }, all.map((r) =>
    h("li", null, mark(r.met), " ", r.route ? `route ${r.route}: ` : "", h("b", null, r.rule), r.value !== null && [" ", h("span", { class: "mono" }, r.value || "(empty)")],
      r.pattern !== null ? [" matches ", h("span", { class: "mono" }, r.pattern)] : r.rule === "where" ? " (conditions on headers and body)"
        : r.patterns.length ? [" of ", r.patterns.map((p, i) => [i > 0 && ", ", h("span", { class: "mono" }, p)]), r.patterns_more > 0 && ` and ${r.patterns_more} more`] : ": any"))));
}

// A form that asks for an event that might come. `endpoint`: only that one; else all, by name.
export function wouldGet({ endpoint, query = {}, signal }) {
  const place = h("div", { "aria-live": "polite" });

  const answer = (e) => {
    const [word, look] = ANSWERS[String(e.subscribed)];
    return h("div", { class: "stack" }, h("p", null, badge(word, look), " ", e.why), e.then && h("p", { class: "soft" }, `Then: ${e.then}.`),
      e.halted_lanes > 0 && h("p", { class: "note warn" }, `${plural(e.halted_lanes, "lane")} of it ${e.halted_lanes === 1 ? "is" : "are"} halted by a dead letter.`), rules(e.rules));
  };

  async function ask(v) {
    const q = Object.fromEntries(Object.entries(v).filter(([, text]) => text));
    const note = (e) => e?.note && h("p", { class: "note warn" }, `Such an event cannot come: ${e.note}.`);
    if (endpoint) {
      try {
        const reply = await get("/routing", { ...q, endpoint }, signal);
        const [one] = reply.items;
        replace(place, h("div", { class: "stack" }, note(one), one ? answer(one) : h("p", { class: "soft" }, "It is no longer configured.")));
      } catch (e) {
        if (e.name !== "AbortError") replace(place, failed(e));
      }
      return;
    }
    const rows = h("div");
    const notes = h("div");
    replace(place, h("div", { class: "stack" }, notes, rows));
    await list(rows, {
      label: "endpoints that would get it", key: (e) => e.endpoint,
      columns: [
        { head: "Endpoint", cell: (e) => named(e, badge(...ANSWERS[String(e.subscribed)])) },
        { head: "Because", cell: (e) => h("div", { class: "said" }, e.why, e.then && h("div", { class: "soft small" }, `Then: ${e.then}.`)) },
      ],
      read: async (cursor) => {
        const page = await get("/routing", { ...q, limit: 25, cursor }, signal);
        replace(notes, note(page.items[0]));
        return page;
      },
      none: () => empty("No endpoint has this name", h("p", { class: "soft" }, "* stands for any text.")),
    }).reload();
  }

  const form = h("form", { class: "filters", onsubmit: (e) => {
    e.preventDefault();
    ask(values(form));
  } }, field({ name: "source", label: "Source", value: query.source || "", required: true }), field({ name: "type", label: "Type", value: query.type || "", required: true }),
  !isTenant() && field({ name: "workspace", label: "Workspace", value: query.workspace || "" }), !endpoint && field({ name: "endpoint", label: "Endpoint", value: "" }),
  h("div", { class: "field end" }, h("button", { class: "main" }, "Explain")));
  return h("div", { class: "stack" }, h("p", { class: "soft" }, "Describe an event that might come: each endpoint is judged by its present settings."), form, place);
}

function because(e) {
  return h("div", { class: "said" }, e.why, e.until && [" ", time(e.until)], ".",
    e.changed_since && [" ", badge("settings changed since", "")],
    (e.event_id || e.dead_letter_id) && h("div", { class: "small" }, e.event_id && h("a", { class: "mono", href: at("events", e.event_id) }, e.event_id), " ",
      e.dead_letter_id && !(isTenant() && e.cause === "refused") && h("a", { href: at("dead-letters", e.dead_letter_id) }, "the dead letter")),
    rules(e.rules));
}

// What became of a stored event at each endpoint. {element, refresh()}
export function whatBecame(path, signal) {
  const rows = h("div");
  let pattern = "";
  const table = list(rows, {
    label: "endpoints", key: (e) => e.endpoint,
    columns: [
      { head: "Endpoint", cell: (e) => named(e, badge(words(e.status), e.status === "not_routed" ? "" : undefined)) },
      { head: "Because", cell: because },
    ],
    read: (cursor) => get(`${path}/routing`, { endpoint: pattern, limit: 10, cursor }, signal),
    none: () => empty("No endpoint has this name", h("p", { class: "soft" }, "* stands for any text. Removed endpoints are listed if they have a delivery.")),
  });
  let timer = 0;
  const search = h("input", { type: "search", "aria-label": "endpoint", placeholder: "Endpoint", autocomplete: "off", spellcheck: "false", oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const text = search.value.trim();
      pattern = !text || text.includes("*") ? text : `*${text}*`;
      table.reload();
    }, 350);
  } });
  const element = h("section", { class: "card flush", id: "why" }, h("h2", { class: "row" }, h("span", { class: "grow" }, "Why, and why not"), copyCommand(path), search), rows);
  table.reload();
  return { element, refresh: () => (rows.contains(document.activeElement) || rows.querySelector("details[open]") ? null : table.refresh()) };
}

const copyCommand = (path) => copy(`grapnel explain ${path.split("/").at(-1)}`, "copy command", "that says the same");
