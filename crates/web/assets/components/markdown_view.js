// Draws parsed markdown. Links open in a new tab without a referrer; images are shown as links and
// never loaded. A growing text is redrawn only from where it changed.

import { h, isSafeLink } from "../dom.js";
import { parseMarkdown } from "../text/markdown.js";
import { visible } from "../text/visible.js";
import { codeBlock } from "./code_view.js";

/** Appended text can change only the last blocks: a list may continue after a gap. */
const OPEN_BLOCKS = 2;

/** Shows a text in an element, keeping what has not changed since the last call. */
export function showMarkdown(element, text) {
  const { text: old = "", blocks: before = [] } = element.shown ?? {};
  const kept =
    old !== "" && text.startsWith(old) && !text.includes("\r") ? Math.max(0, before.length - OPEN_BLOCKS) : 0;
  const after = [...before.slice(0, kept), ...parseMarkdown(text, kept > 0 ? before[kept].start : 0)];
  let same = kept;
  while (same < before.length && same < after.length && before[same].source === after[same].source) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const { block } of after.slice(same)) element.append(drawBlock(block));
  element.shown = { text, blocks: after.map(({ start, source }) => ({ start, source })) };
}

export function markdown(text) {
  const element = h("div.prose");
  showMarkdown(element, text);
  return element;
}

function drawBlock(block) {
  switch (block.kind) {
    case "heading":
      // Below the page's own headings, and all at the same level: a text may start at any level.
      return h("h3", { class: `level-${block.level}` }, drawInline(block.inline));
    case "code":
      return codeBlock(block.text, block.language);
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", null, block.blocks.map(drawBlock));
    case "list":
      return drawList(block);
    case "table":
      return drawTable(block);
    default:
      return h("p", null, drawInline(block.inline));
  }
}

function drawList(block) {
  const start = block.isOrdered && block.start !== 1 ? block.start : null;
  return h(
    block.isOrdered ? "ol" : "ul",
    { start, class: block.items.some((item) => item.isDone !== null) ? "tasks" : null },
    block.items.map((item) =>
      h(
        "li",
        null,
        item.isDone !== null && taskMark(item.isDone),
        item.blocks.map((inner) =>
          inner.kind === "paragraph" && !block.isLoose
            ? h("div", null, drawInline(inner.inline))
            : drawBlock(inner),
        ),
      ),
    ),
  );
}

function taskMark(isDone) {
  return h("span.task-mark", {
    class: isDone ? "done" : null,
    role: "img",
    "aria-label": isDone ? "done" : "to do",
  });
}

function drawTable({ head, sides, rows }) {
  const cell = (tag, inline, column) =>
    h(tag, { class: `side-${sides[column]}`, scope: tag === "th" ? "col" : null }, drawInline(inline));
  return h(
    "div.table-scroll",
    { tabindex: 0, role: "group", "aria-label": "Table" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          head.map((inline, column) => cell(inline.length > 0 ? "th" : "td", inline, column)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            null,
            row.map((inline, column) => cell("td", inline, column)),
          ),
        ),
      ),
    ),
  );
}

function drawInline(nodes) {
  return nodes.map((node) => {
    if (typeof node === "string") return visible(node);
    switch (node.kind) {
      case "code":
        return h("code", null, visible(node.text));
      case "strong":
        return h("strong", null, drawInline(node.children));
      case "emphasis":
        return h("em", null, drawInline(node.children));
      case "struck":
        return h("s", null, drawInline(node.children));
      case "link":
        return drawLink(node.address, drawInline(node.children));
      case "image":
        return drawLink(node.address, ["image: ", visible(node.text || node.address)]);
      default:
        return h("br");
    }
  });
}

function drawLink(address, children) {
  if (!/^(https?:|mailto:)/i.test(address) || !isSafeLink(address)) return h("span", null, children);
  return h(
    "a",
    { href: address, rel: "noopener noreferrer nofollow", target: "_blank", title: visible(address) },
    children,
  );
}
