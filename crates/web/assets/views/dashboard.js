// The dashboard: a box for a quick task, and the jobs with their current activity. Polls the server
// every few seconds while the page is visible.

import { address, api, newRequestKey } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { bind } from "../keyboard.js";
import { makeComposer } from "../components/composer.js";
import { degradedNotice, empty, loading, problemNotice, toast } from "../components/feedback.js";
import { icon } from "../components/icons.js";
import { makeJobTable, moveFocus } from "../components/job_table.js";
import { isActive } from "../components/status.js";

const PAGE_SIZE = 50;
const MAX_REFRESHED = 200;
const BUSY_INTERVAL_MS = 2000;
const IDLE_INTERVAL_MS = 5000;

const FILTERS = [
  ["", "All"],
  ["pending", "Queued"],
  ["running", "Running"],
  ["complete", "Complete"],
  ["error", "Failed"],
];

export function dashboard({ query, me, go }) {
  const filter = {
    status: FILTERS.some(([name]) => name === query.get("status")) ? query.get("status") : "",
    q: query.get("q") ?? "",
  };
  const table = makeJobTable({ showOwner: me.role === "admin" && me.needs_key, label: "Jobs" });
  const content = h("div.list-content", null, loading());
  const notice = h("div");
  const degraded = h("div");
  const live = h("p.visually-hidden", { role: "status", "aria-live": "polite" });
  const more = h("button.button", { type: "button", hidden: true }, "Load more");
  let jobs = null;
  let cursor = null;
  let timer = null;
  let request = null;
  let isStopped = false;

  const chips = h("div.chips", { role: "group", "aria-label": "Status" });
  const search = h("input.search", {
    type: "search",
    value: filter.q,
    placeholder: "Filter tasks",
    "aria-label": "Filter tasks",
    autocomplete: "off",
  });
  const composer = makeComposer({
    label: "Task",
    placeholder: "What should be built, fixed or found out?",
    action: "Run",
    needsControl: true,
    extra: h("a.button.quiet", { href: "/new" }, "Options"),
    async send(text) {
      const job = await api.schedule({ task: text }, { key: newRequestKey() });
      toast("Scheduled", "good");
      go(address.job(job.id));
    },
  });

  function drawChips() {
    fill(
      chips,
      FILTERS.map(([name, label]) =>
        h(
          "button.chip",
          {
            type: "button",
            "aria-pressed": String(filter.status === name),
            on: { click: () => choose({ status: name }) },
          },
          label,
        ),
      ),
    );
  }

  function choose(change) {
    Object.assign(filter, change);
    const values = Object.entries(filter).filter(([, value]) => value !== "");
    window.history.replaceState(null, "", values.length > 0 ? `/?${new URLSearchParams(values)}` : "/");
    jobs = null;
    drawChips();
    refresh();
  }

  async function refresh() {
    clearTimeout(timer);
    request?.abort();
    request = new AbortController();
    const mine = request;
    const limit = Math.min(MAX_REFRESHED, Math.max(PAGE_SIZE, jobs?.length ?? 0));
    try {
      const page = await api.jobs({ ...filter, limit }, mine.signal);
      const hadMore = jobs !== null && jobs.length > limit;
      const head = new Set(page.jobs.map((job) => job.id));
      jobs = hadMore ? [...page.jobs, ...jobs.slice(limit).filter((job) => !head.has(job.id))] : page.jobs;
      if (!hadMore) cursor = page.next_cursor ?? null;
      fill(notice);
      draw();
      fill(degraded, degradedNotice(await api.degraded(mine.signal)));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      if (!notice.firstChild) fill(notice, problemNotice(problem));
    }
    schedule();
  }

  function schedule() {
    clearTimeout(timer);
    if (isStopped || document.hidden) return;
    timer = setTimeout(refresh, jobs?.some(isActive) ? BUSY_INTERVAL_MS : IDLE_INTERVAL_MS);
  }

  async function loadMore() {
    more.disabled = true;
    try {
      const page = await api.jobs({ ...filter, cursor, limit: PAGE_SIZE });
      const known = new Set(jobs.map((job) => job.id));
      jobs = [...jobs, ...page.jobs.filter((job) => !known.has(job.id))];
      cursor = page.next_cursor ?? null;
      draw();
    } catch (problem) {
      fill(notice, problemNotice(problem));
    }
    more.disabled = false;
  }

  function draw() {
    table.show(jobs);
    more.hidden = cursor === null;
    const isFiltered = filter.q !== "" || filter.status !== "";
    if (jobs.length === 0) {
      fill(content, isFiltered ? empty("No job matches", "Try another word, or another status.") : welcome());
    } else if (table.element.parentNode !== content) fill(content, table.element);
    setText(live, `${jobs.filter(isActive).length} jobs active, ${jobs.length} shown`);
  }

  function welcome() {
    const idea = (task) =>
      h(
        "li",
        null,
        h(
          "button.button.quiet.idea",
          { type: "button", on: { click: () => go(`/new?task=${encodeURIComponent(task)}`) } },
          icon("right"),
          task,
        ),
      );
    return empty(
      "The cell is empty",
      "Describe a task above. An agent works on it in a sealed sandbox; you watch through the glass and take out the result.",
      h(
        "ul.ideas",
        null,
        [
          "Build a todo app in plain HTML and JavaScript",
          "Write a parser for cron expressions, with tests",
          "Plot the Mandelbrot set into a PNG",
        ].map(idea),
      ),
    );
  }

  let typing = null;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => choose({ q: search.value.trim() }), 200);
  });
  more.addEventListener("click", loadMore);
  const onVisibilityChange = () => (document.hidden ? clearTimeout(timer) : refresh());
  document.addEventListener("visibilitychange", onVisibilityChange);
  const unbind = [
    bind("/", "Filter tasks", () => search.focus(), "Jobs"),
    bind("j", "Next job", () => moveFocus(table.rows(), 1), "Jobs"),
    bind("k", "Previous job", () => moveFocus(table.rows(), -1), "Jobs"),
    bind("i", "Write a task", () => composer.focus(), "Jobs"),
  ];
  drawChips();
  refresh();

  return {
    title: "Jobs",
    element: h(
      "div.page",
      null,
      h("h1.visually-hidden", null, "Jobs"),
      h("section.quick", { "aria-label": "Quick task" }, composer.element),
      h("div.list-tools", null, chips, search),
      notice,
      degraded,
      content,
      h("div.list-end", null, more),
      live,
    ),
    stop() {
      isStopped = true;
      clearTimeout(timer);
      clearTimeout(typing);
      request?.abort();
      document.removeEventListener("visibilitychange", onVisibilityChange);
      unbind.forEach((undo) => undo());
    },
  };
}
