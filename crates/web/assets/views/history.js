// The history: all jobs by day, and a search through all messages.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { bind } from "../keyboard.js";
import { empty, loading, problemNotice } from "../components/feedback.js";
import { makeJobTable, moveFocus } from "../components/job_table.js";
import { dayName, plural } from "../text/format.js";
import { visible } from "../text/visible.js";

const PAGE_SIZE = 100;
const MAX_RESULTS = 50;
const KINDS = [
  ["", "All"],
  ["task", "Tasks"],
  ["chat", "Chats"],
];

export function history({ query, me }) {
  const filter = { q: query.get("q") ?? "", kind: query.get("kind") ?? "" };
  const showOwner = me.role === "admin" && me.needs_key;
  const search = h("input.search.large", {
    type: "search",
    value: filter.q,
    placeholder: "Search everything that was said",
    "aria-label": "Search everything that was said",
    autocomplete: "off",
  });
  const chips = h("div.chips", { role: "group", "aria-label": "Kind" });
  const content = h("div.list-content", null, loading());
  const summary = h("p.quiet", { role: "status", "aria-live": "polite" });
  const more = h("button.button", { type: "button", hidden: true }, "Load more");
  let jobs = [];
  let cursor = null;
  let request = null;
  let tables = [];

  const isWanted = (job) => filter.kind === "" || (filter.kind === "chat") === (job.interactive === true);

  function drawChips() {
    fill(
      chips,
      KINDS.map(([name, label]) =>
        h(
          "button.chip",
          {
            type: "button",
            "aria-pressed": String(filter.kind === name),
            on: { click: () => choose({ kind: name }) },
          },
          label,
        ),
      ),
    );
  }

  function choose(change) {
    Object.assign(filter, change);
    const values = Object.entries(filter).filter(([, value]) => value !== "");
    window.history.replaceState(
      null,
      "",
      `/history${values.length > 0 ? `?${new URLSearchParams(values)}` : ""}`,
    );
    drawChips();
    load();
  }

  async function load() {
    request?.abort();
    request = new AbortController();
    const { signal } = request;
    try {
      if (filter.q !== "") drawFound(await api.search(filter.q, MAX_RESULTS, signal));
      else {
        const page = await api.jobs({ limit: PAGE_SIZE }, signal);
        jobs = page.jobs;
        cursor = page.next_cursor ?? null;
        drawDays();
      }
    } catch (problem) {
      if (problem.name !== "AbortError") fill(content, problemNotice(problem));
    }
  }

  async function loadMore() {
    more.disabled = true;
    try {
      const page = await api.jobs({ limit: PAGE_SIZE, cursor });
      jobs = [...jobs, ...page.jobs];
      cursor = page.next_cursor ?? null;
      drawDays();
    } catch (problem) {
      fill(summary, problem.message);
    }
    more.disabled = false;
  }

  function drawDays() {
    const days = new Map();
    for (const job of jobs.filter(isWanted)) {
      const name = dayName(job.created);
      if (!days.has(name)) days.set(name, []);
      days.get(name).push(job);
    }
    more.hidden = cursor === null;
    summary.textContent = "";
    tables = [];
    if (days.size === 0) {
      fill(
        content,
        empty("Nothing here yet", "What you schedule and say is kept here, and can be searched."),
      );
      return;
    }
    fill(
      content,
      [...days].map(([name, list]) =>
        h("section.day", null, h("h2", null, name), tableOf(name, list).element),
      ),
    );
  }

  function tableOf(label, list) {
    const table = makeJobTable({ showOwner, label });
    table.show(list);
    tables.push(table);
    return table;
  }

  function drawFound({ found }) {
    const wanted = found.filter(({ job }) => isWanted(job));
    more.hidden = true;
    tables = [];
    summary.textContent = wanted.length === 0 ? "" : `${plural(wanted.length, "job")} found`;
    if (wanted.length === 0) {
      fill(content, empty("Nothing found", "Whole words are found best: names, commands, messages."));
      return;
    }
    const table = tableOf(
      "Found jobs",
      wanted.map(({ job }) => job),
    );
    for (const { job, excerpt } of wanted) table.excerpt(job.id, marked(excerpt, filter.q));
    fill(content, table.element);
  }

  let typing = null;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => choose({ q: search.value.trim() }), 250);
  });
  more.addEventListener("click", loadMore);
  const links = () => tables.flatMap((table) => table.rows());
  const unbind = [
    bind("/", "Search", () => search.focus(), "History"),
    bind("j", "Next job", () => moveFocus(links(), 1), "History"),
    bind("k", "Previous job", () => moveFocus(links(), -1), "History"),
  ];
  drawChips();
  load();

  return {
    title: "History",
    element: h(
      "div.page",
      null,
      h("h1", null, "History"),
      h("div.list-tools", null, search, chips),
      summary,
      content,
      h("div.list-end", null, more),
    ),
    stop() {
      clearTimeout(typing);
      request?.abort();
      unbind.forEach((undo) => undo());
    },
  };
}

/** An excerpt with the words of a query marked. */
export function marked(excerpt, query) {
  const words = (query.match(/[\p{L}\p{N}_]+/gu) ?? []).slice(0, 20);
  const text = visible(excerpt).replace(/\s+/g, " ");
  if (words.length === 0) return [text];
  const pattern = new RegExp(
    `(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`,
    "giu",
  );
  return text.split(pattern).map((part, index) => (index % 2 === 1 ? h("mark", null, part) : part));
}
