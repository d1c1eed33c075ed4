// states: what a part of a page shows while it has nothing, waits, or has failed; notes that appear for a while; and buttons that copy.
import { inPortal } from "./api.js";
import { add, h, replace } from "./dom.js";
import { released } from "./pointer.js";
import { t, word } from "./texts.js";

export function skeleton(lines = 6) {
  return h("div", { class: "skeleton", role: "status", "aria-busy": "true", "aria-label": t`loading` },
    Array.from({ length: lines }, () => h("i")));
}

export const empty = (title, ...what) => h("div", { class: "state" }, h("h2", null, title), what);

// The same as a whole page.
export const alone = (title, ...what) => h("div", { class: "state" }, h("h1", null, title), what);

const FOR_ALL = {
  not_found: () => t`It may have been deleted, or have left the history.`,
  rate_limited: () => t`Wait, then try again.`,
};
const FOR_OPERATORS = {
  process_unavailable: () => "Start it, then try again. `grapnel status` shows which processes run.",
  process_timeout: () => "It may be busy, or stopped. `grapnel status` shows the processes.",
  role: () => "Sign in with a token of a higher role.",
};
const nextOf = (code) => FOR_ALL[code]?.() ?? (inPortal() ? null : FOR_OPERATORS[code]?.());

// `page`: it stands for a whole page, so its heading is that of the page.
export function failed(error, again, page) {
  return h("div", { class: "state", role: "alert" },
    h(page ? "h1" : "h2", null, error.status === 404 ? t`There is no such thing` : t`This could not be read`),
    h("p", null, error.message),
    nextOf(error.code) && h("p", { class: "soft" }, nextOf(error.code)),
    error.request && h("p", { class: "soft small mono" }, error.request),
    again && h("button", { onclick: again }, t`Try again`));
}

const PASSES = ["unreachable", "process_unavailable", "process_timeout", "process_failed", "disk_full", "busy"];
const AGAIN_MS = 3000;

// Shows what `read` promises. What is there stays until it comes; a skeleton only appears after 200 ms. While a process
// is away, it tries again by itself.
export async function load(to, read, render, lines) {
  const timer = setTimeout(() => to.childElementCount || replace(to, skeleton(lines)), 200);
  try {
    const value = await read();
    clearTimeout(timer);
    await released();
    replace(to, render(value));
    return true;
  } catch (e) {
    clearTimeout(timer);
    if (e.name === "AbortError" || e.status === 401) return false;
    await released();
    to.replaceChildren();
    const note = failed(e, () => load(to, read, render, lines), !document.querySelector("h1"));
    replace(to, note);
    if (PASSES.includes(e.code)) setTimeout(() => note.isConnected && !note.contains(document.activeElement) && load(to, read, render, lines), AGAIN_MS);
    return false;
  }
}

const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function toast(text) {
  if (!toasts.isConnected) document.body.append(toasts);
  const note = h("div", { class: "toast" }, text);
  add(toasts, note);
  setTimeout(() => note.remove(), 5000);
}

export function copy(text, label, what) {
  return h("button", { type: "button", class: "plain small", "aria-label": `${label || t`copy`} ${what || ""}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast(t`Copied.`);
    } catch {
      toast(t`Your browser does not permit copying here: ${text}`);
    }
  } }, label || t`copy`);
}

// A curl command for the same request, with a token of the reader's; those who use the portal have none.
// On a phone there is no place for it, and no shell.
export const curl = (path, method = "GET") => !inPortal() && h("span", { class: "wide" }, copy(
  `curl -s ${method === "GET" ? "" : `-X ${method} `}-H "Authorization: Bearer $TOKEN" '${location.origin}/api/v1${path.replaceAll("'", "%27")}'`,
  "copy curl", "command"));

const LOOK = {
  good: ["done", "delivered", "active", "recovered", "resolved", "filled", "closed"],
  bad: ["dead", "refused", "disabled", "failed", "expired", "firing", "critical", "open"],
  warn: ["retrying", "held", "paused", "abandoned", "pending", "warning", "skipped", "probing", "requeued", "cancelled"],
  info: ["routed", "buffered", "in_flight", "waiting", "accepted", "running"],
};

export const lookOf = (text) => Object.keys(LOOK).find((k) => LOOK[k].includes(text)) || "";

// With a name or a message, which stays as it is.
export const tag = (text, look = "") => h("span", { class: `badge ${look}` }, text);

// With a word of the API.
export const badge = (text, look = lookOf(text)) => tag(word(text ?? "–"), look);
