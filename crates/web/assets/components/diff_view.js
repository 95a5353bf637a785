// Shows a change of a file: numbered lines, each with a sign as well as a colour.

import { h } from "../dom.js";
import { parseDiff } from "../text/diff.js";
import { visible } from "../text/visible.js";

const ROWS_PER_PART = 200;
const SIGNS = { added: "+", removed: "−", same: " ", hunk: "", note: "" };
const WORDS = { added: "added", removed: "removed" };

/** The counts of a change, as `+3 −1`. */
export function changeCounts(added, removed) {
  return h(
    "span.counts",
    { role: "img", "aria-label": `${added} lines added, ${removed} removed` },
    h("span.added", null, `+${added}`),
    " ",
    h("span.removed", null, `−${removed}`),
  );
}

/** The rows of a unified diff. */
export function diffRows(text, label) {
  const { rows } = parseDiff(text);
  const view = h("div.diff", { tabindex: 0, role: "group", "aria-label": `Changes of ${label}` });
  for (let from = 0; from < rows.length; from += ROWS_PER_PART) {
    view.append(
      h(
        "div.diff-part",
        null,
        rows
          .slice(from, from + ROWS_PER_PART)
          .map((row) =>
            h(
              `div.diff-row.${row.kind}`,
              null,
              h("span.number", { "aria-hidden": "true" }, row.old ?? ""),
              h("span.number", { "aria-hidden": "true" }, row.new ?? ""),
              h("span.sign", { "aria-hidden": "true" }, SIGNS[row.kind]),
              h(
                "code",
                null,
                WORDS[row.kind] && h("span.visually-hidden", null, `${WORDS[row.kind]}: `),
                visible(row.text) || " ",
              ),
            ),
          ),
      ),
    );
  }
  return view;
}

export function diffSize(text) {
  const { rows, added, removed } = parseDiff(text);
  return { rows: rows.length, added, removed };
}
