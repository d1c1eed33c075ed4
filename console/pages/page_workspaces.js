// page_workspaces: all workspaces by name, with their numbers, gaps and buffered events.
import { at, get } from "./api.js";
import { h, replace } from "./dom.js";
import { go } from "./router.js";
import { badge, curl, empty } from "./states.js";
import { list } from "./table.js";
import { count, plural } from "./text.js";

export const title = () => "Workspaces";

export function show(place, context) {
  const rows = h("div");
  const name = h("input", { type: "search", "aria-label": "name of a workspace", placeholder: "Open by name  ( / )", "data-search": "", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "filters", role: "search", onsubmit: (e) => {
    e.preventDefault();
    if (name.value) go(at("workspaces", name.value));
  } }, name);
  const all = list(rows, {
    label: "workspaces", key: (w) => w.workspace,
    columns: [
      { head: "Workspace", cell: (w) => h("a", { class: "clip name", href: at("workspaces", w.workspace), title: w.workspace }, w.workspace) },
      { head: "Newest number", number: true, cell: (w) => count(w.sequence) },
      { head: "Types", number: true, wide: true, cell: (w) => Object.keys(w.clock).length },
      { head: "Gaps", cell: (w) => (w.open_gaps ? badge(plural(w.open_gaps, "gap"), "warn") : h("span", { class: "soft" }, "–")) },
      { head: "Buffered", number: true, cell: (w) => count(w.buffered) },
    ],
    read: (cursor) => get("/workspaces", { limit: 100, cursor }, context.signal),
    none: () => h("div", { class: "card" }, empty("No workspace yet", h("p", { class: "soft" }, "A workspace is the events of one customer. It appears with its first event: a source names it with ", h("code", null, "workspace"), ", a producer in the event."))),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Workspaces"), h("span", { class: "grow" }), curl("/workspaces")), form, rows);
  all.reload();
}
