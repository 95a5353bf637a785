// A stream that breaks anywhere: the final display is the same as without the break.

import { applyEvent, newState, reopen } from "/assets/state.js";
import { equal, numbers, test } from "./check.js";
import { session } from "./events.js";

const shown = (state) => ({
  items: state.items.map(({ settled, ...item }) => item),
  partial: state.partial.length,
  plan: state.plan,
  lastSeq: state.lastSeq,
});

/**
 * What a server sends to a client that follows after `seq`, when this many events have happened.
 */
function resent(events, happened, after) {
  const past = events.slice(0, happened);
  const lastLasting = past.findLastIndex((event) => event.seq);
  const missed = past.filter((event) => event.seq > after);
  return [...missed, ...past.slice(lastLasting + 1)];
}

function straight(events) {
  const state = newState();
  for (const event of events) applyEvent(state, event);
  return state;
}

test("a break after any event loses and doubles nothing", () => {
  const events = session();
  for (let cut = 0; cut <= events.length; cut += 1) {
    const state = straight(events.slice(0, cut));
    reopen(state);
    for (const event of resent(events, cut, state.lastSeq)) applyEvent(state, event);
    equal(shown(state), shown(straight(events.slice(0, cut))), `right after a break at ${cut}`);
    for (const event of events.slice(cut)) applyEvent(state, event);
    equal(shown(state), shown(straight(events)), `at the end, after a break at ${cut}`);
  }
});

test("events that happen while nobody listens are made up for", () => {
  const events = session();
  const random = numbers(7);
  for (let round = 0; round < 300; round += 1) {
    const state = newState();
    let at = 0;
    while (at < events.length) {
      const heard = at + random(6);
      for (const event of events.slice(at, heard)) applyEvent(state, event);
      const back = Math.min(events.length, heard + random(8));
      reopen(state);
      for (const event of resent(events, back, state.lastSeq)) applyEvent(state, event);
      at = back;
    }
    const whole = straight(events);
    const bare = (one) => shown(one).items.map(({ startedAt, inputText, ...item }) => item);
    equal(bare(state), bare(whole), `round ${round}`);
  }
});

test("a server that sends everything again changes nothing", () => {
  const events = session();
  const state = straight(events);
  reopen(state);
  for (const event of events.filter(({ seq }) => seq)) applyEvent(state, event);
  equal(shown(state), shown(straight(events)));
});
