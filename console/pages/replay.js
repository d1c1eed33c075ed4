// replay: sends archived events again: asks which, counts them, then makes a job at each ingress.
import { act } from "./api.js";
import { ask, open } from "./dialog.js";
import { h } from "./dom.js";
import { field } from "./form.js";
import { finished } from "./job.js";
import { count, plural, words } from "./text.js";

const FILTERS = [
  { name: "since", label: "Received since", required: true, value: "1h", hint: "such as 30m, 2d or 2026-11-01T08:00:00Z" },
  { name: "until", label: "… and before", hint: "empty: now" },
  { name: "endpoint", label: "Only to this endpoint", hint: "empty: to all that are subscribed" },
  { name: "source", label: "Source" }, { name: "workspace", label: "Workspace" }, { name: "type", label: "Type", hint: "* stands for any text" },
  { name: "reason", label: "Only those that are dead for this reason", hint: "such as budget_time" },
];

const chosen = (v) => Object.fromEntries(FILTERS.map(({ name }) => [name, v[name]?.trim()]).filter(([, value]) => value));

// The sum of what the jobs have counted: {total, left_out: {reason: n}, unsure}
async function counted(wanted) {
  const { jobs, missing } = await act("POST", "/replays", { ...wanted, dry_run: true });
  const out = { total: 0, leftOut: {}, unsure: 0, missing: missing.map((m) => m.process) };
  for (const job of await Promise.all(jobs.map(finished))) {
    if (job.state !== "done") throw new Error(job.last_error || "They could not be counted.");
    out.total += job.total;
    out.unsure += job.result?.unsure ?? 0;
    for (const [reason, n] of Object.entries(job.result?.left_out ?? {})) out.leftOut[reason] = (out.leftOut[reason] ?? 0) + n;
  }
  return out;
}

// Resolves with the jobs, or null.
export async function replay(known = {}) {
  const wanted = await ask({ title: "Send events again", action: "Count them",
    text: "Archived events are delivered again, the oldest first, with their ids: receivers that have seen an id can ignore it. First they are counted.",
    fields: FILTERS.map((f) => field({ ...f, value: known[f.name] ?? f.value })),
    act: async (v) => ({ filters: chosen(v), found: await counted(chosen(v)) }) });
  if (!wanted) return null;
  const { filters, found } = wanted;
  const left = Object.entries(found.leftOut).filter(([, n]) => n).map(([reason, n]) => `${count(n)} ${words(reason)}`);
  const leftOut = left.length > 0 && ` Left out: ${left.join(", ")}.`;
  const away = found.missing.length > 0 && ` ${found.missing.join(", ")} did not count: what it has is not sent.`;
  const which = Object.entries(filters).map(([name, value]) => `${name} ${value}`).join(", ");
  if (!found.total) {
    await open("No event matches", (close) => h("div", { class: "form" }, h("p", null, which, ".", leftOut, away), h("div", { class: "buttons" }, h("button", { class: "main", onclick: () => close() }, "Close"))));
    return null;
  }
  return ask({ title: `Send ${plural(found.total, "event")} again?`, action: `Send ${count(found.total)} again`,
    text: [which, ". Those that come meanwhile are not among them.", leftOut, away,
      found.unsure > 0 && ` Of ${count(found.unsure)} only the body tells whether an endpoint is subscribed to them.`],
    fields: [field({ name: "rate", label: "At most this many a second", kind: "number", value: "500", min: 1 }),
      h("label", { class: "row" }, h("input", { type: "checkbox", name: "new_id", value: "yes" }), "As new events, with new ids: receivers process them once more")],
    act: async (v) => (await act("POST", "/replays", { ...filters, rate: Number(v.rate) || 500, ...(v.new_id ? { new_id: true } : {}) })).jobs });
}
