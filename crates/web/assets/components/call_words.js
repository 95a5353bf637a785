// Tool calls in words: an icon and one line, how the call ended, and its input. All of it comes
// from the call's summary. Pure.

import { genericSummary } from "../state/call_summary.js";
import { languageOfFile } from "../text/languages.js";
import { oneLine, visible } from "../text/visible.js";

const MAX_VERB_CHARS = 60;
const MAX_LINE_CHARS = 400;
const MAX_END_CHARS = 80;
const MAX_LABEL_CHARS = 40;

const ICONS = {
  command: "terminal",
  read: "read",
  write: "file",
  edit: "edit",
  list: "folder",
  search: "search",
  plan: "plan",
  other: "tool",
};

const summaryOf = (call) => call.summary ?? genericSummary(call.name, call.input);

/**
 * A shell command has no verb: the style puts a `$` before its line.
 * @returns {{icon: string, verb: string, line: string, isCommand: boolean}}
 */
export function callWords(call) {
  const { kind, verb, subject } = summaryOf(call);
  const isCommand = kind === "command" && verb === "$";
  return {
    icon: ICONS[kind],
    verb: isCommand ? "" : oneLine(verb, MAX_VERB_CHARS),
    line: oneLine(subject, MAX_LINE_CHARS),
    isCommand,
  };
}

/** What came of a call, in a few words, such as `exit code 1`. Null if there is nothing to say. */
export function endWords(call) {
  if (call.broken) return "broken";
  if (call.status === "lost") return "no result";
  const { detail, output } = summaryOf(call);
  // The detail of a diff is the number of lines, which is shown beside the changes.
  if (detail !== "" && output !== "diff") return oneLine(detail, MAX_END_CHARS);
  return call.isError ? "failed" : null;
}

/** The text that the model got. */
export function resultText(call) {
  return call.content
    .map((block) => (block.type === "text" ? block.text : ""))
    .filter(Boolean)
    .join("\n");
}

/** What is shown of the input when a call is opened: one argument as text, or everything as JSON. */
export function inputParts(call) {
  const { kind, input: shown } = summaryOf(call);
  const { input } = call;
  if (shown.show === "nothing") return [];
  if (input === null || typeof input !== "object")
    return [{ label: "Input", language: "json", text: JSON.stringify(input) ?? "" }];
  if (shown.show === "argument" && typeof input[shown.name] === "string") {
    const { [shown.name]: argument, ...rest } = input;
    const part = { label: labelOf(shown.name), language: languageNamed(shown.language), text: argument };
    return kind === "command" ? [part, ...asJson(rest)] : [part];
  }
  return asJson(input);
}

function asJson(input) {
  if (Object.keys(input).length === 0) return [];
  return [{ label: "Input", language: "json", text: visible(JSON.stringify(input, null, 2)) }];
}

/** The name of an argument with a capital letter. */
function labelOf(name) {
  const label = oneLine(name, MAX_LABEL_CHARS);
  return label.charAt(0).toUpperCase() + label.slice(1) || "Input";
}

/** A language by its name, or by the name of a file. */
function languageNamed(name) {
  const isPlain = !/[/.]/.test(name);
  return oneLine(isPlain ? name : languageOfFile(name), MAX_LABEL_CHARS);
}
