// api: requests to the management API, with the cookie of the session, or in the portal with its token.
import { said, t } from "./texts.js";

export class ApiError extends Error {
  constructor(status, error, retryAfter) {
    super(error.message);
    Object.assign(this, { status, code: error.code, field: error.field, request: error.request_id, retryAfter });
  }
}

// "signed-out", "unreachable", "reachable"
export const changes = new EventTarget();

let session = null;
let isPortal = false;
let unreachableSince = 0;

export const signedIn = () => session;
export const inPortal = () => isPortal;

function reached(yes) {
  if (yes && unreachableSince) {
    unreachableSince = 0;
    changes.dispatchEvent(new Event("reachable"));
  } else if (!yes && !unreachableSince) {
    unreachableSince = Date.now();
    changes.dispatchEvent(new Event("unreachable"));
  }
}

async function send(method, path, options = {}) {
  const headers = { ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const by = session; // another one may come meanwhile
  if (by?.token) headers.Authorization = `Bearer ${by.token}`;
  else if (method !== "GET" && by) headers["Grapnel-Csrf"] = by.csrf;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      credentials: isPortal ? "omit" : "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    reached(false);
    throw new ApiError(0, { code: "unreachable", message: t`The console does not respond. This page tries again by itself.` });
  }
  reached(true);
  if (response.ok) return response;
  let error = { code: "unknown", message: t`The console responded ${response.status}.` };
  try {
    error = (await response.json()).error || error;
  } catch { /* not JSON: the status says what there is to say */ }
  error.message = said(error.message);
  if (response.status === 401 && by && by === session) {
    session = null;
    changes.dispatchEvent(new Event("signed-out"));
  }
  throw new ApiError(response.status, error, response.headers.get("Retry-After"));
}

function address(path, query) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query || {}))
    if (value !== "" && value !== null && value !== undefined) q.set(name, value);
  const text = q.toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

// A path of the API from segments: ids may have any character.
export const at = (...segments) => segments.map((s) => `/${encodeURIComponent(s)}`).join("");

export const get = async (path, query, signal) => (await send("GET", address(path, query), { signal })).json();

export async function getBytes(path, signal) {
  const response = await send("GET", address(path), { signal });
  return { type: response.headers.get("Grapnel-Content-Type") || "", bytes: new Uint8Array(await response.arrayBuffer()) };
}

// A change. Each call has its own idempotency key, so that a repeat after a lost response changes nothing more.
export async function act(method, path, body, { match } = {}) {
  const headers = {};
  if (method === "POST") headers["Idempotency-Key"] = crypto.randomUUID ? crypto.randomUUID() : random();
  if (match) headers["If-Match"] = match;
  for (let tries = 1; ; tries++) {
    try {
      const response = await send(method, address(path), { headers, body: method === "DELETE" ? undefined : body ?? {} });
      return await response.json();
    } catch (e) {
      // Repeated with the same key: it is done once at most.
      if (tries < 3 && method === "POST" && (e.code === "unreachable" || e.code === "in_progress"))
        await new Promise((done) => setTimeout(done, 500 * tries));
      else throw e;
    }
  }
}

// randomUUID() needs HTTPS or the machine itself.
function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

// ---- the session ----

async function take(response) {
  session = await response.json();
  return session;
}

export async function readSession() {
  try {
    return await take(await send("GET", "/api/session"));
  } catch (e) {
    if (e.status === 401) return null;
    throw e;
  }
}

// Of the portal: no cookie is sent, and its token is only here.
export async function openPortal() {
  isPortal = true;
  return (await send("GET", "/api/portal")).json();
}

export async function enterPortal(link) {
  const next = await (await send("POST", "/api/portal", { body: { link } })).json();
  const before = session;
  session = { ...next, role: "workspace", readOnly: next.read_only };
  if (before) // it would end by itself
    fetch("/api/portal", { method: "DELETE", credentials: "omit", headers: { Authorization: `Bearer ${before.token}` } }).catch(() => {});
  return { ...session, same: before?.workspace === next.workspace && before.readOnly === next.read_only };
}

export function leavePortal() {
  session = null;
}

export const signIn = async (secret) => take(await send("POST", "/api/session", { body: secret }));

export async function signOut() {
  await send("DELETE", "/api/session");
  session = null;
}

const RANKS = { viewer: 0, operator: 1, admin: 2 };
// What the token of a workspace may do beside reading; the others have their rank.
const OF_WORKSPACE = new Set(["pause", "test", "endpoints", "resend", "dead-letter"]);
const RANK_OF = { pause: 1, test: 1, resend: 1, "dead-letter": 1, bulk: 1, delivery: 1, job: 1, gap: 1, alert: 1, explain: 1, evidence: 1, types: 1, replay: 1, portal: 1, erase: 2, endpoints: 2, audit: 2, tokens: 2 };

export function may(what) {
  if (!session) return false;
  return session.role === "workspace" ? OF_WORKSPACE.has(what) && !session.readOnly : RANKS[session.role] >= RANK_OF[what];
}

export const isTenant = () => session?.role === "workspace";

// ---- live ----

// Reads server-sent events until the signal ends them: calls on(kind, data) for each, and state(true or false)
// when the stream begins or is lost. Begins again by itself.
export async function stream(query, signal, on, state) {
  let last = "";
  while (!signal.aborted) {
    try {
      const response = await send("GET", address("/stream", query), { signal, headers: last ? { "Last-Event-ID": last } : {} });
      state(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          const fields = Object.fromEntries(message.split("\n").filter((l) => l && l[0] !== ":").map((l) => {
            const i = l.indexOf(":");
            return [l.slice(0, i), l.slice(i + 1).trimStart()];
          }));
          if (fields.id) last = fields.id;
          if (fields.data) on(fields.event, JSON.parse(fields.data));
        }
      }
    } catch (e) {
      if (signal.aborted || e.status === 401 || e.status === 403) return;
    }
    state(false);
    await new Promise((done) => setTimeout(done, 2000));
  }
}
