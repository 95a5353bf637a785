// Parses inline markdown: emphasis, code, links, escapes. Linear in the length of the text, for any
// text. Does not decide whether a link is safe: the renderer does.

const MAX_ADDRESS_CHARS = 2000;
/** After this many brackets that are not links, no more links are recognised. */
const MAX_FAILURES = 500;
/** Deeper nesting is shown as it was written. */
const MAX_OPEN = 24;
const MAX_RUN = 6;
const DELIMITERS = "*_~";
const BARE_ADDRESS = /(?:https?:\/\/|mailto:)[^\s<>`"\\\]]{1,2000}/giy;
const ANGLE_ADDRESS = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/giy;
const ESCAPABLE = /[!-/:-@[-`{-~]/;

/**
 * Nodes: strings, `{kind: "code", text}`, `{kind: "strong" | "emphasis" | "struck", children}`,
 * `{kind: "link", address, children}`, `{kind: "image", address, text}`, `{kind: "break"}`.
 */
export function parseInline(text, isInLink = false) {
  const pieces = [];
  const brackets = isInLink ? null : matchBrackets(text);
  const ticks = new BacktickRuns(text);
  let failures = 0;
  let plain = "";
  const flush = () => {
    if (plain !== "") pieces.push({ node: plain });
    plain = "";
  };
  const put = (node) => {
    flush();
    pieces.push({ node });
  };
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === "\\" && at + 1 < text.length) {
      if (text[at + 1] === "\n") put({ kind: "break" });
      else plain += ESCAPABLE.test(text[at + 1]) ? text[at + 1] : `\\${text[at + 1]}`;
      at += 2;
    } else if (character === "`") {
      const code = readCode(text, at, ticks);
      if (code.node) put(code.node);
      else plain += text.slice(at, code.end);
      at = code.end;
    } else if (DELIMITERS.includes(character)) {
      const run = readRun(text, at);
      flush();
      pieces.push(run);
      at += run.length;
    } else if (
      brackets &&
      failures < MAX_FAILURES &&
      (character === "[" || (character === "!" && text[at + 1] === "["))
    ) {
      const link = readLink(text, at, brackets);
      if (link) put(link.node);
      else {
        plain += character;
        failures += brackets.has(at) ? 1 : 0;
      }
      at = link ? link.end : at + 1;
    } else if (
      !isInLink &&
      (character === "<" ||
        ((character === "h" || character === "m" || character === "H") && startsWord(text, at)))
    ) {
      const link = readAddress(text, at, character === "<" ? ANGLE_ADDRESS : BARE_ADDRESS);
      if (link) put(link.node);
      else plain += character;
      at = link ? link.end : at + 1;
    } else if (character === "\n") {
      const isHard = plain.endsWith("  ");
      plain = plain.trimEnd();
      if (isHard) put({ kind: "break" });
      else plain += "\n";
      at += 1;
    } else {
      plain += character;
      at += 1;
    }
  }
  flush();
  return pair(pieces);
}

function startsWord(text, at) {
  return at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]);
}

/** The positions of backtick runs, by length. Found once. */
class BacktickRuns {
  constructor(text) {
    this.text = text;
    this.places = null;
  }

  /**
   * The next run of this length from a position on, or -1. Positions must not decrease between
   * calls.
   */
  next(length, from) {
    if (!this.places) {
      this.places = new Map();
      for (const { 0: run, index } of this.text.matchAll(/`+/g)) {
        if (!this.places.has(run.length)) this.places.set(run.length, []);
        this.places.get(run.length).push(index);
      }
      for (const places of this.places.values()) places.reverse();
    }
    const places = this.places.get(length) ?? [];
    while (places.length > 0 && places.at(-1) < from) places.pop();
    return places.at(-1) ?? -1;
  }
}

function readCode(text, at, ticks) {
  let end = at;
  while (text[end] === "`") end += 1;
  const length = end - at;
  const close = ticks.next(length, end);
  if (close < 0) return { end };
  let inner = text.slice(end, close).replace(/\n/g, " ");
  if (inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "") inner = inner.slice(1, -1);
  return { node: { kind: "code", text: inner }, end: close + length };
}

/** For each `[`, the position of its `]`. */
function matchBrackets(text) {
  const matches = new Map();
  const open = [];
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === "\\") at += 1;
    else if (character === "[") open.push(at);
    else if (character === "]" && open.length > 0) matches.set(open.pop(), at);
  }
  return matches;
}

function readLink(text, at, brackets) {
  const isImage = text[at] === "!";
  const open = isImage ? at + 1 : at;
  const close = brackets.get(open);
  if (close === undefined || text[close + 1] !== "(") return null;
  const target = readTarget(text, close + 2);
  if (!target) return null;
  const inner = text.slice(open + 1, close);
  const node = isImage
    ? { kind: "image", address: target.address, text: inner }
    : { kind: "link", address: target.address, children: parseInline(inner, true) };
  return { node, end: target.end };
}

function readTarget(text, start) {
  const limit = Math.min(text.length, start + MAX_ADDRESS_CHARS);
  let at = start;
  let depth = 0;
  let address = "";
  if (text[at] === "<") {
    const close = text.slice(at, limit).search(/[>\n]/);
    if (close < 0 || text[at + close] !== ">") return null;
    address = text.slice(at + 1, at + close);
    at += close + 1;
  } else {
    while (at < limit && !/\s/.test(text[at])) {
      if (text[at] === "(") depth += 1;
      else if (text[at] === ")") {
        if (depth === 0) break;
        depth -= 1;
      } else if (text[at] === "\\" && ESCAPABLE.test(text[at + 1] ?? "")) at += 1;
      address += text[at] ?? "";
      at += 1;
    }
  }
  const rest = /^[ \t\n]*(?:"[^"]{0,500}"|'[^']{0,500}')?[ \t\n]*\)/.exec(text.slice(at, at + 600));
  return rest ? { address, end: at + rest[0].length } : null;
}

function readAddress(text, at, pattern) {
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  if (!found) return null;
  if (pattern === ANGLE_ADDRESS)
    return { node: { kind: "link", address: found[1], children: [found[1]] }, end: at + found[0].length };
  let address = found[0].replace(/[.,;:!?'*_~]+$/, "");
  while (address.endsWith(")") && address.split(")").length > address.split("(").length)
    address = address.slice(0, -1);
  if (/^(https?:\/\/|mailto:)$/i.test(address)) return null;
  return { node: { kind: "link", address, children: [address] }, end: at + address.length };
}

function readRun(text, at) {
  const mark = text[at];
  let end = at;
  while (text[end] === mark) end += 1;
  const before = at === 0 ? " " : text[at - 1];
  const after = text[end] ?? " ";
  const isLeft = !/\s/.test(after) && (!isPunctuation(after) || /\s/.test(before) || isPunctuation(before));
  const isRight = !/\s/.test(before) && (!isPunctuation(before) || /\s/.test(after) || isPunctuation(after));
  const isWord = mark === "_";
  if (end - at > MAX_RUN)
    return { mark, length: end - at, left: end - at, canOpen: false, canClose: false };
  return {
    mark,
    length: end - at,
    left: end - at,
    canOpen: isLeft && (!isWord || !isRight || isPunctuation(before)),
    canClose: isRight && (!isWord || !isLeft || isPunctuation(after)),
  };
}

function isPunctuation(character) {
  return /[\p{P}\p{S}]/u.test(character);
}

/** Pairs delimiters, innermost first, and returns the tree. */
function pair(pieces) {
  const open = [];
  const output = [];
  for (const piece of pieces) {
    if (!piece.mark) {
      output.push(piece.node);
      continue;
    }
    if (piece.canClose) close(piece, open, output);
    if (piece.left === 0) continue;
    if (piece.canOpen && open.length < MAX_OPEN) {
      open.push({ piece, place: output.length });
      output.push(null);
    } else {
      output.push(piece.mark.repeat(piece.left));
    }
  }
  for (const { piece, place } of open) output[place] = piece.mark.repeat(piece.left);
  return output.filter((node) => node !== null && node !== "");
}

function close(piece, open, output) {
  for (let index = open.length - 1; index >= 0 && piece.left > 0; index -= 1) {
    const opener = open[index];
    if (opener.piece.mark !== piece.mark) continue;
    while (piece.left > 0 && opener.piece.left > 0) {
      const width = Math.min(2, piece.left, opener.piece.left);
      if (piece.mark === "~" && width < 2) return;
      for (const lost of open.splice(index + 1)) output[lost.place] = lost.piece.mark.repeat(lost.piece.left);
      const children = output.splice(opener.place + 1).filter((node) => node !== null && node !== "");
      const kind = piece.mark === "~" ? "struck" : width === 2 ? "strong" : "emphasis";
      output.push({ kind, children });
      opener.piece.left -= width;
      piece.left -= width;
    }
    if (opener.piece.left === 0) open.splice(index, 1);
  }
}
