// One tool call: a summary line that opens to show input, output and changes. Closed content is not
// built.

import { fill, h, setText } from "../dom.js";
import { bytes, duration, plural } from "../text/format.js";
import { visible, visibleName } from "../text/visible.js";
import { callWords, endWords, inputParts, resultText } from "./call_words.js";
import { codeBlock } from "./code_view.js";
import { changeCounts, diffRows, diffSize } from "./diff_view.js";
import { icon } from "./icons.js";
import { output, showLive } from "./output_view.js";

/** Diffs with at most this many rows are open by default. */
const SHORT_DIFF = 24;

const STATUS_WORDS = {
  writing: "writing",
  waiting: "waiting",
  running: "running",
  done: "done",
  failed: "failed",
  lost: "no result",
};

export function makeCall(call) {
  const parts = {
    icon: h("span.call-icon"),
    verb: h("span.call-verb"),
    line: h("span.call-line"),
    counts: h("span.call-counts"),
    end: h("span.call-end"),
    time: h("span.call-time"),
    state: h("span.call-state"),
    body: h("div.call-body"),
    live: h("pre.output.live", { hidden: true, "aria-label": "Live output" }),
    changes: h("div.call-changes"),
  };
  const details = h(
    "details.call-details",
    null,
    h("summary", null, parts.icon, parts.verb, parts.line, parts.counts, parts.end, parts.time, parts.state),
    parts.body,
  );
  details.addEventListener("toggle", () => {
    if (details.open) fillBody(parts.body, element.shownCall);
    else fill(parts.body);
  });
  const element = h("div.call", null, details, parts.live, parts.changes);
  element.parts = parts;
  element.details = details;
  updateCall(element, call);
  return element;
}

export function updateCall(element, call) {
  const { parts, details } = element;
  const words = callWords(call);
  const isNew = element.shownCall !== call;
  element.shownCall = call;
  element.classList.toggle("is-command", words.isCommand);
  if (element.dataset.status !== call.status) {
    element.dataset.status = call.status;
    fill(parts.state, stateMark(call.status));
  }
  if (parts.icon.dataset.name !== words.icon) {
    parts.icon.dataset.name = words.icon;
    fill(parts.icon, icon(words.icon));
  }
  setText(parts.verb, words.verb);
  setText(
    parts.line,
    words.line || (call.status === "writing" ? `${bytes(call.inputText.length)} so far` : ""),
  );
  setText(parts.end, endWords(call) ?? "");
  setText(parts.time, call.millis !== null ? duration(call.millis / 1000) : "");
  const isLive = call.status === "running" && call.output !== "";
  parts.live.hidden = !isLive;
  if (isLive) showLive(parts.live, call.output);
  else if (parts.live.firstChild) fill(parts.live);
  if (call.isOver && element.shownChanges !== call.changes) showChanges(element, call, words.line);
  if (details.open && (isNew || call.isOver)) fillBody(parts.body, call);
}

function stateMark(status) {
  const name = { done: "check", failed: "cross", lost: "cross" }[status];
  const moving = status === "waiting" ? h("span.waiting-dot") : h("span.spinner", { "aria-hidden": "true" });
  return [name ? icon(name) : moving, h("span.visually-hidden", null, STATUS_WORDS[status])];
}

function showChanges(element, call, line) {
  element.shownChanges = call.changes;
  const { changes, counts } = element.parts;
  let added = 0;
  let removed = 0;
  fill(
    changes,
    call.changes.map((change) => {
      if (!change.diff)
        return h(
          "p.change-note",
          null,
          h("bdi", null, visibleName(change.path)),
          " changed; there is no text to show",
        );
      const size = diffSize(change.diff);
      added += size.added;
      removed += size.removed;
      const isNamed = call.changes.length === 1 && visibleName(change.path) === line;
      return changeDetails(change, size, isNamed);
    }),
  );
  fill(counts, added + removed > 0 && changeCounts(added, removed));
}

/**
 * If the change is of the one file that the call names, the summary line already shows its name.
 */
function changeDetails(change, size, isNamed) {
  const body = h("div");
  const details = h(
    "details.change",
    { open: size.rows <= SHORT_DIFF },
    h(
      "summary",
      null,
      icon("right"),
      isNamed
        ? h("span.quiet", null, `Show ${plural(size.rows, "line")}`)
        : [h("bdi.path", null, visibleName(change.path)), changeCounts(size.added, size.removed)],
    ),
    body,
  );
  const build = () => {
    if (details.open && !body.firstChild) body.append(diffRows(change.diff, visibleName(change.path)));
  };
  details.addEventListener("toggle", build);
  build();
  return details;
}

function fillBody(body, call) {
  const result = resultText(call);
  const pictures = call.content.filter((block) => block.type === "image" && block.source?.type === "base64");
  fill(
    body,
    inputParts(call).map((part) =>
      section(
        part.label,
        part.text === "" ? h("p.quiet", null, "empty") : codeBlock(part.text, part.language),
      ),
    ),
    call.broken && section("Not run", h("p", null, visible(call.broken))),
    result !== "" && section(call.isError ? "Error" : "Result", output(result, "Result")),
    pictures.map((block) =>
      h("img.picture", {
        alt: "Image from the tool",
        src: `data:${block.source.media_type};base64,${block.source.data}`,
      }),
    ),
    call.kept &&
      h(
        "p.quiet",
        null,
        `The whole output is stored as ${visibleName(call.kept.handle)} (${bytes(call.kept.bytes)}).`,
      ),
    !call.isOver && result === "" && h("p.quiet", null, "No result yet."),
  );
}

function section(label, ...content) {
  return h("section.call-section", null, h("p.section-title", null, label), content);
}
