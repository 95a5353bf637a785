// Syntax highlighting: splits a text into tokens by the table of its language. A token's kind is a
// class name. Creates no elements, and skips texts that are too long.

import { languageOf } from "./languages.js";

const MAX_CHARS = 200_000;
/** Token kinds that have a pattern, in order of precedence. */
const KINDS = ["comment", "property", "string", "special", "keyword", "number"];
const WORD = /[A-Za-z_$][\w$]*/y;
const OTHER = /[ \t\n]+|[^\w\s"'`#/$@<>&-]+|[^]/y;

/**
 * @param {string} text
 * @param {string} language as in a code fence
 * @returns {Array<{kind: string, text: string}>}
 */
export function highlight(text, language) {
  if (language === "diff" || language === "patch") return diffTokens(text);
  const known = languageOf(language);
  if (!known || text.length > MAX_CHARS) return [{ kind: "", text }];
  const tokens = [];
  let at = 0;
  while (at < text.length) {
    const token = next(text, at, known);
    const last = tokens.at(-1);
    if (last && last.kind === token.kind) last.text += token.text;
    else tokens.push(token);
    at += token.text.length;
  }
  return tokens;
}

function next(text, at, known) {
  for (const kind of KINDS) {
    const found = known[kind] && match(known[kind], text, at);
    if (found) return { kind, text: found };
  }
  const word = match(WORD, text, at);
  if (word) return { kind: kindOfWord(word, text[at + word.length], known), text: word };
  return { kind: "", text: match(OTHER, text, at) ?? text[at] };
}

function match(pattern, text, at) {
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  return found && found[0] !== "" ? found[0] : null;
}

function kindOfWord(word, after, known) {
  if (known.keywords.has(word)) return "keyword";
  if (known.constants.has(word)) return "constant";
  if (after === "(") return "function";
  return /^[A-Z][A-Za-z0-9]*[a-z]/.test(word) ? "type" : "";
}

function diffTokens(text) {
  return text.split(/(?<=\n)/).map((line) => {
    const kind = line.startsWith("+")
      ? "added"
      : line.startsWith("-")
        ? "removed"
        : line.startsWith("@@")
          ? "special"
          : "";
    return { kind, text: line };
  });
}

/** The tokens of each line, for views with line numbers. */
export function highlightLines(text, language) {
  const lines = [[]];
  for (const token of highlight(text, language)) {
    token.text.split("\n").forEach((part, index) => {
      if (index > 0) lines.push([]);
      if (part !== "") lines.at(-1).push({ kind: token.kind, text: part });
    });
  }
  return lines;
}
