// The effect of each event that is not lasting. They only show work in progress.

import { readSummary } from "./call_summary.js";
import { dropPartial, newCall, push, touch } from "./items.js";

/** Maximum live output kept of one call, in characters. The end is kept. */
const MAX_OUTPUT_CHARS = 256 * 1024;

export const FLEETING = {
  request_started(state, event) {
    dropPartial(state);
    state.activity = { kind: "asking", request: event.request };
  },
  retrying(state, event) {
    dropPartial(state);
    state.activity = {
      kind: "retrying",
      attempt: event.attempt,
      reason: event.reason,
      until: Date.parse(event.time) + event.wait_ms,
    };
  },
  text_delta: (state, event) => appendText(state, "text", event),
  thinking_delta: (state, event) => appendText(state, "thinking", event),
  input_delta(state, event) {
    state.activity = { kind: "writing" };
    let call = state.partial.find((item) => item.kind === "call" && item.call === event.call);
    if (!call) {
      call = newCall(state, event.call, event.name, event.time);
      call.status = "writing";
      state.partial.push(call);
    }
    call.inputText += event.json;
    touch(state, call);
  },
  tool_started(state, event) {
    const call = state.calls.get(event.call) ?? newCall(state, event.call, event.name, event.time);
    if (call.isOver) return;
    Object.assign(call, {
      status: "running",
      input: event.input,
      summary: readSummary(event.summary),
      output: "",
      startedAt: event.time,
    });
    state.activity = { kind: "working" };
    touch(state, call);
  },
  tool_output(state, event) {
    const call = state.calls.get(event.call);
    if (!call || call.isOver) return;
    call.output = (call.output + event.text).slice(-MAX_OUTPUT_CHARS);
    touch(state, call);
  },
  command_refused(state, event) {
    push(state, {
      key: `refused:${event.time}`,
      kind: "refused",
      reason: event.reason,
      isPassing: true,
      turn: state.turn,
      time: event.time,
    });
  },
  spent(state, event) {
    state.spending = event.spending;
  },
};

function appendText(state, kind, event) {
  state.activity = { kind: "writing" };
  let item = state.partial.at(-1);
  if (!item || item.kind !== kind) {
    item = {
      key: `reply:${state.replies}:${state.partial.length}`,
      kind,
      text: "",
      isPartial: true,
      turn: state.turn,
      time: event.time,
    };
    state.partial.push(item);
    push(state, item);
  }
  item.text += event.text;
  touch(state, item);
}
