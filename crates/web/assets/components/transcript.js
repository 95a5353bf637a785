// The transcript of a session: draws the items of a state, and of those only what changed. Keeps
// the reader at the end while they are there, and leaves them alone when they scroll up.

import { h } from "../dom.js";
import { icon } from "./icons.js";
import { makeItem, showActivity } from "./items.js";

/** This near to the end counts as at the end. */
const NEAR = 96;

export function makeTranscript({ startAtEnd }) {
  const list = h("div.items");
  const activity = h("div.activity", { hidden: true });
  const jump = h("button.button.jump", { type: "button", hidden: true }, icon("arrowDown"), "Jump to latest");
  const element = h("section.transcript", { "aria-label": "Transcript" }, list, activity, jump);
  const made = new Map();
  let isAtEnd = startAtEnd;
  let scrolledBefore = 0;

  function distance() {
    const page = document.scrollingElement;
    return page.scrollHeight - page.scrollTop - window.innerHeight;
  }

  function toEnd() {
    const page = document.scrollingElement;
    page.scrollTop = page.scrollHeight;
    scrolledBefore = page.scrollTop;
  }

  function scrolled() {
    const top = document.scrollingElement.scrollTop;
    if (distance() < NEAR) isAtEnd = true;
    else if (top < scrolledBefore) isAtEnd = false;
    scrolledBefore = top;
    jump.hidden = isAtEnd || distance() < NEAR;
  }

  window.addEventListener("scroll", scrolled, { passive: true });
  jump.addEventListener("click", () => {
    isAtEnd = true;
    toEnd();
    jump.hidden = true;
  });

  function place(state) {
    const wanted = new Set();
    let next = list.firstElementChild;
    for (const item of state.items) {
      wanted.add(item.key);
      let one = made.get(item.key);
      if (one && one.kind !== item.kind) {
        if (one.element === next) next = next.nextElementSibling;
        one.element.remove();
        one = null;
      }
      if (!one) {
        one = { ...makeItem(item), kind: item.kind };
        made.set(item.key, one);
      }
      if (one.element === next) next = next.nextElementSibling;
      else list.insertBefore(one.element, next);
    }
    for (const [key, one] of made) {
      if (!wanted.has(key)) {
        one.element.remove();
        made.delete(key);
      }
    }
  }

  return {
    element,
    /** Draws what changed; called at most once a frame. */
    update(state) {
      if (state.isReordered) place(state);
      for (const item of state.changed) {
        const one = made.get(item.key);
        if (!one) continue;
        one.update(item);
        one.element.classList.toggle("is-undone", item.isUndone === true);
      }
      state.changed.clear();
      state.isReordered = false;
      showActivity(activity, state.activity, state.model);
      if (isAtEnd && element.isConnected && !element.hidden) toEnd();
      jump.hidden = isAtEnd || distance() < NEAR;
    },
    follow() {
      isAtEnd = true;
      toEnd();
    },
    stop() {
      window.removeEventListener("scroll", scrolled);
    },
  };
}
