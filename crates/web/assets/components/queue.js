// Messages that were sent but not yet processed. Their number comes from the server; their text is
// known only to the page that sent them.

import { fill, h } from "../dom.js";
import { plural } from "../text/format.js";
import { oneLine } from "../text/visible.js";

export function makeQueue() {
  const element = h("div.queue", { hidden: true, "aria-live": "polite" });
  /** @type {Array<{text: string, turn: number}>} with the turn that each will start */
  let pending = [];
  let shown = "";

  return {
    element,
    add(text, state) {
      const last = pending.at(-1)?.turn ?? state.turn;
      pending.push({ text, turn: Math.max(last, state.turn) + 1 });
    },
    update(job, state) {
      pending = pending.filter(({ turn }) => turn > state.turn);
      const waiting = Math.max(pending.length, (job.messages ?? 0) - Math.max(state.turn, 1));
      const key = `${waiting} ${pending.map(({ turn }) => turn)}`;
      if (key === shown) return;
      shown = key;
      element.hidden = waiting <= 0;
      fill(
        element,
        h("span.queue-label", null, `${plural(waiting, "message")} waiting`),
        h(
          "ul",
          null,
          pending.map(({ text }) => h("li", null, oneLine(text, 160))),
        ),
      );
    },
  };
}
