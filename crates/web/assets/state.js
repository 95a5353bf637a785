// The state of a session, as a fold over its events. Independent of DOM, clock and network: the
// same events give the same state. The handlers of the events are in `state/`.
//
// A lasting event (one with `seq`) is applied once. The others show work in progress: `reopen`
// reverts them, because the server sends them again on a new connection.

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
    /** Items of the reply in progress. They are also at the end of `items`. */
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
    /** The current activity, or null: `{kind, …}`. */
    activity: null,
    /** Items that changed since they were last rendered. */
    changed: new Set(),
    isReordered: false,
  };
}

/** Applies one event. Returns whether it was new. */
export function applyEvent(state, event) {
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

/** The stream starts again: everything since the last lasting event will be sent again. */
export function reopen(state) {
  dropPartial(state);
  dropPassing(state);
  for (const call of state.openCalls) {
    if (call.settled) Object.assign(call, call.settled);
    touch(state, call);
  }
  state.activity = null;
}

/** Saves the state of open calls, so that only a lasting event can revert it. */
function settle(state) {
  for (const call of state.openCalls) {
    const { status, summary, output, startedAt } = call;
    call.settled = { status, summary, output, startedAt };
  }
}
