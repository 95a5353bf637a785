// Shows the output of programs: colours as classes, and the middle of long output hidden until
// requested. The text is untrusted and inserted as text only.

import { fill, h } from "../dom.js";
import { parseAnsi } from "../text/ansi.js";

const HEAD_LINES = 30;
const TAIL_LINES = 50;
const LINES_PER_PART = 400;

function lineNodes(lines) {
  const nodes = [];
  lines.forEach((runs, index) => {
    if (index > 0) nodes.push("\n");
    for (const run of runs)
      nodes.push(run.style === "" ? run.text : h("span", { class: run.style }, run.text));
  });
  return nodes;
}

/** The whole output, in parts that cost no layout out of view. */
function parts(lines) {
  const all = [];
  for (let from = 0; from < lines.length; from += LINES_PER_PART) {
    all.push(h("pre.output-part", null, lineNodes(lines.slice(from, from + LINES_PER_PART))));
  }
  return all;
}

/** The output of a finished command. */
export function output(text, label = "Output") {
  const lines = parseAnsi(text.replace(/\n+$/, ""));
  const element = h("div.output", { tabindex: 0, role: "group", "aria-label": label });
  if (lines.length <= HEAD_LINES + TAIL_LINES + 10) return fill(element, parts(lines));
  const hidden = lines.length - HEAD_LINES - TAIL_LINES;
  const button = h("button.button.quiet.small.show-all", { type: "button" }, `Show ${hidden} hidden lines`);
  button.addEventListener("click", () => {
    fill(element, parts(lines));
    element.focus();
  });
  return fill(element, parts(lines.slice(0, HEAD_LINES)), button, parts(lines.slice(-TAIL_LINES)));
}

/** The last lines of the output of a running command. */
export function showLive(element, text, most = 12) {
  const lines = parseAnsi(lastLines(text.replace(/\n+$/, ""), most));
  fill(element, lineNodes(lines));
}

function lastLines(text, most) {
  let at = text.length;
  for (let lines = 0; lines < most && at > 0; lines += 1) at = text.lastIndexOf("\n", at - 1);
  return text.slice(Math.max(at + 1, text.length - 20_000, 0));
}

/** The text of a job's log, complete. */
export function log(element, text) {
  fill(element, parts(parseAnsi(text.replace(/\n+$/, ""))));
}
