// The fold: the effect of each event on the display.

import { applyEvent, newState } from "/assets/state.js";
import { equal, holds, test } from "./check.js";
import {
  begin,
  commandSummary,
  ended,
  fleeting,
  lasting,
  planSummary,
  replied,
  session,
  spending,
  text,
  usage,
  use,
} from "./events.js";

export function fold(events, state = newState()) {
  for (const event of events) applyEvent(state, event);
  return state;
}

const kinds = (state) => state.items.map((item) => item.kind);

test("a whole session is folded", () => {
  const state = fold(session());
  equal(kinds(state), ["sandbox", "prompt", "thinking", "text", "call", "call", "note", "text", "outcome"]);
  const [bash, plan] = state.items.filter((item) => item.kind === "call");
  equal([bash.status, bash.millis, bash.changes.length, bash.output], ["done", 12, 1, ""]);
  equal(plan.status, "done");
  equal(state.plan, [
    { title: "one", status: "active" },
    { title: "two", status: "pending" },
  ]);
  equal([state.isTurnOpen, state.activity, state.lastSeq], [false, null, 9]);
  equal(state.spending, spending);
});

test("a lasting event is taken once", () => {
  const events = session();
  const state = fold(events);
  const before = JSON.stringify(state.items);
  for (const event of events.filter(({ seq }) => seq))
    holds(!applyEvent(state, event), `event ${event.seq} was taken twice`);
  equal(JSON.stringify(state.items), before);
});

test("the lasting events alone give the same end", () => {
  const events = session();
  const shown = (state) => state.items.map(({ settled, startedAt, inputText, ...item }) => item);
  const all = fold(events);
  const few = fold(events.filter(({ seq }) => seq));
  equal(shown(few), shown(all));
  equal(few.plan, all.plan);
  equal(few.spending, all.spending);
});

test("pieces of a reply keep their keys when it is whole", () => {
  begin();
  const state = fold([
    lasting("turn_started", { turn: 1, prompt: [] }),
    fleeting("thinking_delta", { text: "a" }),
    fleeting("text_delta", { text: "b" }),
    fleeting("input_delta", { call: "c", name: "bash", json: "{" }),
  ]);
  const before = state.items.map(({ key }) => key);
  equal(
    state.items.map((item) => item.isPartial === true),
    [false, true, true, false],
  );
  applyEvent(
    state,
    replied([
      { type: "thinking", thinking: "a!", signature: "" },
      text("b!"),
      use("c", "bash", { command: "x" }),
    ]),
  );
  equal(
    state.items.map(({ key }) => key),
    before,
  );
  equal(
    state.items.map((item) => item.isPartial === true),
    [false, false, false, false],
  );
  equal(state.partial, []);
});

test("a retry makes void what came of the reply", () => {
  begin();
  const state = fold([
    lasting("turn_started", { turn: 1, prompt: [] }),
    fleeting("text_delta", { text: "half" }),
    fleeting("input_delta", { call: "c", name: "bash", json: "{" }),
    fleeting("retrying", { attempt: 2, wait_ms: 5, reason: "overloaded" }),
  ]);
  equal(kinds(state), ["prompt"]);
  equal([state.calls.size, state.openCalls.size], [0, 0]);
  equal([state.activity.kind, state.activity.reason], ["retrying", "overloaded"]);
});

test("an interrupted turn leaves no call running", () => {
  begin();
  const state = fold([
    lasting("turn_started", { turn: 1, prompt: [] }),
    replied([use("a", "bash", {}), use("b", "bash", {})], { broken_calls: { b: "not JSON" } }),
    fleeting("tool_started", { call: "a", name: "bash", input: {}, summary: commandSummary("") }),
    lasting("turn_ended", { turn: 1, outcome: { kind: "interrupted" }, spending }),
  ]);
  equal(
    state.items.filter((item) => item.kind === "call").map((call) => call.status),
    ["lost", "failed"],
  );
  equal(state.openCalls.size, 0);
});

test("a reply that was cut says so", () => {
  for (const [stop, isSaid] of [
    ["max_tokens", true],
    ["refusal", true],
    ["something_new", true],
    ["end_turn", false],
    ["tool_use", false],
  ]) {
    begin();
    const state = fold([replied([text("x")], { stop })]);
    equal(kinds(state).includes("stop"), isSaid, stop);
  }
});

test("an undone turn is marked, not removed", () => {
  begin();
  const state = fold([
    lasting("turn_started", { turn: 1, prompt: [] }),
    lasting("turn_started", { turn: 2, prompt: [] }),
    lasting("undone", { turn: 2, checkpoint: {}, restored: 1, removed: 0 }),
  ]);
  equal(
    state.items.map((item) => item.isUndone === true),
    [false, true, false],
  );
});

test("an undo that is taken back leaves the marks of those before it", () => {
  const turns = [1, 2, 3].map((turn) => ["turn_started", { turn, prompt: [] }]);
  const undo = (turn) => ["undone", { turn, checkpoint: {}, restored: 1, removed: 0 }];
  const redo = (turn) => ["redone", { turn, checkpoint: {}, restored: 1, removed: 0 }];
  for (const [steps, expect] of [
    [[undo(3), undo(2)], [false, true, true]],
    [[undo(3), undo(2), redo(2)], [false, false, true]],
    [[undo(3), undo(2), redo(2), redo(3)], [false, false, false]],
    [[undo(3), redo(3), undo(3)], [false, false, true]],
    [[undo(2), redo(2)], [false, false, false]],
  ]) {
    begin();
    const state = fold([...turns, ...steps].map(([kind, event]) => lasting(kind, event)));
    const prompts = state.items.filter((item) => item.kind === "prompt");
    equal(
      prompts.map((item) => item.isUndone === true),
      expect,
    );
  }
});

test("another model and a summary are shown, and the summary is paid for", () => {
  begin();
  const state = fold([
    lasting("turn_started", { turn: 1, prompt: [] }),
    lasting("model_changed", { model: "other" }),
    lasting("compacted", { summary: "all is well", usage: { input_tokens: 7 }, cost: 0.5, model: "other" }),
  ]);
  equal(
    state.items.map((item) => item.kind),
    ["prompt", "model", "summary"],
  );
  equal([state.model, state.spending.usage.input_tokens, state.spending.cost], ["other", 7, 0.5]);
});

test("ids of calls may come again in a later reply", () => {
  begin();
  const state = fold([
    replied([use("a", "bash", { command: "1" })]),
    ended("a", "bash", "one"),
    replied([use("a", "bash", { command: "2" })]),
    ended("a", "bash", "two", { is_error: true }),
  ]);
  const calls = state.items.filter((item) => item.kind === "call");
  equal(
    calls.map((call) => [call.status, call.content[0].text]),
    [
      ["done", "one"],
      ["failed", "two"],
    ],
  );
  holds(calls[0].key !== calls[1].key, "two calls share a key");
});

test("spending adds up between the totals", () => {
  begin();
  const state = fold([replied([]), replied([])]);
  equal([state.spending.requests, state.spending.cost, state.spending.usage.output_tokens], [2, 0.5, 14]);
  applyEvent(state, replied([], { cost: undefined }));
  equal(state.spending.cost, undefined, "an unknown cost makes the sum unknown");
  applyEvent(state, fleeting("spent", { spending: { usage, cost: 9, requests: 9, seconds: 9 } }));
  equal(state.spending.cost, 9);
});

test("live output is bounded", () => {
  begin();
  const state = fold([
    replied([use("a", "bash", {})]),
    fleeting("tool_started", { call: "a", name: "bash", input: {}, summary: commandSummary("") }),
  ]);
  for (let part = 0; part < 40; part += 1)
    applyEvent(state, fleeting("tool_output", { call: "a", text: `${part}`.padEnd(20_000, "x"), is_error: false }));
  holds(state.items[0].output.length <= 256 * 1024, "the output grows without bound");
  holds(state.items[0].output.includes("39x"), "the end is missing");
});

test("unknown events and strange values are borne", () => {
  begin();
  const state = fold([
    lasting("from_the_future", {}),
    fleeting("from_the_future", {}),
    fleeting("tool_output", { call: "nobody", text: "x", is_error: false }),
    ended("nobody", "bash", "x"),
    replied([
      { type: "from_the_future" },
      use("p", "plan", { steps: [null, "x", 3, { title: { toString: 1, valueOf: 1 }, status: "odd" }] }),
      use("q", "plan", { steps: "no list" }),
    ]),
    ended("p", "plan", "ok", { summary: planSummary }),
    ended("q", "plan", "ok", { summary: planSummary }),
  ]);
  equal(kinds(state), ["call", "other", "call", "call"]);
  equal(
    state.plan.map((step) => step.status),
    ["pending", "pending", "pending", "pending"],
  );
});

test("a plan comes from any tool whose summary says so", () => {
  const steps = [{ title: "one", status: "done" }];
  for (const [name, more, wanted] of [
    ["plan", {}, null],
    ["plan", { summary: { verb: "plan", subject: "" } }, null],
    ["oracle", { summary: planSummary }, steps],
    ["oracle", { summary: planSummary, is_error: true }, null],
  ]) {
    begin();
    const state = fold([replied([use("p", name, { steps })]), ended("p", name, "ok", more)]);
    equal(state.plan, wanted, JSON.stringify([name, more]));
  }
});

test("the summary at the end replaces the one at the start", () => {
  const start = { call: "a", name: "bash", input: {}, summary: commandSummary("ls") };
  for (const [more, detail] of [
    [{ summary: commandSummary("ls", { detail: "exit code 1" }) }, "exit code 1"],
    [{}, ""],
    [{ summary: "ls" }, ""],
  ]) {
    begin();
    const events = [replied([use("a", "bash", {})]), fleeting("tool_started", start)];
    const [call] = fold([...events, ended("a", "bash", "x", more)]).items;
    equal([call.summary.subject, call.summary.detail], ["ls", detail]);
  }
});
