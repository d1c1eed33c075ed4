// routing: which endpoints would get an event and why; and for a stored event, what became of it at each endpoint, or why
// it was never routed there.
import { at, get, inPortal, isTenant } from "./api.js";
import { h, replace } from "./dom.js";
import { field, values } from "./form.js";
import { badge, copy, empty, failed } from "./states.js";
import { list } from "./table.js";
import { plural, words } from "./text.js";
import { t } from "./texts.js";
import { time } from "./time.js";

const answerOf = (e) => ({ true: [t`yes`, "good"], false: [t`no`, ""], null: [t`depends`, "warn"] })[String(e.subscribed)];

const mark = (met) => badge(met === null ? t`not known` : met ? t`met` : t`not met`, met === null ? "warn" : met ? "good" : "bad");

const named = (e, what) => [h("a", { class: "clip", href: at("endpoints", e.endpoint), title: e.endpoint }, e.endpoint), h("div", null, what)];

// The rules of one endpoint's subscription, behind a summary.
function rules(all) {
  if (!all.length) return null;
  return h("details", null, h("summary", null, plural(all.length, t`rule`, t`rules`)), h("ul", { class: "rules" }, all.map((r) =>
    h("li", null, mark(r.met), " ", r.route ? t`route ${r.route}: ` : "", h("b", null, words(r.rule)), r.value !== null && [" ", h("span", { class: "mono" }, r.value || t`(empty)`)],
      r.pattern !== null ? [t` matches `, h("span", { class: "mono" }, r.pattern)] : r.rule === "where" ? t` (conditions on headers and body)`
        : r.patterns.length ? [t` of `, r.patterns.map((p, i) => [i > 0 && ", ", h("span", { class: "mono" }, p)]), r.patterns_more > 0 && t` and ${r.patterns_more} more`] : t`: any`))));
}

// A form that asks for an event that might come. `endpoint`: only that one; else all, by name.
export function wouldGet({ endpoint, query = {}, signal }) {
  const place = h("div", { "aria-live": "polite" });

  const answer = (e) => {
    const [word, look] = answerOf(e);
    return h("div", { class: "stack" }, h("p", null, badge(word, look), " ", e.why), e.then && h("p", { class: "soft" }, t`Then: ${e.then}.`),
      e.halted_lanes > 0 && h("p", { class: "note warn" }, t`A dead letter halts ${plural(e.halted_lanes, t`lane`, t`lanes`)} of it.`), rules(e.rules));
  };

  async function ask(v) {
    const q = Object.fromEntries(Object.entries(v).filter(([, text]) => text));
    const note = (e) => e?.note && h("p", { class: "note warn" }, t`Such an event cannot come: ${e.note}.`);
    if (endpoint) {
      try {
        const reply = await get("/routing", { ...q, endpoint }, signal);
        const [one] = reply.items;
        replace(place, h("div", { class: "stack" }, note(one), one ? answer(one) : h("p", { class: "soft" }, t`It is no longer configured.`)));
      } catch (e) {
        if (e.name !== "AbortError") replace(place, failed(e));
      }
      return;
    }
    const rows = h("div");
    const notes = h("div");
    replace(place, h("div", { class: "stack" }, notes, rows));
    await list(rows, {
      label: t`endpoints that would get it`, key: (e) => e.endpoint,
      columns: [
        { head: t`Endpoint`, cell: (e) => named(e, badge(...answerOf(e))) },
        { head: t`Because`, cell: (e) => h("div", { class: "said" }, e.why, e.then && h("div", { class: "soft small" }, t`Then: ${e.then}.`)) },
      ],
      read: async (cursor) => {
        const page = await get("/routing", { ...q, limit: 25, cursor }, signal);
        replace(notes, note(page.items[0]));
        return page;
      },
      none: () => empty(t`No endpoint has this name`, h("p", { class: "soft" }, t`* stands for any text.`)),
    }).reload();
  }

  const form = h("form", { class: "filters", onsubmit: (e) => {
    e.preventDefault();
    ask(values(form));
  } }, field({ name: "source", label: t`Source`, value: query.source || "", required: true }), field({ name: "type", label: t`Type`, value: query.type || "", required: true }),
  !isTenant() && field({ name: "workspace", label: t`Workspace`, value: query.workspace || "" }), !endpoint && field({ name: "endpoint", label: t`Endpoint`, value: "" }),
  h("div", { class: "field end" }, h("button", { class: "main" }, t`Explain`)));
  return h("div", { class: "stack" }, h("p", { class: "soft" }, t`Describe an event that might come: each endpoint is judged by its present settings.`), form, place);
}

function because(e) {
  return h("div", { class: "said" }, e.why, e.until && [" ", time(e.until)], ".",
    e.changed_since && [" ", badge(t`settings changed since`, "")],
    (e.event_id || e.dead_letter_id) && h("div", { class: "small" }, e.event_id && h("a", { class: "mono", href: at("events", e.event_id) }, e.event_id), " ",
      e.dead_letter_id && !(isTenant() && e.cause === "refused") && h("a", { href: at("dead-letters", e.dead_letter_id) }, t`the dead letter`)),
    rules(e.rules));
}

// What became of a stored event at each endpoint. {element, refresh()}
export function whatBecame(path, signal) {
  const rows = h("div");
  let pattern = "";
  const table = list(rows, {
    label: t`endpoints`, key: (e) => e.endpoint,
    columns: [
      { head: t`Endpoint`, cell: (e) => named(e, badge(words(e.status), e.status === "not_routed" ? "" : undefined)) },
      { head: t`Because`, cell: because },
    ],
    read: (cursor) => get(`${path}/routing`, { endpoint: pattern, limit: 10, cursor }, signal),
    none: () => empty(t`No endpoint has this name`, h("p", { class: "soft" }, t`* stands for any text. Removed endpoints are listed if they have a delivery.`)),
  });
  let timer = 0;
  const search = h("input", { type: "search", "aria-label": t`Endpoint`, placeholder: t`Endpoint`, autocomplete: "off", spellcheck: "false", oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const text = search.value.trim();
      pattern = !text || text.includes("*") ? text : `*${text}*`;
      table.reload();
    }, 350);
  } });
  const element = h("section", { class: "card flush", id: "why" }, h("h2", { class: "row" }, h("span", { class: "grow" }, t`Why, and why not`), !inPortal() && copyCommand(path), search), rows);
  table.reload();
  return { element, refresh: () => (rows.contains(document.activeElement) || rows.querySelector("details[open]") ? null : table.refresh()) };
}

const copyCommand = (path) => copy(`grapnel explain ${path.split("/").at(-1)}`, "copy command", "that says the same");
