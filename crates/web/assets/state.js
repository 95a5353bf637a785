// What a session looks like, as a fold over its events. Pure of DOM, clock and network: the same
// events give the same state, here and in a test. What each event means is in `state/`.
//
// A lasting event (one with `seq`) is taken once. The others show work under way: they are taken
// back by `reopen`, because a server sends them again to whoever follows anew.

import { dropPartial, dropPassing, touch } from "./state/items.js";
import { LASTING } from "./state/lasting.js";
import { FLEETING } from "./state/fleeting.js";

export function newState() {
  return {
    lastSeq: 0,
    session: null,
    model: null,
    sandbox: null,
    /** @type {Array<object>} what the transcript shows, in order; each with a `key` of its own */
    items: [],
    /** Items of the reply that is on its way: they are also at the end of `items`. */
    partial: [],
    calls: new Map(),
    /** Calls that have not ended. */
    openCalls: new Set(),
    plan: null,
    spending: null,
    turn: 0,
    isTurnOpen: false,
    replies: 0,
    checkpoints: [],
    /** What is being done just now, or null: `{kind, …}`. */
    activity: null,
    /** Items that changed since a renderer last looked. */
    changed: new Set(),
    isReordered: false,
  };
}

/** Takes one event in. Gives whether it was new. */
export function take(state, event) {
  if (typeof event.seq === "number") {
    if (event.seq <= state.lastSeq) return false;
    state.lastSeq = event.seq;
    LASTING[event.type]?.(state, event);
    settle(state);
  } else {
    FLEETING[event.type]?.(state, event);
  }
  return true;
}

/** The stream begins anew: everything since the last lasting event will be sent again. */
export function reopen(state) {
  dropPartial(state);
  dropPassing(state);
  for (const call of state.openCalls) {
    if (call.settled) Object.assign(call, call.settled);
    touch(state, call);
  }
  state.activity = null;
}

/** From now on, what is there is only taken back by a lasting event. */
function settle(state) {
  for (const call of state.openCalls) {
    const { status, summary, output, startedAt } = call;
    call.settled = { status, summary, output, startedAt };
  }
}
