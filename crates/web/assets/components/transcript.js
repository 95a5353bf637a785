// The transcript of a session: draws the items of a state, and only those that changed. Follows the
// end while the reader is there, and stays in place when they scroll up.

import { h } from "../dom.js";
import { icon } from "./icons.js";
import { makeItem, showActivity } from "./items.js";

/** Distance from the end that still counts as at the end. */
const END_MARGIN_PX = 96;

/** Items in one container. Containers out of view cost no layout. */
const ITEMS_PER_PART = 50;

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

  /**
   * Repeats in the next frames, because items get their real height only when they come into view.
   */
  function toEnd(times = 4) {
    const page = document.scrollingElement;
    if (!isAtEnd || !element.isConnected || times === 0) return;
    if (distance() > 0) page.scrollTop = page.scrollHeight;
    scrolledBefore = page.scrollTop;
    requestAnimationFrame(() => toEnd(times - 1));
  }

  function onScroll() {
    const top = document.scrollingElement.scrollTop;
    hasScrolled = true;
    // Even the smallest step up leaves the end, so that the lines just above it can be reached.
    if (top < scrolledBefore) isAtEnd = distance() < 4;
    else if (distance() < END_MARGIN_PX) isAtEnd = true;
    scrolledBefore = top;
    showJump();
  }

  function showJump() {
    jump.hidden = !hasScrolled || isAtEnd || distance() < END_MARGIN_PX;
  }

  window.addEventListener("scroll", onScroll, { passive: true });
  jump.addEventListener("click", () => {
    isAtEnd = true;
    toEnd();
    jump.hidden = true;
  });

  function placeItems(state) {
    const wanted = new Set();
    let part = null;
    let next = null;
    for (const [index, item] of state.items.entries()) {
      if (index % ITEMS_PER_PART === 0) {
        part = list.children[index / ITEMS_PER_PART] ?? list.appendChild(h("div.item-part"));
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
    /** The button that scrolls back to the end. */
    jump,
    /** Draws what changed; called at most once per frame. */
    update(state) {
      if (state.isReordered) placeItems(state);
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
      window.removeEventListener("scroll", onScroll);
    },
  };
}
