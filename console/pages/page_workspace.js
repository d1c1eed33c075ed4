// page_workspace: one workspace: its sequence drawn with gaps, late and buffered events; and the gaps, which can be closed.
import { act, at, get, may } from "./api.js";
import { ask, secret } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field } from "./form.js";
import { watch } from "./job.js";
import { released } from "./pointer.js";
import { go } from "./router.js";
import { legend, sequence } from "./sequence.js";
import { badge, copy, curl, empty, load, toast } from "./states.js";
import { table } from "./table.js";
import { count } from "./text.js";
import { time } from "./time.js";

export const title = ({ workspace }) => `Workspace ${workspace}`;

const READ = 300; // events
const NUMBERED = 150; // … of one source
const SOURCES_MAX = 8;
const SEARCHES = 6; // a search reads a bounded number of rows, so one may find few

export function show(place, context) {
  const { workspace } = context.params;
  const main = h("div");

  // Of sources with gaps, whose numbers may be older than the newest events of all sources.
  async function readNumbered(gaps) {
    const sources = [...new Set(gaps.map((g) => g.source))].slice(0, SOURCES_MAX);
    const pages = await Promise.all(sources.map((source) => get("/events", { workspace, source, limit: NUMBERED }, context.signal)));
    return pages.flatMap((page) => page.items.filter((e) => e.workspace === workspace));
  }

  // The newest ones: {events, more: there may be older ones}
  async function readEvents() {
    const events = [];
    let cursor = null;
    for (let n = 0; n < SEARCHES; n++) {
      const page = await get("/events", { workspace, limit: READ - events.length, cursor }, context.signal);
      events.push(...page.items.filter((e) => e.workspace === workspace)); // `*` in a name is any text in a search
      cursor = page.next_cursor;
      if (!cursor || events.length >= READ || events.at(-1)?.sequence === 1) break;
    }
    return { events, more: Boolean(cursor) && events.length < READ };
  }

  // [gaps, events around them]
  async function readGaps() {
    const gaps = (await get("/gaps", { workspace, limit: 100 }, context.signal)).items.filter((g) => g.workspace === workspace);
    return [gaps, await readNumbered(gaps)];
  }

  async function readAll() {
    const [one, { events, more }, [gaps, numbered]] = await Promise.all([get(at("workspaces", workspace), null, context.signal), readEvents(), readGaps()]);
    return { ...one, events, more: more && events.length < one.sequence, numbered, gaps };
  }

  const close = (g) => ask({ title: `Close the gap ${g.from === g.to ? g.from : `${g.from} to ${g.to}`}?`, action: "Close the gap",
    text: "Grapnel no longer waits for these numbers, and releases the events that waited for them. If they come after all, they are delivered late.",
    fields: [field({ name: "note", label: "Why, for others", required: true, kind: "area", max: 1000 })],
    act: async ({ note }) => {
      await act("POST", `${at("gaps", g.id)}/close`, { note });
      toast("It is closed.");
      read();
    } });

  async function link() {
    const made = await ask({ title: "Make a link to the portal?", action: "Make it",
      text: "It opens the pages of this workspace for a user of this customer, once and within 10 minutes. Who opens it first has the portal.",
      fields: [field({ name: "user", label: "User", max: 100, hint: "the name that audit and histories show" }),
        h("label", { class: "row" }, h("input", { type: "checkbox", name: "read_only", value: "yes" }), "Only to read")],
      act: (v) => act("POST", `${at("workspaces", workspace)}/portal-link`, { ...(v.user ? { user: v.user } : {}), ...(v.read_only ? { read_only: true } : {}) }) });
    if (made?.url) await secret("The link", "It is shown only now.", made.url, copy(made.url, "Copy", "the link"));
  }

  async function erase() {
    const job = await ask({ title: `Erase ${workspace}?`, action: "Erase all of its data", danger: true,
      text: "For ever: bodies, headers, names, attempts, responses, dead letters and refused requests, in all processes. From now on ingress responds 410 to its events. It cannot be cancelled.",
      fields: [field({ name: "name", label: "Write the name of the workspace", required: true, max: 512 })],
      act: (v) => {
        if (v.name !== workspace) throw Object.assign(new Error("This is not the name of this workspace."), { field: "name" });
        return act("DELETE", at("workspaces", workspace));
      } });
    if (!job) return;
    await watch(`${workspace} is erased`, job);
    go("/jobs");
  }

  // The provider's numbers, by source; and Grapnel's own, which have no gaps.
  function lines(w) {
    const width = Math.max(280, Math.min(1200, main.clientWidth - 40));
    const own = new Map(w.events.filter((e) => e.sequence).map((e) => [e.sequence, e]));
    const sources = [...new Set([...w.events.filter((e) => e.source_sequence !== null).map((e) => e.source), ...w.gaps.map((g) => g.source)])].sort();
    return [...sources.map((source) => {
      const numbers = new Map([...w.numbered, ...w.events].filter((e) => e.source === source && e.source_sequence !== null && e.status !== "duplicate").map((e) => [e.source_sequence, e]));
      const gaps = w.gaps.filter((g) => g.source === source);
      return (numbers.size || gaps.length) && h("section", { class: "card" }, h("h2", null, `Numbers of ${source}`), sequence(`numbers of ${source}`, numbers, gaps, width), legend());
    }), h("section", { class: "card" }, h("h2", null, "Grapnel's numbers, in the order of delivery"), own.size ? [sequence("Grapnel's numbers", own, [], width), !sources.length && legend()]
      : empty(w.more ? "No event with a number was found so far" : "No event with a number in the history")),
    w.more && h("p", { class: "soft small" }, "Older events were not searched: ", h("a", { href: `/events?workspace=${encodeURIComponent(w.workspace)}` }, "search further back"), ".")];
  }

  function render(w) {
    return h("div", { class: "stack" },
      h("div", { class: "head" }, h("div", { class: "grow" }, h("p", { class: "crumb" }, h("a", { href: "/workspaces" }, "Workspaces")), h("h1", null, w.workspace)),
        h("a", { href: `/events?workspace=${encodeURIComponent(w.workspace)}` }, "Its events"),
        may("portal") && h("button", { onclick: link }, "Portal link…"), may("erase") && h("button", { class: "danger", onclick: erase }, "Erase…"), curl(at("workspaces", workspace))),
      h("section", { class: "card" }, h("dl", { class: "facts" }, [["Name", [h("span", { class: "mono" }, w.workspace), copy(w.workspace, null, "the name")]], ["Newest number", count(w.sequence)],
        ["Open gaps", w.open_gaps ? badge(count(w.open_gaps), "warn") : "0"], ["Buffered", w.buffered ? badge(count(w.buffered), "warn") : "0"]].map(([n, v]) => [h("dt", null, n), h("dd", null, v)])),
      h("details", null, h("summary", null, "Its clock: how many events of each type"), h("dl", { class: "facts" }, Object.entries(w.clock).map(([type, n]) => [h("dt", null, type), h("dd", null, count(n))])))),
      lines(w),
      w.gaps.length > 0 && h("section", { class: "card flush" }, h("h2", null, "Gaps"), table(w.gaps, { label: "gaps", key: (g) => g.id, columns: [
        { head: "Numbers", cell: (g) => (g.from === g.to ? g.from : `${g.from} – ${g.to}`) }, { head: "State", cell: (g) => badge(g.status) }, { head: "Source", cell: (g) => g.source }, { head: "Type", wide: true, cell: (g) => g.type ?? "any" },
        { head: "Since", cell: (g) => time(g.opened_at) }, { head: "Until", wide: true, cell: (g) => time(g.closed_at) }, { head: "Note", wide: true, cell: (g) => g.note ?? (g.waits_for ? `waits for ${g.waits_for}` : "–") },
        { head: "", cell: (g) => g.status === "open" && may("gap") && h("button", { class: "small", onclick: () => close(g) }, "Close…") }] })));
  }

  const read = () => load(main, readAll, render, 8);
  const isRead = () => document.querySelector("dialog[open]") || main.querySelector("details[open]") || main.contains(document.activeElement);

  replace(place, main);
  read();
  context.every(5000, async () => {
    if (isRead() || !main.querySelector("h1")) return;
    const now = await readAll();
    await released();
    if (!isRead()) replace(main, render(now));
  });
}
