// Tool calls in words: an icon and one line for each, made of the input alone, so that a call
// looks the same while it runs and years later. Pure.

import { oneLine, visible } from "../text/visible.js";

const text = (value) => (typeof value === "string" ? value : "");

const TOOLS = {
  bash: { icon: "terminal", isCommand: true, line: (input) => text(input.command) },
  bash_job: {
    icon: "terminal",
    line: (input) => `${text(input.action) || "poll"} job ${input.job ?? ""} ${text(input.text)}`.trim(),
  },
  read_file: {
    icon: "read",
    verb: "read",
    line: (input) => text(input.path) + (input.offset ? ` from line ${input.offset}` : ""),
  },
  write_file: { icon: "file", verb: "write", line: (input) => text(input.path) },
  edit_file: { icon: "edit", verb: "edit", line: (input) => text(input.path) },
  list_files: { icon: "folder", verb: "list", line: (input) => text(input.path) || "." },
  search_files: {
    icon: "search",
    verb: "search",
    line: (input) =>
      [
        text(input.pattern) || (Array.isArray(input.glob) ? input.glob.join(" ") : ""),
        input.path && `in ${text(input.path)}`,
      ]
        .filter(Boolean)
        .join(" "),
  },
  plan: {
    icon: "plan",
    verb: "plan",
    line: (input) => (Array.isArray(input.steps) ? `${input.steps.length} steps` : ""),
  },
};

/** @returns {{icon: string, verb: string, line: string, isCommand: boolean}} */
export function callWords(call) {
  const tool = TOOLS[call.name];
  const input = call.input && typeof call.input === "object" ? call.input : null;
  if (tool && input) {
    const line = tool.line(input);
    return {
      icon: tool.icon,
      verb: tool.verb ?? "",
      line: oneLine(line, 300),
      isCommand: tool.isCommand === true,
    };
  }
  const line = call.summary || (input ? JSON.stringify(input) : "");
  return {
    icon: tool?.icon ?? "tool",
    verb: oneLine(call.name, 60),
    line: oneLine(line, 300),
    isCommand: false,
  };
}

/** How a call ended, in two words: `exit 1`, `denied`. Null when it went well. */
export function endWords(call) {
  const exit = /(?:^|\n)exit code: (\d+)[^\n]*\s*$/.exec(resultText(call));
  if (exit && exit[1] !== "0") return `exit ${exit[1]}`;
  const killed = /(?:^|\n)killed by signal (\d+)[^\n]*\s*$/.exec(resultText(call));
  if (killed) return `killed by ${killed[1]}`;
  if (call.broken) return "broken";
  if (call.status === "lost") return "no result";
  return call.isError ? "failed" : null;
}

/** The text that the model got. */
export function resultText(call) {
  return call.content
    .map((block) => (block.type === "text" ? block.text : ""))
    .filter(Boolean)
    .join("\n");
}

/** The input as it is best read: a command as it is, a file's text as text, the rest as JSON. */
export function inputParts(call) {
  const { input } = call;
  if (input === null || typeof input !== "object")
    return [{ label: "Input", language: "json", text: JSON.stringify(input) ?? "" }];
  if (call.name === "bash" && typeof input.command === "string") {
    const { command, ...rest } = input;
    return [{ label: "Command", language: "sh", text: command }, ...others(rest)];
  }
  if (call.name === "write_file" && typeof input.content === "string") {
    return [{ label: "Content", language: text(input.path).split(".").at(-1), text: input.content }];
  }
  return others(input);
}

function others(input) {
  if (Object.keys(input).length === 0) return [];
  return [{ label: "Input", language: "json", text: visible(JSON.stringify(input, null, 2)) }];
}
