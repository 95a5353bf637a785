// User feedback: short messages that disappear by themselves, questions that wait for an answer,
// and problems of the server in full.

import { fill, h } from "../dom.js";
import { icon } from "./icons.js";

const TOAST_MS = 5000;

/** A short message. @param {"good"|"bad"|"plain"} kind */
export function toast(text, kind = "plain") {
  const element = h(
    "div.toast",
    { class: kind },
    icon(kind === "bad" ? "warn" : kind === "good" ? "check" : "note"),
    h("span", null, text),
  );
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), kind === "bad" ? TOAST_MS * 2 : TOAST_MS);
}

/** An error message, with the server's hint if there is one. */
export function problemNotice(problem) {
  return h(
    "div.notice.bad",
    { role: "alert" },
    icon("warn"),
    h("div", null, h("p", null, problem.message), problem.hint && h("p.hint", null, problem.hint)),
  );
}

/** Why jobs wait, as reported by the server; null if they do not. */
export function degradedNotice(lines) {
  if (lines.length === 0) return null;
  return h(
    "div.notice",
    { role: "status" },
    icon("warn"),
    h("div", null, lines.map((line) => h("p", null, `Jobs wait: ${line}`))),
  );
}

export function toastProblem(problem) {
  if (problem.name === "AbortError") return;
  toast(problem.hint ? `${problem.message}. ${problem.hint}` : problem.message, "bad");
}

/**
 * Asks for confirmation of an action that cannot be undone. Resolves to whether to do it.
 * @param {{title: string, text: string, action: string, isDangerous?: boolean}} question
 */
export function confirm({ title, text, action, isDangerous = true }) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog.dialog",
      { "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "confirm-title" }, title),
        h("p", { id: "confirm-text" }, text),
        h(
          "div.actions",
          null,
          h("button.button", { value: "no" }, "Keep"),
          h(
            "button.button",
            { value: "yes", class: isDangerous ? "danger" : "primary", autofocus: true },
            action,
          ),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A dialog with any content. Returns its close function. */
export function show(title, ...content) {
  const dialog = h(
    "dialog.dialog.wide",
    { "aria-labelledby": "dialog-title" },
    h(
      "div.dialog-head",
      null,
      h("h2", { id: "dialog-title" }, title),
      h(
        "button.button.quiet.square",
        { type: "button", "aria-label": "Close", on: { click: () => dialog.close() } },
        icon("cross"),
      ),
    ),
    content,
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return () => dialog.close();
}

/** A button that copies a text to the clipboard, and confirms it. */
export function copyButton(text, label = "Copy") {
  const button = h(
    "button.button.quiet.small",
    { type: "button", "aria-label": label, title: label },
    icon("copy"),
  );
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      fill(button, icon("check"));
      setTimeout(() => fill(button, icon("copy")), 1500);
    } catch {
      toast("The clipboard cannot be used on this page", "bad");
    }
  });
  return button;
}

/** A placeholder while content is loading. Read out once. */
export function loading(what = "Loading…") {
  return h("p.loading", { role: "status" }, h("span.spinner", { "aria-hidden": "true" }), what);
}

/** A placeholder for missing content. */
export function empty(title, text, ...more) {
  return h("div.empty", null, h("h2", null, title), h("p", null, text), more);
}
