// page_tokens: the tokens of the API: made, shown once, and revoked.
import { act, at, get } from "./api.js";
import { ask, secret } from "./dialog.js";
import { h, replace } from "./dom.js";
import { field } from "./form.js";
import { badge, copy, curl, empty, toast } from "./states.js";
import { list } from "./table.js";
import { time } from "./time.js";

export const title = () => "Tokens";

export function show(place, context) {
  const rows = h("div");

  async function create() {
    const made = await ask({ title: "New token", action: "Make it", fields: [
      field({ name: "name", label: "Name", required: true, max: 64, hint: "letters, digits and . _ -" }),
      field({ name: "role", label: "Role", value: "viewer", options: [{ value: "viewer", label: "viewer: reads" }, { value: "operator", label: "operator: also pauses, retries, resolves, sends again" },
        { value: "admin", label: "admin: everything" }, { value: "workspace", label: "workspace: what belongs to one workspace" }] }),
      field({ name: "workspace", label: "Workspace", hint: "for the role workspace, and only then" }),
      field({ name: "expires", label: "Expires in", hint: "such as 90d; empty: never" })],
    act: (v) => act("POST", "/tokens", Object.fromEntries(Object.entries(v).filter(([, x]) => x))) });
    if (!made) return;
    tokens.reload();
    if (made.token) await secret(`The token ${made.name}`, "Grapnel shows it only now, and stores only its SHA-256.", made.token, copy(made.token, "Copy", "the token"));
  }

  const revoke = (t) => ask({ title: `Revoke ${t.name}?`, action: "Revoke", danger: true, text: "It is refused within a second, its sessions and streams end.",
    act: async () => {
      await act("DELETE", at("tokens", t.id));
      toast("It is revoked.");
      tokens.reload();
    } });

  const tokens = list(rows, {
    label: "tokens", key: (t) => t.id + t.state,
    columns: [
      { head: "Name", cell: (t) => h("span", { class: "clip", title: t.name }, t.name) },
      { head: "Role", cell: (t) => [t.role, t.workspace && h("span", { class: "soft" }, ` of ${t.workspace}`)] },
      { head: "State", cell: (t) => badge(t.state, t.state === "active" ? "good" : "") },
      { head: "Last use", cell: (t) => (t.last_used_at ? time(t.last_used_at) : h("span", { class: "soft" }, "never")) },
      { head: "Expires", wide: true, cell: (t) => (t.expires_at ? time(t.expires_at) : h("span", { class: "soft" }, "never")) },
      { head: "Made", wide: true, cell: (t) => time(t.created_at) },
      { head: "By", wide: true, cell: (t) => h("span", { class: "clip", title: t.created_by }, t.created_by) },
      { head: "", cell: (t) => t.state === "active" && h("button", { class: "small danger", onclick: () => revoke(t) }, "Revoke…") },
    ],
    read: (cursor) => get("/tokens", { limit: 100, cursor }, context.signal),
    none: () => h("div", { class: "card" }, empty("No token yet", h("p", { class: "soft" }, "Give each person and each program a token with the lowest role that it needs. Those of ", h("code", null, "console.tokens"), " are not listed here."),
      h("button", { class: "main", onclick: create }, "New token"))),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Tokens"), h("span", { class: "grow" }), curl("/tokens"), h("button", { class: "main", onclick: create }, "New token")), rows);
  tokens.reload();
}
