// The transcript of a session: draws the items of a state, and of those only what changed. Keeps
// the reader at the end while they are there, and leaves them alone when they scroll up.

import { h } from "../dom.js";
import { icon } from "./icons.js";
import { makeItem, showActivity } from "./items.js";

/** This near to the end counts as at the end. */
const NEAR = 96;

/** Items that are laid out together; those out of sight cost nothing. */
const ITEMS_AT_ONCE = 50;

export function makeTranscript({ startAtEnd }) {
  const list = h("div.items");
  const activity = h("div.activity", { hidden: true });
  const jump = h(
    "button.button.small.jump",
    { type: "button", hidden: true },
    icon("arrowDown"),
    "Jump to latest",
  );
  const element = h(
    "section.transcript",
    { "aria-label": "Transcript" },
    h("h2.visually-hidden", null, "Transcript"),
    list,
    activity,
  );
  const made = new Map();
  let isAtEnd = startAtEnd;
  let hasScrolled = false;
  let scrolledBefore = 0;

  function distance() {
    const page = document.scrollingElement;
    return page.scrollHeight - page.scrollTop - window.innerHeight;
  }

  /** Again in the next frames: what comes into sight gets its true height only then. */
  function toEnd(times = 4) {
    const page = document.scrollingElement;
    if (!isAtEnd || !element.isConnected || times === 0) return;
    if (distance() > 0) page.scrollTop = page.scrollHeight;
    scrolledBefore = page.scrollTop;
    requestAnimationFrame(() => toEnd(times - 1));
  }

  function scrolled() {
    const top = document.scrollingElement.scrollTop;
    hasScrolled = true;
    // The smallest step up leaves the end, or one could not get to what is just above it.
    if (top < scrolledBefore) isAtEnd = distance() < 4;
    else if (distance() < NEAR) isAtEnd = true;
    scrolledBefore = top;
    showJump();
  }

  function showJump() {
    jump.hidden = !hasScrolled || isAtEnd || distance() < NEAR;
  }

  window.addEventListener("scroll", scrolled, { passive: true });
  jump.addEventListener("click", () => {
    isAtEnd = true;
    toEnd();
    jump.hidden = true;
  });

  function place(state) {
    const wanted = new Set();
    let part = null;
    let next = null;
    for (const [index, item] of state.items.entries()) {
      if (index % ITEMS_AT_ONCE === 0) {
        part = list.children[index / ITEMS_AT_ONCE] ?? list.appendChild(h("div.item-part"));
        next = part.firstElementChild;
      }
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
      else part.insertBefore(one.element, next);
    }
    for (const [key, one] of made) {
      if (!wanted.has(key)) {
        one.element.remove();
        made.delete(key);
      }
    }
    while (list.lastElementChild && !list.lastElementChild.firstElementChild) list.lastElementChild.remove();
  }

  return {
    element,
    /** The button that leads back to the end. */
    jump,
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
      if (element.checkVisibility()) toEnd();
      showJump();
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
