// Messages that were sent but not yet processed. Their number comes from the server; their text is
// known only to the page that sent them.

import { fill, h } from "../dom.js";
import { plural } from "../text/format.js";
import { oneLine } from "../text/visible.js";

export function makeQueue() {
  const element = h("div.queue", { hidden: true, "aria-live": "polite" });
  /** @type {Array<{text: string, turn: number}>} with the turn that each will start */
  let said = [];
  let shown = "";

  return {
    element,
    said(text, state) {
      const last = said.at(-1)?.turn ?? state.turn;
      said.push({ text, turn: Math.max(last, state.turn) + 1 });
    },
    update(job, state) {
      said = said.filter(({ turn }) => turn > state.turn);
      const waiting = Math.max(said.length, (job.messages ?? 0) - Math.max(state.turn, 1));
      const key = `${waiting} ${said.map(({ turn }) => turn)}`;
      if (key === shown) return;
      shown = key;
      element.hidden = waiting <= 0;
      fill(
        element,
        h("span.queue-label", null, `${plural(waiting, "message")} waiting`),
        h(
          "ul",
          null,
          said.map(({ text }) => h("li", null, oneLine(text, 160))),
        ),
      );
    },
  };
}
