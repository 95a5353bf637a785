// The logs of a job: its own, and the audit log of its sandbox. Follows them while the job runs.

import { address, api } from "../api.js";
import { fill, h } from "../dom.js";
import { empty, problemNotice } from "../components/feedback.js";
import { icon } from "../components/icons.js";
import { log } from "../components/output_view.js";
import { isActive } from "../components/status.js";
import { limitWords } from "../text/format.js";
import { visible } from "../text/visible.js";

const TAIL_BYTES = 256 * 1024;
const POLL_INTERVAL_MS = 2000;
const NAMES = { job: "Job log", audit: "Audit log" };

export function makeLogs(id, job) {
  const view = h("div.log", { tabindex: 0, role: "group", "aria-label": "Log" });
  const follow = h("input", { type: "checkbox", id: "log-follow", checked: true });
  const chips = h("div.chips", { role: "group", "aria-label": "Which log" });
  const download = h("a.button.quiet.small", { download: "" }, icon("download"), "Whole log");
  const element = h(
    "div.logs-panel",
    null,
    h(
      "div.panel-tools",
      null,
      chips,
      h("div.spacer"),
      h("div.check", null, follow, h("label", { for: "log-follow" }, "Follow")),
      download,
    ),
    view,
  );
  let name = "job";
  let timer = null;
  let shown = null;
  let request = null;

  function drawChips() {
    fill(
      chips,
      Object.entries(NAMES).map(([key, label]) =>
        h(
          "button.chip",
          { type: "button", "aria-pressed": String(key === name), on: { click: () => choose(key) } },
          label,
        ),
      ),
    );
    download.setAttribute("href", address.log(id, name));
  }

  function choose(key) {
    name = key;
    shown = null;
    drawChips();
    load();
  }

  async function load() {
    clearTimeout(timer);
    request?.abort();
    request = new AbortController();
    try {
      const text = await api.logs(id, name, TAIL_BYTES, request.signal);
      if (text !== shown) draw(text);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      shown = null;
      fill(
        view,
        problem.status === 404 ? empty("No log yet", "It starts with the job.") : problemNotice(problem),
      );
    }
    if (isActive(job()) && !document.hidden) timer = setTimeout(load, POLL_INTERVAL_MS);
  }

  function draw(text) {
    shown = text;
    if (text.trim() === "") fill(view, empty("The log is empty", "Events are written here."));
    else if (name === "audit") fill(view, auditTable(text));
    else log(view, text);
    toEnd();
  }

  /** Repeats in the next frames, because the height of the last part is known only then. */
  function toEnd(times = 3) {
    if (!follow.checked || times === 0) return;
    view.scrollTop = view.scrollHeight;
    requestAnimationFrame(() => toEnd(times - 1));
  }

  follow.addEventListener("change", () => toEnd());
  view.addEventListener(
    "wheel",
    (event) => {
      if (event.deltaY < 0) follow.checked = false;
    },
    { passive: true },
  );
  drawChips();

  return {
    element,
    shown: load,
    hidden() {
      clearTimeout(timer);
      request?.abort();
    },
  };
}

function isNothing(value) {
  return value === null || value === false || value === "" || (Array.isArray(value) && value.length === 0);
}

function shellWord(word) {
  return /^[\w./=:@%+,-]+$/.test(word) ? word : JSON.stringify(word);
}

/** A value in readable form. */
function factWords(key, value) {
  if (typeof value !== "object" || value === null) return String(value);
  if (key === "argv") return value.map(shellWord).join(" ");
  if (Array.isArray(value)) return value.join("; ");
  return Object.entries(value)
    .map(([key, one]) => `${key} ${limitWords(String(one))}`)
    .join(", ");
}

/** One line per record of the audit log. An incomplete first line is left out. */
function auditTable(text) {
  const rows = text.split("\n").map(readRecord).filter(Boolean);
  return h(
    "table.plain-table.audit",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        ["Time", "What", "Facts"].map((title) => h("th", { scope: "col" }, title)),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map(({ time, kind, rest }) =>
        h(
          "tr",
          null,
          h("td", null, time),
          h("td", null, h("span.tag", null, kind)),
          h("td", null, h("code", null, rest)),
        ),
      ),
    ),
  );
}

function readRecord(line) {
  let record;
  try {
    record = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof record?.event !== "object" || record.event === null) return null;
  const { kind, ...facts } = record.event;
  const words = Object.entries(facts)
    .filter(([, value]) => !isNothing(value))
    .map(([key, value]) => `${key}: ${factWords(key, value)}`);
  const time = String(record.time ?? "")
    .replace(/^\d{4}-\d\d-\d\dT/, "")
    .replace(/Z$/, "");
  return { time: visible(time), kind: visible(String(kind)), rest: visible(words.join("\n")) };
}
