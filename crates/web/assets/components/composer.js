// The text box for messages to an agent: Enter sends, Shift-Enter starts a new line. Keeps the text
// until it was sent.

import { h } from "../dom.js";
import { toastProblem } from "./feedback.js";
import { icon } from "./icons.js";

const MAX_HEIGHT_PX = 240;

/**
 * @param {{label: string, placeholder: string, send: (text: string) => Promise<void>, action?: string, needsControl?: boolean}} options
 */
export function makeComposer({
  label,
  placeholder,
  send,
  action = "Send",
  needsControl = false,
  extra = null,
}) {
  const box = h("textarea", {
    "aria-label": label,
    placeholder,
    rows: needsControl ? 2 : 1,
    spellcheck: "true",
    enterkeyhint: needsControl ? null : "send",
  });
  const button = h(
    "button.button.primary",
    { type: "submit", title: needsControl ? `${action} (Ctrl-Enter)` : `${action} (Enter)` },
    icon("send"),
    h("span", null, action),
  );
  const form = h("form.composer", null, box, h("div.composer-side", null, extra, button));
  let isSending = false;

  function fit() {
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, MAX_HEIGHT_PX)}px`;
  }

  async function submit() {
    const text = box.value.trim();
    if (text === "" || isSending) {
      box.focus();
      return;
    }
    isSending = true;
    button.disabled = true;
    try {
      await send(text);
      box.value = "";
      fit();
    } catch (problem) {
      toastProblem(problem);
    } finally {
      isSending = false;
      button.disabled = false;
      box.focus();
    }
  }

  box.addEventListener("input", fit);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    const isMeant = needsControl ? event.ctrlKey || event.metaKey : !event.shiftKey;
    if (!isMeant) return;
    event.preventDefault();
    submit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return {
    element: form,
    focus: () => box.focus(),
    setPlaceholder(text) {
      if (box.placeholder !== text) box.placeholder = text;
    },
  };
}
