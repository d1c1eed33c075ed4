// page_endpoints: all endpoints, those in trouble first.
import { at, get, inPortal, isTenant, may } from "./api.js";
import { h, replace } from "./dom.js";
import { create, shown as title_ } from "./endpoint_form.js";
import { filters } from "./form.js";
import { released } from "./pointer.js";
import { go } from "./router.js";
import { badge, curl, empty, load } from "./states.js";
import { table } from "./table.js";
import { count, percent, words } from "./text.js";
import { t } from "./texts.js";
import { duration, since } from "./time.js";

export const title = () => t`Endpoints`;

const READ_MAX = 5000;
const STATES = ["", "active", "failing", "paused", "disabled", "held", "off", "removed"];

export const stateOf = (e) => (e.state === "active" && e.failing_since ? "failing" : e.state);
const look = { failing: "bad", held: "bad", disabled: "bad", paused: "warn", active: "good" };
export const stateBadge = (e) => badge(stateOf(e), look[stateOf(e)] || "");

// The higher, the sooner somebody should look.
function trouble(e) {
  const states = { held: 5, disabled: 5, failing: 4, paused: 2, active: 0, off: -1, removed: -2 };
  const waits = Math.log10(1 + e.waiting + e.retrying) / 10;
  return states[stateOf(e)] + (e.halted_lanes ? 1.5 : 0) + (e.success_rate === null ? 0 : 1 - e.success_rate) + waits;
}

export function show(place, context) {
  const rows = h("div");
  let all = null;
  let more = false;

  const form = filters(context.query, [
    { name: "name", label: t`Search by name or URL  ( / )`, search: true },
    { name: "state", label: t`State`, options: STATES.map((value) => ({ value, label: words(value) || t`any state` })) },
  ], () => draw());

  async function readAll() {
    const out = [];
    let cursor = null;
    do {
      const page = await get("/endpoints", { limit: 1000, cursor }, context.signal);
      out.push(...page.items);
      cursor = page.next_cursor;
    } while (cursor && out.length < READ_MAX);
    more = cursor !== null;
    return out;
  }

  function matches(e, { name, state }) {
    const text = name.toLowerCase();
    return (!state || stateOf(e) === state) &&
      (!text || [e.name, e.description, e.workspace, e.settings?.url].some((t) => t?.toLowerCase().includes(text)));
  }

  function render() {
    const now = form.read();
    const found = all.filter((e) => matches(e, now) && (now.state || e.state !== "removed")).sort((a, b) => trouble(b) - trouble(a) || (a.name < b.name ? -1 : 1));
    if (!all.length)
      return h("div", { class: "card" }, empty(t`No endpoint yet`, inPortal() ? h("p", null, t`An endpoint is a URL of yours that gets events.`) : h("p", null, "An endpoint is a URL that gets events. ",
        may("endpoints") ? "Make one here, or add it to grapnel.yaml and run " : "Add one to grapnel.yaml and run ", h("code", null, "grapnel reload"), "."),
      may("endpoints") && h("button", { class: "main", onclick: make }, t`New endpoint`)));
    if (!found.length) return h("div", { class: "card" }, empty(t`No endpoint matches`, h("button", { onclick: () => form.set({}) }, t`Clear the filters`)));
    return [table(found.slice(0, 500), { label: t`endpoints`, key: (e) => e.name, columns: [
      { head: t`Endpoint`, cell: (e) => [h("a", { class: "clip name", href: at("endpoints", e.name), title: e.name }, title_(e)), e.description && h("span", { class: "clip soft small mono", title: e.name }, e.name)] },
      { head: t`State`, cell: (e) => [stateBadge(e), stateOf(e) === "failing" && h("span", { class: "soft small" }, t` for ${since(e.failing_since)}`)] },
      { head: t`Delivered`, number: true, cell: (e) => percent(e.success_rate) },
      { head: t`Latency`, number: true, wide: true, cell: (e) => duration(e.latency_ms) },
      { head: t`In flight`, number: true, wide: true, cell: (e) => count(e.in_flight) },
      { head: t`Waiting`, number: true, cell: (e) => `${count(e.waiting)}${e.waiting_more ? "+" : ""}` },
      { head: t`Retrying`, number: true, wide: true, cell: (e) => count(e.retrying) },
      { head: "URL", wide: true, cell: (e) => h("span", { class: "clip soft", title: e.settings?.url || "" }, e.settings?.url || (e.settings?.transport === "pull" ? "pull" : "–")) },
      ...(isTenant() ? [] : [{ head: "Made", wide: true, cell: (e) => (e.temporary ? "temporary" : e.managed_by === "api" ? "at run time" : e.managed_by === "file" ? "grapnel.yaml" : "–") }]),
    ] }), (found.length > 500 || more) && h("p", { class: "soft more" }, more ? t`The first 500 of ${count(found.length)} and more: search for the others.` : t`The first 500 of ${count(found.length)}: search for the others.`)];
  }

  function draw() {
    if (all) replace(rows, render());
  }

  const read = () => load(rows, async () => {
    all = await readAll();
  }, render, 8);

  async function make() {
    const made = await create();
    if (made) go(at("endpoints", made.name));
  }

  replace(place, h("div", { class: "head" }, h("h1", null, t`Endpoints`), h("span", { class: "grow" }), curl("/endpoints"),
    may("endpoints") && h("button", { class: "main", onclick: make }, t`New endpoint`)), form, rows);
  read();
  context.every(5000, async () => {
    if (!all || all.length > 1000 || rows.contains(document.activeElement)) return;
    all = await readAll();
    await released();
    if (!rows.contains(document.activeElement)) draw();
  });
}
