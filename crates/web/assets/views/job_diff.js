// The changes that a job made since its start, file by file.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import { changeCounts, diffRows } from "../components/diff_view.js";
import { empty, loading, problemNotice } from "../components/feedback.js";
import { icon } from "../components/icons.js";
import { plural } from "../text/format.js";
import { visible, visibleName } from "../text/visible.js";

/** Number of files that are initially open. */
const INITIALLY_OPEN = 12;
const LETTERS = { added: "A", removed: "D", changed: "M" };

export function makeDiff(id, job) {
  const content = h("div");
  const summary = h("p", { role: "status" });
  const reload = h(
    "button.button.quiet.small",
    { type: "button", on: { click: () => load() } },
    icon("retry"),
    "Reload",
  );
  const fold = h("button.button.quiet.small", { type: "button" }, "Collapse all");
  const element = h(
    "div.diff-panel",
    null,
    h("div.panel-tools", null, summary, h("div.spacer"), fold, reload),
    content,
  );
  let isLoaded = false;

  fold.addEventListener("click", () => {
    const all = [...content.querySelectorAll("details")];
    const isOpen = all.some((one) => one.open);
    for (const one of all) one.open = !isOpen;
    fold.textContent = isOpen ? "Expand all" : "Collapse all";
  });

  async function load() {
    isLoaded = true;
    if (!content.firstChild) fill(content, loading());
    try {
      draw(await api.diff(id));
    } catch (problem) {
      fill(
        content,
        problem.status === 404
          ? empty("No changes", "The job has no workspace yet.")
          : problemNotice(problem),
      );
    }
  }

  function draw({ files, is_truncated: isTruncated, not_compared: apart = [] }) {
    const added = files.reduce((sum, file) => sum + (file.added ?? 0), 0);
    const removed = files.reduce((sum, file) => sum + (file.removed ?? 0), 0);
    fold.hidden = files.length === 0;
    fill(
      summary,
      files.length > 0 && [`${plural(files.length, "file")} changed `, changeCounts(added, removed)],
    );
    if (files.length === 0)
      fill(
        content,
        empty(
          "No changes",
          job().state === "queued" ? "The job has not begun." : "The workspace is as it was at the start.",
        ),
      );
    else
      fill(
        content,
        files.map((file, index) => fileDetails(file, index < INITIALLY_OPEN)),
        isTruncated && h("p.notice.plain", null, "There are more changes than are shown."),
      );
    if (apart.length > 0)
      content.append(
        h(
          "section.panel",
          null,
          h("h2", null, "Not compared"),
          h(
            "ul.left-out",
            null,
            apart.map(({ path, reason }) =>
              h("li", null, h("bdi", null, h("code", null, visibleName(path))), ` ${visible(reason)}`),
            ),
          ),
        ),
      );
  }

  function fileDetails(file, isOpen) {
    const body = h("div");
    const name = visibleName(file.path);
    const details = h(
      "details.file-change",
      { open: isOpen },
      h(
        "summary",
        null,
        icon("right"),
        h(
          "span.letter",
          { class: file.change, title: file.change },
          LETTERS[file.change] ?? "M",
          h("span.visually-hidden", null, ` (${file.change})`),
        ),
        h("bdi.path", null, name),
        file.diff && changeCounts(file.added ?? 0, file.removed ?? 0),
      ),
      body,
    );
    const build = () => {
      if (!details.open || body.firstChild) return;
      if (file.diff) body.append(diffRows(file.diff, name));
      if (file.note || !file.diff)
        body.append(h("p.quiet.no-diff", null, visible(file.note ?? "There is no text to show.")));
    };
    details.addEventListener("toggle", build);
    build();
    return details;
  }

  return {
    element,
    shown() {
      if (!isLoaded || job().state === "running") load();
    },
    /** The shown changes may be outdated. */
    stale() {
      isLoaded = false;
      if (!element.hidden) load();
    },
  };
}
