// The files of a job's workspace: a tree that is loaded folder by folder, and a viewer. Names and
// contents are untrusted: they are shown as text, with hidden characters made visible.

import { address, api } from "../api.js";
import { fill, h } from "../dom.js";
import { fileView } from "../components/code_view.js";
import { copyButton, empty, loading, problemNotice } from "../components/feedback.js";
import { icon } from "../components/icons.js";
import { bytes, fullTime } from "../text/format.js";
import { visibleName } from "../text/visible.js";

export function makeFiles(id, job) {
  const tree = h("div.tree");
  const viewer = h("div.viewer", null, h("p.quiet", null, "Choose a file."));
  const reload = h(
    "button.button.quiet.small",
    { type: "button", on: { click: () => load() } },
    icon("retry"),
    "Reload",
  );
  const back = h("button.button.quiet.small.to-tree", { type: "button" }, icon("back"), "All files");
  const element = h(
    "div.files",
    null,
    h(
      "nav.tree-side",
      { "aria-label": "Files" },
      h("div.tree-head", null, h("h2", null, "Workspace"), reload),
      tree,
    ),
    h("div.viewer-side", null, back, viewer),
  );
  let isLoaded = false;
  let chosen = null;

  back.addEventListener("click", () => {
    element.classList.remove("has-file");
    chosen?.focus();
  });

  async function load() {
    isLoaded = true;
    fill(tree, loading());
    fill(tree, await folder("", true));
  }

  async function folder(path, isRoot = false) {
    try {
      const { entries, is_truncated: isTruncated } = await api.files(id, path);
      if (entries.length === 0 && isRoot)
        return empty(
          "No files yet",
          job().state === "queued" ? "The job has not begun." : "The workspace is empty.",
        );
      return [
        h("ul.tree-list", null, sorted(entries).map(entry)),
        isTruncated && h("p.quiet", null, "There are more than are shown."),
      ];
    } catch (problem) {
      return problem.status === 404 && isRoot
        ? empty("No files", "The job has no workspace yet.")
        : problemNotice(problem);
    }
  }

  function sorted(entries) {
    const rank = (one) => (one.kind === "folder" ? 0 : 1);
    return [...entries].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  }

  function entry(one) {
    const name = h("bdi.name", null, visibleName(one.name));
    if (one.kind === "folder") return folderEntry(one, name);
    if (one.kind !== "file") {
      const words =
        one.kind === "link"
          ? ["link to ", h("bdi", null, visibleName(one.target ?? "?"))]
          : ["neither file nor folder"];
      return h(
        "li",
        null,
        h(
          "span.tree-row.dead",
          null,
          icon(one.kind === "link" ? "link" : "note"),
          name,
          h("span.quiet", null, words),
        ),
      );
    }
    const button = h(
      "button.tree-row",
      { type: "button", title: one.modified ? fullTime(one.modified) : null },
      icon("file"),
      name,
      h("span.quiet", null, bytes(one.bytes)),
    );
    button.addEventListener("click", () => view(one, button));
    return h("li", null, button);
  }

  function folderEntry(one, name) {
    const inner = h("div.tree-inner", { hidden: true });
    const button = h("button.tree-row", { type: "button", "aria-expanded": "false" }, icon("right"), name);
    button.addEventListener("click", async () => {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!isOpen));
      inner.hidden = isOpen;
      if (!isOpen && !inner.firstChild) {
        fill(inner, loading());
        fill(inner, await folder(one.path));
      }
    });
    return h("li", null, button, inner);
  }

  async function view(one, button) {
    chosen?.removeAttribute("aria-current");
    chosen = button;
    button.setAttribute("aria-current", "true");
    element.classList.add("has-file");
    fill(viewer, loading());
    let content;
    try {
      content = await api.content(id, one.path);
    } catch (problem) {
      content = problem;
    }
    if (chosen !== button) return;
    const isText = content.is_text === true;
    fill(
      viewer,
      h(
        "div.viewer-head",
        null,
        h("h2", null, h("bdi", null, visibleName(one.path))),
        h("span.quiet", null, bytes(content.bytes ?? one.bytes)),
        h("div.spacer"),
        isText && copyButton(content.text, "Copy the text"),
        h("a.button.small", { href: address.raw(id, one.path), download: "" }, icon("download"), "Raw"),
      ),
      content instanceof Error && problemNotice(content),
      !(content instanceof Error) &&
        !isText &&
        empty("Not a text", "Download it to open it with another program."),
      isText &&
        content.is_truncated &&
        h("p.notice.plain", null, "Only the beginning is shown; download the file for the rest."),
      isText &&
        (content.text === "" ? h("p.quiet", null, "The file is empty.") : fileView(content.text, one.path)),
    );
  }

  return {
    element,
    shown() {
      if (!isLoaded) load();
    },
  };
}
