// page_jobs: long work of all processes, its progress, and its end.
import { act, at, get, may } from "./api.js";
import { ask, open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { isOver, mayEnd } from "./job.js";
import { replay } from "./replay.js";
import { badge, copy, curl, empty, toast } from "./states.js";
import { list } from "./table.js";
import { count, words } from "./text.js";
import { time } from "./time.js";

export const title = () => "Jobs";

export function show(place, context) {
  const rows = h("div");
  const cancel = (j) => ask({ title: `Cancel ${words(j.kind)}?`, action: "Cancel the job", danger: true, text: "It ends between two items. What is done stays done.",
    act: async () => {
      await act("POST", `${at("jobs", j.id)}/cancel`, {});
      toast("It is cancelled.");
      jobs.reload();
    } });
  // What was asked for, and what came of it.
  const details = (j) => open(words(j.kind), (close) => h("div", { class: "stack" },
    h("dl", { class: "facts" }, [["Job", h("span", { class: "mono" }, j.id)], ["State", badge(j.state)], ["Process", j.process], ["By", j.who], ["Made", time(j.created_at)], ["Ended", time(j.ended_at)],
      ["Left out", count(j.skipped)], j.last_item && ["Last item", h("span", { class: "mono" }, j.last_item)], j.last_error && ["Last error", j.last_error]].filter(Boolean).map(([n, v]) => [h("dt", null, n), h("dd", null, v)])),
    h("h3", null, "What was asked for"), h("pre", { class: "block", tabindex: "0" }, JSON.stringify(j.args, null, 2)),
    j.result && [h("h3", null, "Result"), h("pre", { class: "block", tabindex: "0" }, JSON.stringify(j.result, null, 2))],
    h("div", { class: "buttons" }, copy(j.id, "copy id", "of the job"), h("button", { class: "main", onclick: () => close() }, "Close"))));

  async function again() {
    if (!(await replay())) return;
    toast("They are sent again.");
    jobs.reload();
  }

  const jobs = list(rows, {
    label: "jobs", key: (j) => j.id + j.state,
    columns: [
      { head: "Made", cell: (j) => time(j.created_at) },
      { head: "What", cell: (j) => h("button", { class: "plain", onclick: () => details(j) }, words(j.kind)) },
      { head: "State", cell: (j) => badge(j.state) },
      { head: "Progress", cell: (j) => [h("progress", { max: j.total || 1, value: isOver(j) && j.state === "done" ? j.total || 1 : j.done + j.failed + j.skipped, "aria-label": `${j.done} of ${j.total ?? "?"}` })] },
      { head: "Done", number: true, cell: (j) => `${count(j.done)} of ${j.total === null ? "?" : count(j.total)}` },
      { head: "Not", number: true, wide: true, cell: (j) => (j.failed ? h("span", { title: j.last_error || "" }, badge(count(j.failed), "bad")) : "0") },
      { head: "Process", wide: true, cell: (j) => j.process },
      { head: "By", wide: true, cell: (j) => h("span", { class: "clip", title: j.who }, j.who) },
      { head: "Ended", wide: true, cell: (j) => time(j.ended_at) },
      ...(may("job") ? [{ head: "", cell: (j) => mayEnd(j) && h("button", { class: "small danger", onclick: () => cancel(j) }, "Cancel…") }] : []),
    ],
    read: (cursor) => get("/jobs", { limit: 50, cursor }, context.signal),
    none: () => h("div", { class: "card" }, empty("No job", h("p", { class: "soft" }, "Decisions about many ", h("a", { href: "/dead-letters" }, "dead letters"), ", replays and erasures are jobs: they survive a crash, and can be cancelled."))),
  });
  replace(place, h("div", { class: "head" }, h("h1", null, "Jobs"), h("span", { class: "grow" }), curl("/jobs"), may("replay") && h("button", { class: "main", onclick: again }, "Replay events…")), rows);
  jobs.reload();
  context.every(2000, () => !document.querySelector("dialog[open]") && jobs.refresh());
}
