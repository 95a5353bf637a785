// Form fields: a label, an input, a line of help, and an error message.

import { fill, h } from "../dom.js";
import { icon } from "./icons.js";

/**
 * @param {{name: string, label: string, help?: string, input?: Element, placeholder?: string, type?: string}} options
 */
export function makeField({
  name,
  label,
  help,
  input,
  placeholder,
  type = "text",
  value = "",
  inputmode = null,
}) {
  const id = `field-${name}`;
  const control =
    input ?? h("input", { type, placeholder, value, autocomplete: "off", spellcheck: "false", inputmode });
  control.id = id;
  control.setAttribute("name", name);
  const problem = h("p.field-problem", { id: `${id}-problem`, role: "alert" });
  const words = help && h("p.field-help", { id: `${id}-help` }, help);
  control.setAttribute(
    "aria-describedby",
    [words && `${id}-help`, `${id}-problem`].filter(Boolean).join(" "),
  );
  const element = h("div.field", null, h("label", { for: id }, label), control, words, problem);
  return {
    name,
    element,
    control,
    value: () => control.value.trim(),
    setProblem(text) {
      problem.textContent = text;
      if (text) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    },
  };
}

/** Several values, each added with Enter or a comma and shown as a chip. */
export function makeChipsField({ name, label, help, placeholder, check }) {
  const input = h("input", { placeholder, autocomplete: "off", spellcheck: "false" });
  const field = makeField({ name, label, help, input });
  const list = h("ul.entered", { "aria-label": `${label}, entered` });
  input.before(list);
  let values = [];

  function draw() {
    fill(
      list,
      values.map((value) =>
        h(
          "li",
          null,
          h("span", null, value),
          h(
            "button.button.quiet.small.square",
            { type: "button", "aria-label": `Remove ${value}`, on: { click: () => remove(value) } },
            icon("cross"),
          ),
        ),
      ),
    );
    list.hidden = values.length === 0;
  }

  function remove(value) {
    values = values.filter((other) => other !== value);
    field.setProblem("");
    draw();
    input.focus();
  }

  /** Adds the written values. Returns whether they are valid. */
  function commit() {
    const written = input.value.split(/[\s,]+/).filter(Boolean);
    // Does not redraw: the field may be losing the focus to a click on one of its buttons.
    if (written.length === 0) return true;
    const wrong = written.find((value) => check(value) !== null);
    if (wrong !== undefined) {
      field.setProblem(check(wrong));
      return false;
    }
    values = [...new Set([...values, ...written])];
    input.value = "";
    field.setProblem("");
    draw();
    return true;
  }

  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === ",") {
      if (input.value.trim() === "") return;
      event.preventDefault();
      commit();
    } else if (event.key === "Backspace" && input.value === "" && values.length > 0) {
      remove(values.at(-1));
    }
  });
  // A new chip moves the elements below; the button being clicked must not move.
  input.addEventListener("blur", (event) => {
    if (event.relatedTarget?.type !== "submit") commit();
  });
  draw();
  return { ...field, values: () => values, commit };
}

/** A drop zone for a file, which can also be chosen with the keyboard. */
export function makeDropField({ name, label, accept, help, check }) {
  const input = h("input.visually-hidden", { type: "file", accept });
  const shown = h("span");
  const clear = h("button.button.quiet.small", { type: "button", hidden: true }, "Remove");
  const zone = h("div.drop", null, icon("upload"), shown);
  const field = makeField({ name, label, help, input });
  input.before(zone);
  zone.append(input, h("label.button.small", { for: input.id }, "Choose a file"), clear);
  let file = null;

  function choose(chosen) {
    const wrong = chosen ? check(chosen) : null;
    file = wrong ? null : chosen;
    field.setProblem(wrong ?? "");
    shown.textContent = file ? file.name : "Drop a zip here, or";
    clear.hidden = !file;
    zone.classList.toggle("has-file", Boolean(file));
    if (!file) input.value = "";
  }

  input.addEventListener("change", () => choose(input.files[0] ?? null));
  clear.addEventListener("click", () => choose(null));
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("is-over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("is-over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("is-over");
    choose(event.dataTransfer.files[0] ?? null);
  });
  choose(null);
  return { ...field, file: () => file };
}
