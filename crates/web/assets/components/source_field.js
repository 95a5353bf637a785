// The choice of a job's initial workspace.

import { h } from "../dom.js";

/** Empty, a repository or a zip. */
export function makeSource(fields) {
  const parts = {
    none: h("p.quiet", null, "The workspace is empty."),
    git: h("div.field-row", null, fields.git.element, fields.branch.element),
    zip: fields.upload.element,
  };
  const names = { none: "Empty", git: "Git repository", zip: "Zip" };
  let chosen = "none";
  const choices = Object.keys(names).map((name) => {
    const radio = h("input.visually-hidden", {
      type: "radio",
      name: "source",
      value: name,
      id: `source-${name}`,
      checked: name === chosen,
    });
    radio.addEventListener("change", () => choose(name));
    return [radio, h("label.chip", { for: `source-${name}` }, names[name])];
  });
  function choose(name) {
    chosen = name;
    for (const [other, part] of Object.entries(parts)) part.hidden = other !== name;
  }
  choose(chosen);
  return {
    element: h(
      "div",
      null,
      h("div.chips", { role: "radiogroup", "aria-label": "Workspace at the start" }, choices),
      Object.values(parts),
    ),
    value: () => chosen,
  };
}
