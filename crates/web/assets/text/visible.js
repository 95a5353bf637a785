// Makes deceptive characters visible: control characters, direction overrides, and zero-width
// characters. Never drops one: a name that hides something shows that it does.

// Controls except tab and newline; direction marks and overrides; zero-width characters except the
// joiners that emoji and scripts need; line separators; tags.
const DECEPTIVE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

const DECEPTIVE_IN_NAMES = /[\t\n]/g;

/** Text of several lines, made safe to show. */
export function visible(text) {
  return text.replace(DECEPTIVE, show);
}

/** A name, a path or other text of one line, made safe to show. */
export function visibleName(text) {
  return visible(text).replace(DECEPTIVE_IN_NAMES, show);
}

function show(character) {
  const code = character.codePointAt(0);
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** One line of at most this many characters. */
export function oneLine(text, most = 200) {
  const line = text.trimStart().split("\n", 1)[0];
  const cut = [...line.slice(0, most * 2)].slice(0, most).join("");
  return visibleName(cut) + (cut.length < line.length || text.trim().includes("\n") ? "…" : "");
}
