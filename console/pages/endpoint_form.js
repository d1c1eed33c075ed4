// endpoint_form: makes and changes an endpoint of run time.
import { act, at, inPortal, isTenant, signedIn } from "./api.js";
import { ask, secret } from "./dialog.js";
import { field } from "./form.js";
import { copy } from "./states.js";
import { t } from "./texts.js";

export const shown = (e) => e.description || e.name;

const LISTS = ["types", "workspaces", "sources"];
const TEXTS = ["url", "description", "timeout", "retry_policy", "ordered"];

const split = (text) => text.split(/[\s,]+/).filter(Boolean);

function fields(s, description) {
  const list = (name) => (Array.isArray(s[name]) ? s[name].join(", ") : "");
  const rest = Object.fromEntries(Object.entries(s).filter(([k]) => ![...LISTS, ...TEXTS].includes(k)));
  return [
    field({ name: "url", label: "URL", kind: "url", value: s.url || "", required: !s.transport, hint: isTenant() ? "https://…" : "https://…, or http:// to this network with allow_private" }),
    field({ name: "description", label: t`Description`, value: description || "", max: 256 }),
    field({ name: "types", label: t`Types`, value: list("types"), hint: t`such as invoice.*, with commas; empty: all` }),
    !isTenant() && field({ name: "workspaces", label: "Workspaces", value: list("workspaces"), hint: "empty: all" }),
    field({ name: "sources", label: t`Sources`, value: list("sources"), hint: t`empty: all` }),
    field({ name: "timeout", label: t`Time limit of an attempt`, value: s.timeout || "", hint: t`such as 20s; empty: the default` }),
    !isTenant() && field({ name: "retry_policy", label: "Retry policy", value: s.retry_policy || "", hint: "empty: default" }),
    field({ name: "ordered", label: t`Order`, options: [{ value: "", label: t`none: several deliveries at the same time` },
      { value: "workspace", label: t`one at a time in each workspace` }, { value: "all", label: t`one at a time` }], value: s.ordered || "" }),
    field({ name: "rest", label: t`Other settings, as JSON`, kind: "area", mono: true, value: Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "",
      hint: inPortal() ? t`"…" stands for a secret, and stays as it is` : "keys of an endpoint in grapnel.yaml, such as {\"max_in_flight\": 8}; \"…\" stands for a secret, and stays as it is" }),
  ].filter(Boolean);
}

function readForm(v) {
  const out = {};
  for (const name of TEXTS) if (v[name] !== undefined) out[name] = v[name].trim() || null;
  for (const name of LISTS) if (v[name] !== undefined) out[name] = split(v[name]).length ? split(v[name]) : null;
  const rest = v.rest?.trim() ? JSON.parse(v.rest) : {};
  if (typeof rest !== "object" || Array.isArray(rest) || rest === null) throw Object.assign(new Error(t`Other settings: write a JSON object.`), { field: "rest" });
  return { ...out, ...rest };
}

function read(v) {
  try {
    return readForm(v);
  } catch (e) {
    throw e.field ? e : Object.assign(new Error(t`Other settings: this is not JSON: ${e.message}`), { field: "rest" });
  }
}

const showSecret = (value) => secret(t`The signing secret`, t`It is shown only now. The receiver verifies signatures with it.`, value, copy(value, t`Copy`, t`the secret`));

export async function create() {
  const made = await ask({ title: t`New endpoint`, action: t`Make it`, fields: fields({}, ""),
    text: t`It gets the events from now on.`,
    act: (v) => act("POST", "/endpoints", Object.fromEntries(Object.entries(read(v)).filter(([, value]) => value !== null))) });
  if (made?.secret) await showSecret(made.secret);
  return made;
}

// What differs from the settings that were shown; secrets that were not touched stay.
export const change = (e) => ask({ title: t`Change ${shown(e)}`, action: t`Change`, fields: fields(e.settings || {}, e.description),
  act: (v) => {
    const now = read(v);
    const before = { ...e.settings, description: e.description };
    const body = {};
    for (const key of new Set([...Object.keys(now), ...Object.keys(e.settings || {})])) {
      const a = JSON.stringify(before[key] ?? null);
      const b = JSON.stringify(now[key] ?? null);
      if (a !== b) body[key] = now[key] ?? null;
    }
    if (!Object.keys(body).length) throw new Error(t`Nothing was changed.`);
    return act("PATCH", at("endpoints", e.name), body, { match: `"${e.version}"` });
  } });

export async function rotate(e) {
  const done = await ask({ title: t`Make a new signing secret for ${shown(e)}?`, action: t`Make it`,
    text: t`For the overlap each request has a signature by both, so that the receiver can change over at any time.`,
    fields: [field({ name: "overlap", label: t`Overlap`, value: "24h", hint: t`such as 24h; 0s: the old secret ends at once` })],
    act: (v) => act("POST", `${at("endpoints", e.name)}/rotate-secret`, v.overlap ? { overlap: v.overlap } : {}) });
  if (done?.secret) await showSecret(done.secret);
  return done;
}

export const remove = (e) => ask({ title: t`Delete ${shown(e)}?`, action: t`Delete`, danger: true,
  text: [t`Attempts in flight end.`, " ", e.waiting + e.retrying > 0 && [t`${e.waiting + e.retrying} waiting deliveries become dead letters.`, " "], t`Its id is never used again.`],
  act: () => act("DELETE", e.temporary && signedIn().role !== "admin" ? at("temporary-endpoints", e.name) : at("endpoints", e.name), undefined, { match: `"${e.version}"` }) });
