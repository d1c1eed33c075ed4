// keyboard: `/` searches, `j` and `k` move, Enter opens, `?` helps.
import { h } from "./dom.js";
import { open } from "./dialog.js";
import { t } from "./texts.js";

const keys = () => [["/", t`search`], ["j", t`next row`], ["k", t`previous row`], ["Enter", t`open the row`],
  ["Esc", t`leave the field or the dialog`], ["?", t`this list`]];

export const help = () => open(t`Keys`, (close) => h("div", null,
  h("dl", { class: "facts" }, keys().map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
  h("div", { class: "buttons" }, h("button", { class: "main", onclick: () => close() }, t`Close`))));

function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.findIndex((r) => r.contains(document.activeElement));
  const to = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  to?.focus();
  to?.scrollIntoView({ block: "nearest" });
}

export function startKeyboard() {
  document.addEventListener("keydown", (e) => {
    const writes = e.target.closest?.("input, textarea, select");
    if (e.key === "Escape" && writes && !e.target.closest("dialog")) e.target.blur();
    if (writes || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (e.key === "/") document.querySelector("[data-search]")?.focus();
    else if (e.key === "j") move(1);
    else if (e.key === "k") move(-1);
    else if (e.key === "?") help();
    else if (e.key === "Enter" && e.target.matches?.("[data-row]")) e.target.querySelector("a")?.click();
    else return;
    e.preventDefault();
  });
}
