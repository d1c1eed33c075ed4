// job: long work of a process, its progress, and its end.
import { act, at, get } from "./api.js";
import { open } from "./dialog.js";
import { h, replace } from "./dom.js";
import { badge } from "./states.js";
import { count } from "./text.js";

export const isOver = (job) => !["waiting", "running"].includes(job.state);

// Whether somebody can cancel it.
export const mayEnd = (job) => !isOver(job) && job.kind !== "workspace_erase";

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Reads a job until it has ended.
export async function finished(job) {
  for (let ms = 100; !isOver(job); ms = Math.min(1000, ms * 2)) {
    await wait(ms);
    job = await get(at("jobs", job.id));
  }
  return job;
}

// Shows the progress. The job goes on if the dialog is closed.
export function watch(title, job) {
  return open(title, (close) => {
    const place = h("div", { class: "stack" });
    let watching = true;

    async function cancel() {
      try {
        draw(await act("POST", `${at("jobs", job.id)}/cancel`, {}));
      } catch (e) {
        draw(job, e.message);
      }
    }

    function draw(now, problem) {
      job = now;
      const handled = now.done + now.failed + now.skipped;
      replace(place, h("p", { role: "status" }, badge(now.state), ` ${count(now.done)} done`, now.failed > 0 && `, ${count(now.failed)} not: ${now.last_error || ""}`, now.total !== null && `, of ${count(now.total)}`),
        h("progress", { max: now.total || 1, value: isOver(now) ? now.total || 1 : handled, "aria-label": "progress" }),
        problem && h("p", { class: "note bad", role: "alert" }, problem),
        h("p", { class: "soft small" }, isOver(now) ? "What is done stays done." : "It goes on if you close this."),
        h("div", { class: "buttons" }, mayEnd(now) && h("button", { class: "danger", onclick: cancel }, "Cancel the job"),
          h("button", { class: "main", onclick: () => {
            watching = false;
            close(true);
          } }, "Close")));
    }

    draw(job);
    (async () => {
      while (watching && place.closest("dialog[open]") !== undefined && !isOver(job)) {
        await wait(500);
        try {
          draw(await get(at("jobs", job.id)));
        } catch (e) {
          if (e.status === 401) return;
          draw(job, e.message);
        }
      }
    })();
    return place;
  });
}
