// page_dead_letters: deliveries that failed for good, by reason and endpoint, and decisions about many of them.
import { act, at, get, isTenant, may } from "./api.js";
import { ask } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field, filters, sinceOptions } from "./form.js";
import { finished, watch } from "./job.js";
import { released } from "./pointer.js";
import { badge, curl, empty, toast } from "./states.js";
import { list } from "./table.js";
import { count, plural, words } from "./text.js";
import { t } from "./texts.js";
import { time } from "./time.js";

export const title = () => t`Dead letters`;

const STATES = ["", "requeued", "recovered", "resolved", "discarded", "all"];
const FILTERS = ["endpoint", "reason", "workspace", "type", "source", "since"];
const DONE = { retry: "tried again", resolve: "resolved", discard: "discarded" };

export function show(place, context) {
  const rows = h("div");
  const groups = h("div");
  const bulk = h("div", { class: "row" });
  const tenantNow = isTenant();
  let isAny = true; // that needs a decision

  const form = filters(context.query, [
    { name: "endpoint", label: t`Endpoint  ( / )`, search: true }, { name: "reason", label: t`Reason` },
    ...(tenantNow ? [] : [{ name: "workspace", label: t`Workspace` }]), { name: "type", label: t`Type` }, { name: "source", label: t`Source` },
    { name: "state", label: t`State`, options: STATES.map((value) => ({ value, label: value === "" ? t`need a decision` : words(value) })) },
    { name: "since", label: t`Since`, options: sinceOptions() },
  ], () => (letters.reload(), drawBulk()));

  const chosen = () => Object.fromEntries(FILTERS.map((n) => [n, form.read()[n]]).filter(([, v]) => v));

  const letters = list(rows, {
    label: t`dead letters`, key: (d) => d.id + d.state,
    columns: [
      { head: t`Dead since`, cell: (d) => time(d.dead_at) },
      { head: t`Reason`, cell: (d) => h("a", { href: at("dead-letters", d.id) }, words(d.reason)) },
      { head: t`State`, cell: (d) => badge(d.state) },
      { head: t`Endpoint`, cell: (d) => (d.endpoint ? h("span", { class: "clip name", title: d.endpoint }, d.endpoint) : h("span", { class: "soft" }, t`refused before routing`)) },
      { head: t`Attempts`, number: true, wide: true, cell: (d) => d.attempts },
      { head: t`Last result`, wide: true, cell: (d) => h("span", { class: "clip", title: d.last_error || "" }, d.last_error || d.last_http_status || "–") },
      { head: t`Event`, wide: true, cell: (d) => h("a", { class: "mono", href: at("events", d.event_id) }, `…${d.event_id.slice(-6)}`) },
    ],
    read: (cursor) => get("/dead-letters", { ...form.read(), limit: 50, cursor }, context.signal),
    none: () => h("div", { class: "card" }, Object.values(form.read()).some(Boolean)
      ? empty(t`No dead letter matches`, h("button", { onclick: () => form.set({}) }, t`Clear the filters`))
      : empty(t`No dead letter needs a decision`, h("p", { class: "soft" }, t`A delivery that fails for good appears here, with its reason, and can be sent again.`))),
  });

  // ---- groups: how many, by reason and endpoint ----

  function group(name, key, numbers) {
    const all = Object.entries(numbers).sort((a, b) => b[1] - a[1]);
    return h("section", { class: "card" }, h("h2", null, name), h("ul", { class: "troubles" }, all.slice(0, 6).map(([value, n]) => h("li", null,
      value ? h("button", { class: "plain anywhere", onclick: () => form.set({ ...form.read(), [key]: value, state: "" }) }, key === "reason" ? words(value) : value) : h("span", { class: "soft" }, "refused before routing"),
      h("span", { class: "grow" }), h("span", { class: "number" }, count(n)))),
    all.length > 6 && h("li", { class: "soft" }, `and ${plural(all.length - 6, "more", "more")}`)));
  }

  async function readGroups() {
    if (tenantNow) return;
    const s = await get("/dead-letters/stats", null, context.signal);
    await released();
    if (isAny !== s.dead > 0) {
      isAny = s.dead > 0;
      drawBulk();
    }
    replace(groups, s.dead > 0 && h("div", { class: "columns" }, group("By reason", "reason", s.by_reason), group("By endpoint", "endpoint", s.by_endpoint)));
  }

  // ---- many at once ----

  async function decide(action, danger) {
    const wanted = chosen();
    let total;
    try {
      const counted = await finished(await act("POST", "/dead-letters/bulk", { action, ...wanted, ...(action === "retry" ? {} : { note: "counting" }), dry_run: true }));
      if (counted.state !== "done") throw new Error(counted.last_error || "They could not be counted.");
      total = counted.total;
    } catch (e) {
      toast(e.message);
      return;
    }
    if (!total) {
      toast("No dead letter that needs a decision matches.");
      return;
    }
    const which = Object.entries(wanted).map(([k, v]) => `${k} ${v}`).join(", ") || "all that need a decision";
    const job = await ask({ title: `${words(action).replace(/^./, (c) => c.toUpperCase())} ${plural(total, "dead letter")}?`, action: `${words(action).replace(/^./, (c) => c.toUpperCase())} ${count(total)}`, danger,
      text: `${which}. The oldest first; those that become dead meanwhile are not among them.${action === "retry" ? " Each gets a new retry budget." : ""}`,
      fields: [action !== "retry" && field({ name: "note", label: action === "resolve" ? "What was done" : "Why they are not needed", required: true, kind: "area", max: 4000 }),
        field({ name: "rate", label: "At most this many a second", kind: "number", value: "100", min: 1 })].filter(Boolean),
      act: (v) => act("POST", "/dead-letters/bulk", { action, ...wanted, ...(v.note ? { note: v.note } : {}), rate: Number(v.rate) || 100 }) });
    if (!job) return;
    await watch(`Dead letters are ${DONE[action]}`, job);
    letters.reload();
    readGroups();
  }

  function drawBulk() {
    replace(bulk, may("bulk") && isAny && !form.read().state && [h("span", { class: "soft" }, Object.keys(chosen()).length ? "All that match:" : "All of them:"),
      h("button", { onclick: () => decide("retry", false) }, "Retry…"), h("button", { onclick: () => decide("resolve", false) }, "Resolve…"),
      h("button", { class: "danger", onclick: () => decide("discard", true) }, "Discard…")]);
  }

  replace(place, h("div", { class: "head" }, h("h1", null, t`Dead letters`), h("span", { class: "grow" }), bulk, curl("/dead-letters")),
    h("div", { class: "stack" }, groups, h("div", null, form, rows)));
  drawBulk();
  letters.reload();
  readGroups().catch(() => {});
  context.every(5000, async () => {
    if (document.querySelector("dialog[open]")) return;
    await letters.refresh();
    await readGroups();
  });
}
