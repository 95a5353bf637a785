// Parses markdown into blocks, as plain data. Supports headings, lists, tasks, quotes, tables, code
// fences and rules; HTML is treated as text. Creates no elements and loads nothing.

import { parseInline } from "./inline.js";

/** Deeper lists and quotes are shown as they were written. */
const MAX_DEPTH = 12;

/**
 * Top-level blocks, each with its start position and source lines, so that a growing text is parsed
 * and drawn again only where it changed.
 * @returns {Array<{start: number, source: string, block: object}>}
 */
export function parseMarkdown(text, from = 0) {
  const lines = text.slice(from).replace(/\r\n?/g, "\n").split("\n");
  const found = [];
  let line = 0;
  let start = from;
  readBlocks(lines, 0, (block, first, until) => {
    for (; line < first; line += 1) start += lines[line].length + 1;
    found.push({ start, source: lines.slice(first, until).join("\n"), block });
  });
  return found;
}

function blocksOf(lines, depth) {
  const blocks = [];
  readBlocks(lines, depth, (block) => blocks.push(block));
  return blocks;
}

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const SETEXT = /^ {0,3}(=+|-{2,})[ \t]*$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function readBlocks(lines, depth, found) {
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const from = at;
    const read = readBlock(lines, at, depth);
    at = read.until;
    found(read.block, from, at);
  }
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const words = line
      .slice(heading[0].length)
      .trim()
      .replace(/(?<![^ \t])#+$/, "")
      .trimEnd();
    const block = { kind: "heading", level: heading[1].length, inline: parseInline(words) };
    return { block, until: at + 1 };
  }
  if (RULE.test(line)) return { block: { kind: "rule" }, until: at + 1 };
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at, depth);
  const item = ITEM.exec(line);
  if (depth < MAX_DEPTH && item) return readList(lines, at, item, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function readFence(lines, at, [, indent, marks, info]) {
  const isEnd = new RegExp(`^ {0,3}${marks[0] === "`" ? "`" : "~"}{${marks.length},}[ \\t]*$`);
  const code = [];
  let until = at + 1;
  let isClosed = false;
  while (until < lines.length) {
    const line = lines[until];
    until += 1;
    if (isEnd.test(line)) {
      isClosed = true;
      break;
    }
    code.push(indent && line.startsWith(indent) ? line.slice(indent.length) : line);
  }
  const language = info.trim().split(/\s+/, 1)[0].toLowerCase();
  return { block: { kind: "code", language, text: code.join("\n"), isClosed }, until };
}

function readQuote(lines, at, depth) {
  const inner = [];
  let until = at;
  while (until < lines.length) {
    const line = lines[until];
    if (QUOTE.test(line)) inner.push(line.replace(/^ {0,3}> ?/, ""));
    else if (line.trim() === "" || startsBlock(line)) break;
    else inner.push(line);
    until += 1;
  }
  return { block: { kind: "quote", blocks: blocksOf(inner, depth + 1) }, until };
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function readList(lines, at, first, depth) {
  const isOrdered = /\d/.test(first[2]);
  const mark = first[2].at(-1);
  const items = [];
  const itemAt = (place) => {
    const item = place < lines.length && !RULE.test(lines[place]) ? ITEM.exec(lines[place]) : null;
    return item && item[2].at(-1) === mark && /\d/.test(item[2]) === isOrdered ? item : null;
  };
  let until = at;
  let isLoose = false;
  while (until < lines.length) {
    const item = itemAt(until);
    if (!item) break;
    const read = readItem(lines, until, item);
    items.push(makeItem(read.inner, depth));
    until = read.until;
    let next = until;
    while (next < lines.length && lines[next].trim() === "") next += 1;
    if (next > until && itemAt(next)) {
      isLoose = true;
      until = next;
    }
  }
  const start = isOrdered ? parseInt(first[2], 10) : undefined;
  return { block: { kind: "list", isOrdered, start, isLoose, items }, until };
}

function readItem(lines, at, [, indent, marker, gap, rest]) {
  const width = indent.length + marker.length + (gap && gap.length <= 4 && rest ? gap.length : 1);
  const inner = [gap && gap.length > 4 ? gap.slice(1) + rest : (rest ?? "")];
  let until = at + 1;
  while (until < lines.length) {
    const line = lines[until];
    if (line.trim() === "") {
      const next = lines[until + 1];
      if (next === undefined || next.trim() === "" || indentOf(next) < width) break;
      inner.push("");
    } else if (indentOf(line) >= width) inner.push(cutIndent(line, width));
    else if (startsBlock(line) || lines[until - 1].trim() === "") break;
    else inner.push(line.trimStart());
    until += 1;
  }
  return { inner, until };
}

function makeItem(inner, depth) {
  const task = /^\[([ xX])\][ \t]+/.exec(inner[0]);
  if (!task) return { isDone: null, blocks: blocksOf(inner, depth + 1) };
  const lines = [inner[0].slice(task[0].length), ...inner.slice(1)];
  return { isDone: task[1] !== " ", blocks: blocksOf(lines, depth + 1) };
}

function indentOf(line) {
  let width = 0;
  for (const character of line) {
    if (character === " ") width += 1;
    else if (character === "\t") width += 4 - (width % 4);
    else break;
  }
  return width;
}

function cutIndent(line, width) {
  let at = 0;
  let seen = 0;
  while (at < line.length && seen < width && (line[at] === " " || line[at] === "\t")) {
    seen += line[at] === "\t" ? 4 - (seen % 4) : 1;
    at += 1;
  }
  return " ".repeat(Math.max(0, seen - width)) + line.slice(at);
}

function isTable(lines, at) {
  const next = lines[at + 1];
  if (next === undefined || !lines[at].includes("|") || next.length > 2000 || !TABLE_RULE.test(next))
    return false;
  return cellsOf(lines[at]).length === cellsOf(next).length;
}

function readTable(lines, at) {
  const head = cellsOf(lines[at]);
  const sides = cellsOf(lines[at + 1]).map((cell) => {
    const right = cell.endsWith(":");
    return cell.startsWith(":") && right ? "center" : right ? "right" : "left";
  });
  const rows = [];
  let until = at + 2;
  while (until < lines.length && lines[until].trim() !== "" && lines[until].includes("|")) {
    const cells = cellsOf(lines[until]);
    rows.push(head.map((_, column) => parseInline(cells[column] ?? "")));
    until += 1;
  }
  return { block: { kind: "table", head: head.map((cell) => parseInline(cell)), sides, rows }, until };
}

function cellsOf(line) {
  const cells = [];
  let cell = "";
  let isCode = false;
  const inner = line.trim().replace(/^\|/, "");
  for (let at = 0; at < inner.length; at += 1) {
    const character = inner[at];
    if (character === "\\" && inner[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (character === "|" && !isCode) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (character === "`") isCode = !isCode;
      cell += character;
    }
  }
  if (cell.trim() !== "") cells.push(cell.trim());
  return cells;
}

function readParagraph(lines, at, depth) {
  const words = [];
  let until = at;
  while (until < lines.length) {
    const line = lines[until];
    if (line.trim() === "") break;
    if (until > at) {
      const setext = SETEXT.exec(line);
      if (setext) {
        const level = setext[1][0] === "=" ? 1 : 2;
        return { block: { kind: "heading", level, inline: parseInline(words.join("\n")) }, until: until + 1 };
      }
      if (depth < MAX_DEPTH && startsBlock(line) && interrupts(line)) break;
      if (isTable(lines, until)) break;
    }
    words.push(line.trimStart());
    until += 1;
  }
  return { block: { kind: "paragraph", inline: parseInline(words.join("\n")) }, until };
}

/** A numbered list that does not start with 1 is probably a year at the start of a line. */
function interrupts(line) {
  const item = ITEM.exec(line);
  return !item || !/\d/.test(item[2]) || parseInt(item[2], 10) === 1;
}
