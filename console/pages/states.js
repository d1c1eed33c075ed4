// states: what a part of a page shows while it has nothing, waits, or has failed; notes that appear for a while; and buttons that copy.
import { add, h, replace } from "./dom.js";

export function skeleton(lines = 6) {
  return h("div", { class: "skeleton", "aria-busy": "true", "aria-label": "loading" },
    Array.from({ length: lines }, () => h("i")));
}

export const empty = (title, ...what) => h("div", { class: "state" }, h("h2", null, title), what);

// The same as a whole page.
export const alone = (title, ...what) => h("div", { class: "state" }, h("h1", null, title), what);

const NEXT = {
  process_unavailable: "Start it, then try again. `grapnel status` shows which processes run.",
  process_timeout: "It may be busy, or stopped. `grapnel status` shows the processes.",
  role: "Sign in with a token of a higher role.",
  not_found: "It may have been deleted, or have left the history.",
  rate_limited: "Wait, then try again.",
};

// `page`: it stands for a whole page, so its heading is that of the page.
export function failed(error, again, page) {
  return h("div", { class: "state", role: "alert" },
    h(page ? "h1" : "h2", null, error.status === 404 ? "There is no such thing" : "This could not be read"),
    h("p", null, error.message),
    NEXT[error.code] && h("p", { class: "soft" }, NEXT[error.code]),
    error.request && h("p", { class: "soft small mono" }, error.request),
    again && h("button", { onclick: again }, "Try again"));
}

// Shows what `read` promises. What is there stays until it comes; a skeleton only appears after 200 ms.
export async function load(to, read, render, lines) {
  const timer = setTimeout(() => to.childElementCount || replace(to, skeleton(lines)), 200);
  try {
    const value = await read();
    clearTimeout(timer);
    replace(to, render(value));
    return true;
  } catch (e) {
    clearTimeout(timer);
    if (e.name === "AbortError" || e.status === 401) return false;
    to.replaceChildren();
    replace(to, failed(e, () => load(to, read, render, lines), !document.querySelector("h1")));
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
  return h("button", { type: "button", class: "plain small", "aria-label": `${label || "copy"} ${what || ""}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      toast(`Your browser does not permit copying here: ${text}`);
    }
  } }, label || "copy");
}

// A curl command for the same request, with a token of the reader's.
export const curl = (path, method = "GET") => copy(
  `curl -s ${method === "GET" ? "" : `-X ${method} `}-H "Authorization: Bearer $TOKEN" '${location.origin}/api/v1${path.replaceAll("'", "%27")}'`,
  "copy curl", "command");

const LOOK = {
  good: ["done", "delivered", "active", "recovered", "resolved", "filled", "closed"],
  bad: ["dead", "refused", "disabled", "failed", "expired", "firing", "critical", "open"],
  warn: ["retrying", "held", "paused", "abandoned", "pending", "warning", "skipped", "probing", "requeued", "cancelled"],
  info: ["routed", "buffered", "in_flight", "waiting", "accepted", "running"],
};

export const lookOf = (word) => Object.keys(LOOK).find((k) => LOOK[k].includes(word)) || "";

export const badge = (word, look = lookOf(word)) => h("span", { class: `badge ${look}` }, String(word ?? "–").replaceAll("_", " "));
