// A table of jobs that keeps its rows while their content changes. Shared by the dashboard and the
// history. Rows are links, so that they open like links.

import { h, keyed, set, setText } from "../dom.js";
import { address } from "../api.js";
import { age, clock, duration, fullTime, money } from "../text/format.js";
import { oneLine } from "../text/visible.js";
import { showLine } from "./code_view.js";
import { pill, stateWords, updatePill } from "./status.js";

export function makeJobTable({ showOwner, label }) {
  const body = h("tbody");
  const head = ["Status", "Task", showOwner && "Owner", "Cost", "Time", "Age"].filter(Boolean);
  const element = h(
    "table.jobs",
    { "aria-label": label },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        head.map((name) => h("th", { scope: "col", class: `column-${name.toLowerCase()}` }, name)),
      ),
    ),
    body,
  );

  function make(job) {
    const status = pill(job);
    const link = h("a.job-link", { href: address.job(job.id) });
    showLine(link, oneLine(job.task, 240));
    const parts = {
      status,
      link,
      excerpt: h("p.excerpt", { hidden: true }),
      under: h("span.under-words"),
      phoneState: h("span.phone-state", { "aria-hidden": "true" }),
      cost: h("td.column-cost"),
      time: h("td.column-time"),
      age: h("td.column-age"),
    };
    const row = h(
      "tr.job-row",
      { data: { id: job.id } },
      h("td.column-status", null, status),
      h("td.column-task", null, link, h("span.under", null, parts.phoneState, parts.under), parts.excerpt),
      showOwner && h("td.column-owner", null, h("bdi", null, oneLine(job.owner, 40))),
      parts.cost,
      parts.time,
      parts.age,
    );
    row.addEventListener("click", (event) => {
      if (!event.target.closest("a, button") && String(getSelection()) === "") link.click();
    });
    row.parts = parts;
    return row;
  }

  function update(row, job) {
    const { status, phoneState, under, cost, time, age: old } = row.parts;
    updatePill(status, job);
    setText(phoneState, stateWords(job));
    setText(
      under,
      [job.interactive ? "chat" : null, job.model, job.failure && oneLine(job.failure.message, 120)]
        .filter(Boolean)
        .join(" · "),
    );
    setText(cost, money(job.spending?.cost));
    setText(time, job.started ? (job.ended ? duration : clock)(ranSeconds(job)) : "–");
    setText(old, age(job.created));
    set(old, "title", fullTime(job.created));
  }

  return {
    element,
    show: (jobs) => keyed(body, jobs, { key: (job) => job.id, make, update }),
    /** Puts an excerpt below a row's task. */
    excerpt(id, nodes) {
      const row = body.querySelector(`[data-id="${CSS.escape(id)}"]`);
      if (!row) return;
      row.parts.excerpt.hidden = false;
      row.parts.excerpt.replaceChildren(...nodes);
    },
    rows: () => [...body.querySelectorAll(".job-link")],
  };
}

/**
 * How long a job has run so far. Waiting for messages does not count, so the clock is used only for
 * a job that has never waited.
 */
export function ranSeconds(job, now = Date.now()) {
  const ran = Math.max(job.ran_seconds ?? 0, job.spending?.seconds ?? 0);
  return hasNeverWaited(job) ? Math.max(ran, (now - Date.parse(job.started)) / 1000) : ran;
}

export function hasNeverWaited(job) {
  return job.state === "running" && Boolean(job.started) && job.attempts === 1 && job.messages === 1;
}

/** `j` and `k` move the focus through links, wherever it is. */
export function moveFocus(links, step) {
  if (links.length === 0) return;
  const now = links.indexOf(document.activeElement);
  const next =
    now < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, now + step));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}
