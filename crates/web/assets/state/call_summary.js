// The summary of a tool call: made by the tool, sent with its events, and shown without knowing the
// tool. Reads it defensively. Pure. The format is `CallSummary` in the protocol.

const KINDS = ["command", "read", "write", "edit", "list", "search", "plan"];
const OUTPUTS = ["nothing", "command", "diff", "image", "plan", "rich"];

/** Arguments that tell what a call is about, the most telling first. */
const TELLING_ARGUMENTS = ["command", "path", "pattern", "query", "url", "name", "title", "text"];

const text = (value) => (typeof value === "string" ? value : "");
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** The summary of an event, or null if there is none. Unknown values are read as general ones. */
export function readSummary(value) {
  if (!isObject(value)) return null;
  return {
    verb: text(value.verb),
    subject: text(value.subject),
    detail: text(value.detail),
    kind: KINDS.includes(value.kind) ? value.kind : "other",
    input: readInput(value.input),
    output: OUTPUTS.includes(value.output) ? value.output : "text",
  };
}

function readInput(value) {
  if (isObject(value) && value.show === "nothing") return { show: "nothing" };
  if (isObject(value) && value.show === "argument" && typeof value.name === "string")
    return { show: "argument", name: value.name, language: text(value.language) };
  return { show: "all" };
}

/** For a call without a summary: it has not started yet, or an older release recorded it. */
export function genericSummary(name, input) {
  const telling = TELLING_ARGUMENTS.find((argument) => typeof input?.[argument] === "string");
  return readSummary({ verb: name, subject: telling && input[telling] });
}
