// Parses the output of a program into runs of styled text. Supports colours and weights; every
// other escape sequence is dropped, and none can hide the text after it. Creates no elements.

import { visible } from "./visible.js";

/** A longer sequence is treated as invalid. */
const MAX_SEQUENCE_CHARS = 4096;

const PLAIN = "";

/**
 * Lines of runs. A run is `{text, style}`, its style a list of class names.
 * @param {string} text
 * @returns {Array<Array<{text: string, style: string}>>}
 */
export function parseAnsi(text) {
  const lines = [];
  let line = newLine();
  let look = newLook();
  let style = PLAIN;
  for (const token of tokens(text)) {
    if (token.kind === "text") line.write(token.text, style);
    else if (token.kind === "look") {
      look = changeLook(look, token.codes);
      style = classes(look);
    } else if (token.kind === "newline") {
      lines.push(line.finish());
      line = newLine();
    } else if (token.kind === "return") line.home();
    else if (token.kind === "back") line.back();
    else if (token.kind === "erase") line.erase(token.whole);
  }
  lines.push(line.finish());
  return lines;
}

/** The same text without escape sequences. */
export function plainText(text) {
  return parseAnsi(text)
    .map((line) => line.map((run) => run.text).join(""))
    .join("\n");
}

function* tokens(text) {
  const special = /[\n\r\b\u001b\u009b\u0090\u009d-\u009f\u0098\u0007\u0000]/g;
  let place = 0;
  while (place < text.length) {
    special.lastIndex = place;
    const found = special.exec(text);
    const until = found ? found.index : text.length;
    if (until > place) yield { kind: "text", text: text.slice(place, until) };
    if (!found) return;
    place = until + 1;
    const character = found[0];
    if (character === "\n") yield { kind: "newline" };
    else if (character === "\r") {
      if (text[place] !== "\n") yield { kind: "return" };
    } else if (character === "\b") yield { kind: "back" };
    else if (character === "\u001b" || character >= "\u0080") {
      const sequence = readSequence(text, until);
      place = sequence.end;
      if (sequence.token) yield sequence.token;
    }
  }
}

function readSequence(text, start) {
  const isShort = text[start] !== "\u001b";
  const introducer = isShort ? String.fromCharCode(text.charCodeAt(start) - 0x40) : text[start + 1];
  const body = start + (isShort ? 1 : 2);
  if (introducer === undefined) return { end: text.length };
  if (introducer === "[") return readControl(text, body);
  if ("]PX^_".includes(introducer)) return { end: endOfString(text, body) };
  if (" #%()*+-./".includes(introducer)) return { end: Math.min(body + 1, text.length) };
  return { end: body };
}

function readControl(text, body) {
  let place = body;
  const limit = Math.min(text.length, body + MAX_SEQUENCE_CHARS);
  while (place < limit && text[place] >= "\u0020" && text[place] <= "?") place += 1;
  if (place >= text.length) return { end: text.length };
  const final = text[place];
  if (place === limit || final < "@" || final > "~") return { end: place };
  const parameters = text.slice(body, place);
  const end = place + 1;
  if (final === "m" && /^[\d;:]*$/.test(parameters)) {
    return { end, token: { kind: "look", codes: parameters.split(/[;:]/).slice(0, 32).map(Number) } };
  }
  if (final === "K" && /^[012]?$/.test(parameters)) {
    return { end, token: { kind: "erase", whole: parameters === "2" || parameters === "1" } };
  }
  if (final === "G" && /^1?$/.test(parameters)) return { end, token: { kind: "return" } };
  return { end };
}

function endOfString(text, body) {
  const limit = Math.min(text.length, body + MAX_SEQUENCE_CHARS);
  for (let place = body; place < limit; place += 1) {
    const character = text[place];
    if (character === "\u0007" || character === "\u009c") return place + 1;
    if (character === "\u001b") return text[place + 1] === "\\" ? place + 2 : place;
    if (character === "\n") return place;
  }
  return limit === text.length ? limit : body;
}

/** A line that is written from left to right, and overwritten after a carriage return. */
function newLine() {
  let runs = [];
  let cells = null;
  let column = 0;
  const toCells = () => {
    if (cells) return;
    cells = [];
    for (const run of runs) {
      for (const character of run.text) cells.push({ text: character, style: run.style });
    }
    column = cells.length;
  };
  return {
    write(text, style) {
      if (!cells) {
        runs.push({ text, style });
        return;
      }
      for (const character of text) {
        cells[column] = { text: character, style };
        column += 1;
      }
    },
    home() {
      toCells();
      column = 0;
    },
    back() {
      toCells();
      column = Math.max(0, column - 1);
    },
    erase(whole) {
      toCells();
      cells.length = whole ? 0 : Math.min(column, cells.length);
      if (whole) column = 0;
    },
    finish() {
      const all = cells ?? runs;
      const merged = [];
      for (const run of all) {
        const last = merged.at(-1);
        if (last && last.style === run.style) last.text += run.text;
        else merged.push({ text: run.text, style: run.style });
      }
      for (const run of merged) run.text = visible(run.text);
      return merged;
    },
  };
}

function newLook() {
  return {
    front: null,
    ground: null,
    bold: false,
    dim: false,
    italic: false,
    under: false,
    struck: false,
    inverse: false,
  };
}

function changeLook(before, codes) {
  let look = { ...before };
  for (let place = 0; place < codes.length; place += 1) {
    const code = codes[place];
    if (code === 0 || Number.isNaN(code)) look = newLook();
    else if (code === 1) look.bold = true;
    else if (code === 2) look.dim = true;
    else if (code === 3) look.italic = true;
    else if (code === 4) look.under = true;
    else if (code === 7) look.inverse = true;
    else if (code === 9) look.struck = true;
    else if (code === 22) look.bold = look.dim = false;
    else if (code === 23) look.italic = false;
    else if (code === 24) look.under = false;
    else if (code === 27) look.inverse = false;
    else if (code === 29) look.struck = false;
    else if (code >= 30 && code <= 37) look.front = code - 30;
    else if (code >= 90 && code <= 97) look.front = code - 90 + 8;
    else if (code === 39) look.front = null;
    else if (code >= 40 && code <= 47) look.ground = code - 40;
    else if (code >= 100 && code <= 107) look.ground = code - 100 + 8;
    else if (code === 49) look.ground = null;
    else if (code === 38 || code === 48) {
      const { colour, used } = extended(codes, place + 1);
      place += used;
      if (colour !== null) look[code === 38 ? "front" : "ground"] = colour;
    }
  }
  return look;
}

/** Maps any colour to the nearest of sixteen, which are readable in both themes. */
function extended(codes, place) {
  if (codes[place] === 5) return { colour: fromTable(codes[place + 1]), used: 2 };
  if (codes[place] === 2)
    return { colour: nearest(codes[place + 1], codes[place + 2], codes[place + 3]), used: 4 };
  return { colour: null, used: 0 };
}

function fromTable(index) {
  if (!(index >= 0 && index <= 255)) return null;
  if (index < 16) return index;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return nearest(grey, grey, grey);
  }
  const level = (step) => (step === 0 ? 0 : 55 + step * 40);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearest(red, green, blue) {
  if (![red, green, blue].every((part) => part >= 0 && part <= 255)) return null;
  const most = Math.max(red, green, blue);
  if (most < 48) return 0;
  if (most - Math.min(red, green, blue) < 32) return most < 160 ? 8 : most < 220 ? 7 : 15;
  const bit = (part) => (part > most / 2 ? 1 : 0);
  return bit(red) + 2 * bit(green) + 4 * bit(blue) + (most > 200 ? 8 : 0);
}

function classes(look) {
  const names = [];
  const front = look.inverse ? (look.ground ?? "ground") : look.front;
  const ground = look.inverse ? (look.front ?? "ink") : look.ground;
  if (front !== null) names.push(`ansi-${front}`);
  if (ground !== null) names.push(`ansi-on-${ground}`);
  for (const weight of ["bold", "dim", "italic", "under", "struck"]) {
    if (look[weight]) names.push(`ansi-${weight}`);
  }
  return names.join(" ");
}
