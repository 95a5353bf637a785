// Events as a server sends them, for tests: a short session with every kind of event.

let seq = 0;

export function begin() {
  seq = 0;
}

export function lasting(type, fields = {}) {
  seq += 1;
  return { v: 1, session: "s", seq, time: "2026-01-31T17:45:02Z", type, ...fields };
}

export function fleeting(type, fields = {}) {
  return { v: 1, session: "s", time: "2026-01-31T17:45:02Z", type, ...fields };
}

export const text = (words) => ({ type: "text", text: words });
export const use = (id, name, input) => ({ type: "tool_use", id, name, input });
export const usage = {
  input_tokens: 10,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 5,
  output_tokens: 7,
};
export const spending = { usage, cost: 0.5, requests: 1, seconds: 3 };

export function replied(content, more = {}) {
  return lasting("replied", { turn: 1, content, stop: "tool_use", usage, cost: 0.25, model: "m", ...more });
}

export function ended(call, name, words, more = {}) {
  return lasting("tool_ended", { call, name, content: [text(words)], is_error: false, millis: 12, ...more });
}

/** The summary of a call, as a tool makes it. */
export const summary = (kind, verb, subject, more = {}) => ({
  verb,
  subject,
  kind,
  input: { show: "nothing" },
  output: "text",
  ...more,
});

export const commandSummary = (command, more = {}) =>
  summary("command", "$", command, {
    input: { show: "argument", name: "command", language: "sh" },
    output: "command",
    ...more,
  });

export const planSummary = summary("plan", "plan", "0 of 2 done", { output: "plan" });

/** A session with two parallel calls, a retried reply, and the end of a turn. */
export function session() {
  begin();
  const plan = { steps: [{ title: "one", status: "active" }, { title: "two" }] };
  return [
    lasting("session_started", { release: "0", workspace: "/w", model: "m" }),
    lasting("sandbox_started", { backend: "native", walls: ["seccomp"], network: [], limits: {} }),
    lasting("turn_started", { turn: 1, prompt: [text("do it")] }),
    fleeting("request_started", { turn: 1, request: 1 }),
    fleeting("thinking_delta", { text: "hm" }),
    fleeting("text_delta", { text: "wro" }),
    fleeting("retrying", { attempt: 1, wait_ms: 10, reason: "overloaded" }),
    fleeting("request_started", { turn: 1, request: 1 }),
    fleeting("thinking_delta", { text: "let me " }),
    fleeting("thinking_delta", { text: "see" }),
    fleeting("text_delta", { text: "I " }),
    fleeting("text_delta", { text: "look" }),
    fleeting("input_delta", { call: "a", name: "bash", json: '{"comm' }),
    fleeting("input_delta", { call: "a", name: "bash", json: 'and":"ls"}' }),
    fleeting("input_delta", { call: "b", name: "plan", json: "{}" }),
    replied([
      { type: "thinking", thinking: "let me see", signature: "x" },
      text("I look"),
      use("a", "bash", { command: "ls" }),
      use("b", "plan", plan),
    ]),
    fleeting("spent", { spending }),
    fleeting("tool_started", { call: "a", name: "bash", input: { command: "ls" }, summary: commandSummary("ls") }),
    fleeting("tool_output", { call: "a", text: "one\n", is_error: false }),
    fleeting("tool_started", { call: "b", name: "plan", input: plan, summary: planSummary }),
    ended("b", "plan", "ok", { summary: planSummary }),
    fleeting("tool_output", { call: "a", text: "two\n", is_error: false }),
    ended("a", "bash", "one\ntwo\nexit code: 0", {
      changes: [{ path: "x", diff: "@@ -1 +1 @@\n-a\n+b\n" }],
      summary: commandSummary("ls"),
    }),
    lasting("noted", { text: "mind the gap" }),
    fleeting("request_started", { turn: 1, request: 2 }),
    fleeting("text_delta", { text: "done" }),
    replied([text("done")], { stop: "end_turn" }),
    lasting("turn_ended", { turn: 1, outcome: { kind: "done" }, spending }),
  ];
}
