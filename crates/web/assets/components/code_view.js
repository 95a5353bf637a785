// Shows code: blocks in a text, and whole files with line numbers. Everything is inserted as text.

import { fill, h } from "../dom.js";
import { highlight, highlightLines } from "../text/highlight.js";
import { languageOfFile } from "../text/languages.js";
import { visible } from "../text/visible.js";
import { copyButton } from "./feedback.js";

/** Lines in one container. Containers out of view cost no layout. */
const LINES_PER_PART = 200;

export function tokenSpans(tokens) {
  return tokens.map(({ kind, text }) =>
    kind === "" ? visible(text) : h(`span.token-${kind}`, null, visible(text)),
  );
}

/** A line in which only `backticks` have a meaning: code. Redrawn only if it changed. */
export function showLine(element, text) {
  if (element.shownLine === text) return;
  element.shownLine = text;
  const parts = text.split(/`([^`]+)`/);
  fill(
    element,
    parts.map((part, index) => (index % 2 === 1 ? h("code", null, part) : part)),
  );
}

export function codeBlock(text, language) {
  return h(
    "figure.code-block",
    null,
    h("figcaption", null, h("span", null, visible(language || "text")), copyButton(text, "Copy code")),
    h(
      "pre",
      { tabindex: 0, role: "group", "aria-label": language ? `Code in ${visible(language)}` : "Code" },
      h("code", null, tokenSpans(highlight(text, language))),
    ),
  );
}

/** A file's text with line numbers. */
export function fileView(text, path) {
  const lines = highlightLines(text, languageOfFile(path));
  if (lines.length > 1 && lines.at(-1).length === 0) lines.pop();
  const view = h("div.file-text", { tabindex: 0, role: "group", "aria-label": "File content" });
  for (let from = 0; from < lines.length; from += LINES_PER_PART) {
    const part = lines.slice(from, from + LINES_PER_PART);
    const numbers = part.map((_, index) => from + index + 1).join("\n");
    const code = h("code");
    part.forEach((tokens, index) => {
      if (index > 0) code.append("\n");
      code.append(
        ...tokenSpans(tokens).map((piece) =>
          piece instanceof Node ? piece : document.createTextNode(piece),
        ),
      );
    });
    view.append(
      h(
        "div.file-part",
        null,
        h("pre.line-numbers", { "aria-hidden": "true" }, numbers),
        h("pre", null, code),
      ),
    );
  }
  return view;
}
