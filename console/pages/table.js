// table: lists with a row for each item, and more pages of them.
import { add, h, replace } from "./dom.js";
import { released } from "./pointer.js";
import { failed, load } from "./states.js";
import { t } from "./texts.js";

// {columns: [{head, cell(item), number, wide}], key(item), href(item)}
function rowOf(item, columns, key) {
  return h("tr", { "data-row": true, tabindex: "-1", "data-key": key ? key(item) : null },
    columns.map((c) => h("td", { class: [c.number && "number", c.wide && "wide"].filter(Boolean).join(" ") || null }, c.cell(item))));
}

export function table(items, { columns, key, label }) {
  const body = h("tbody", null, items.map((i) => rowOf(i, columns, key)));
  const element = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": label },
    h("table", null, h("thead", null, h("tr", null, columns.map((c) =>
      h("th", { scope: "col", class: [c.number && "number", c.wide && "wide"].filter(Boolean).join(" ") || null }, c.head || h("span", { class: "unseen" }, t`what to do`))))), body));
  element.body = body;
  return element;
}

// Calls draw(), which fills `to` anew; the row that had the focus has it afterwards, too.
export async function keepFocus(to, draw) {
  await released();
  const at = document.activeElement;
  const row = to.contains(at) && at.closest("[data-key]");
  draw();
  const now = row && [...to.querySelectorAll("[data-key]")].find((r) => r.dataset.key === row.dataset.key);
  if (now) (at === row ? now : now.querySelector("a, button") ?? now).focus({ preventScroll: true });
}

// A list of the API, page by page. read(cursor) → {items, next_cursor}. Returns {reload(), refresh()}: `refresh`
// keeps what is shown until the new rows are there.
export function list(to, { columns, key, label, read, none }) {
  let cursor = null;
  let extra = false; // more than the first page is shown
  let round = 0; // only the newest request may write
  let loading = false;

  const more = h("div", { class: "more" });

  // A search reads a bounded number of rows, so it may have found nothing and not be at the end.
  function renderMore(body) {
    const found = body.rows.length > 0;
    replace(more, cursor && [!found && h("p", { class: "soft" }, t`None so far. Older ones were not searched yet.`),
      h("button", { onclick: next }, found ? t`Show more` : t`Search further back`)]);
    more.hidden = !cursor;
  }

  async function next() {
    const body = to.querySelector("tbody");
    const mine = ++round;
    try {
      const page = await read(cursor);
      if (mine !== round) return;
      extra = true;
      cursor = page.next_cursor;
      add(body, page.items.map((i) => rowOf(i, columns, key)));
      renderMore(body);
    } catch (e) {
      if (e.name !== "AbortError") replace(more, failed(e, next));
    }
  }

  // Somebody is further down, or in it.
  const isRead = () => extra || to.contains(document.activeElement);

  function render(page, fresh) {
    cursor = page.next_cursor;
    extra = false;
    if (!page.items.length && !cursor) return none();
    const known = new Set(fresh ? Array.from(to.querySelectorAll("tr[data-key]"), (r) => r.dataset.key) : []);
    const element = table(page.items, { columns, key, label });
    if (fresh && known.size)
      for (const row of element.body.rows) if (!known.has(row.dataset.key)) row.classList.add("new");
    renderMore(element.body);
    return [element, more];
  }

  return {
    reload() {
      const mine = ++round;
      loading = true;
      return load(to, async () => {
        try {
          const page = await read(null);
          if (mine !== round) throw new DOMException("", "AbortError");
          return page;
        } finally {
          if (mine === round) loading = false;
        }
      }, (page) => render(page, false), 8);
    },
    async refresh() {
      if (loading || isRead()) return;
      const mine = ++round;
      const page = await read(null);
      await released();
      if (mine === round && !isRead()) replace(to, render(page, true));
    },
  };
}
