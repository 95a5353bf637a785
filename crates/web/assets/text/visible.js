// Makes characters visible that would lie about a text: control characters, direction overrides,
// and what has no width. Never drops one: a name that hides something shows that it does.

// Controls but tab and newline; marks and overrides of direction; what has no width, but for the
// joiners that emoji and scripts need; line separators; tags.
const LYING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

const LYING_IN_NAMES = /[\t\n]/g;

/** Text of several lines, as it can be shown. */
export function visible(text) {
  return text.replace(LYING, show);
}

/** A name, a path or another text of one line, as it can be shown. */
export function visibleName(text) {
  return visible(text).replace(LYING_IN_NAMES, show);
}

function show(character) {
  const code = character.codePointAt(0);
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** One line of at most so many characters. */
export function oneLine(text, most = 200) {
  const line = text.trimStart().split("\n", 1)[0];
  const cut = [...line.slice(0, most * 2)].slice(0, most).join("");
  return visibleName(cut) + (cut.length < line.length || text.trim().includes("\n") ? "…" : "");
}
