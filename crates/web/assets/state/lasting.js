// The effect of each lasting event. Events that are missing here do not change the display.

import { readSummary } from "./call_summary.js";
import { dropPartial, dropPassing, endOpenCalls, newCall, push, touch } from "./items.js";

export const LASTING = {
  session_started(state, event) {
    state.session = event.session;
    state.model = event.model;
  },
  sandbox_started(state, event) {
    const { backend, strength, reason, walls, network, limits } = event;
    state.sandbox = { backend, strength: strength ?? "", reason: reason ?? "", walls, network, limits };
    dropPassing(state);
    push(state, {
      key: `sandbox:${event.seq}`,
      kind: "sandbox",
      sandbox: state.sandbox,
      replaces: event.replaces ?? null,
      time: event.time,
    });
  },
  turn_started(state, event) {
    endOpenCalls(state);
    dropPartial(state);
    state.turn = event.turn;
    state.isTurnOpen = true;
    state.activity = { kind: "asking" };
    push(state, {
      key: `prompt:${event.seq}`,
      kind: "prompt",
      turn: event.turn,
      blocks: event.prompt,
      time: event.time,
    });
  },
  turn_continued(state, event) {
    endOpenCalls(state);
    dropPartial(state);
    state.turn = event.turn;
    state.isTurnOpen = true;
    push(state, { key: `continued:${event.seq}`, kind: "continued", turn: event.turn, time: event.time });
  },
  replied(state, event) {
    dropPartial(state);
    dropPassing(state);
    const prefix = `reply:${state.replies}`;
    event.content.forEach((block, index) => addBlock(state, event, block, `${prefix}:${index}`));
    state.replies += 1;
    state.model = event.model;
    state.spending = addSpending(state.spending, event);
    state.activity = state.isTurnOpen ? { kind: "working" } : null;
    if (!["end_turn", "tool_use", "stop_sequence"].includes(event.stop)) {
      push(state, {
        key: `stop:${event.seq}`,
        kind: "stop",
        stop: event.stop,
        turn: event.turn,
        time: event.time,
      });
    }
  },
  tool_ended(state, event) {
    const call = state.calls.get(event.call) ?? newCall(state, event.call, event.name, event.time);
    const { content, is_error, kept, changes, millis } = event;
    Object.assign(call, {
      summary: readSummary(event.summary) ?? call.summary,
      content,
      isError: is_error,
      kept: kept ?? null,
      changes: changes ?? [],
      millis,
      isOver: true,
    });
    call.status = is_error ? "failed" : "done";
    call.output = "";
    state.openCalls.delete(call);
    touch(state, call);
    // A plan is set by a lasting event only, so that a reload shows the same one.
    const steps = call.summary?.output === "plan" && call.input?.steps;
    if (Array.isArray(steps) && !is_error) state.plan = readPlan(steps);
  },
  noted(state, event) {
    push(state, {
      key: `note:${event.seq}`,
      kind: "note",
      text: event.text,
      turn: state.turn,
      time: event.time,
    });
  },
  checkpoint_made(state, event) {
    state.checkpoints.push({ ...event.checkpoint, turn: event.turn, moment: event.moment });
  },
  turn_ended(state, event) {
    endOpenCalls(state);
    dropPartial(state);
    dropPassing(state);
    state.isTurnOpen = false;
    state.spending = event.spending;
    state.activity = null;
    push(state, {
      key: `outcome:${event.seq}`,
      kind: "outcome",
      turn: event.turn,
      outcome: event.outcome,
      spending: event.spending,
      time: event.time,
    });
  },
  undone(state, event) {
    const { turn, restored, removed, left } = event;
    const key = `undone:${event.seq}`;
    for (const item of state.items) {
      if (item.turn >= turn && !item.isUndone) {
        Object.assign(item, { isUndone: true, undoneBy: key });
        touch(state, item);
      }
    }
    push(state, {
      key,
      kind: "undone",
      undone: { turn, restored, removed, left: left ?? [] },
      isTakenBack: false,
      time: event.time,
    });
  },
  // Reverts the last undo that is still in effect. There must be one, or the agent would have
  // refused.
  redone(state, event) {
    const { turn, restored, removed, left } = event;
    const undo = state.items.findLast((item) => item.kind === "undone" && !item.isTakenBack);
    if (undo) undo.isTakenBack = true;
    for (const item of state.items) {
      if (undo && item.undoneBy === undo.key) {
        Object.assign(item, { isUndone: false, undoneBy: null });
        touch(state, item);
      }
    }
    push(state, {
      key: `redone:${event.seq}`,
      kind: "redone",
      redone: { turn, restored, removed, left: left ?? [] },
      time: event.time,
    });
  },
  model_changed(state, event) {
    state.model = event.model;
    push(state, { key: `model:${event.seq}`, kind: "model", model: event.model, time: event.time });
  },
  compacted(state, event) {
    state.spending = addSpending(state.spending, event);
    push(state, { key: `summary:${event.seq}`, kind: "summary", text: event.summary, time: event.time });
  },
};

function addBlock(state, event, block, key) {
  const base = { key, turn: event.turn, time: event.time };
  if (block.type === "text") {
    if (block.text !== "") push(state, { ...base, kind: "text", text: block.text });
  } else if (block.type === "thinking" || block.type === "redacted_thinking") {
    push(state, {
      ...base,
      kind: "thinking",
      text: block.thinking ?? "",
      isRedacted: block.type !== "thinking",
    });
  } else if (block.type === "tool_use") {
    const call = newCall(state, block.id, block.name, event.time);
    call.input = block.input;
    call.turn = event.turn;
    const broken = event.broken_calls?.[block.id];
    if (broken) Object.assign(call, { status: "failed", broken });
  } else {
    push(state, { ...base, kind: "other", block });
  }
}

function readPlan(steps) {
  return steps.slice(0, 200).map((step) => ({
    title: typeof step?.title === "string" ? step.title : "",
    status: ["active", "done"].includes(step?.status) ? step.status : "pending",
  }));
}

function addSpending(before, event) {
  const usage = { ...(before?.usage ?? {}) };
  for (const [name, value] of Object.entries(event.usage ?? {})) usage[name] = (usage[name] ?? 0) + value;
  const isKnown =
    event.cost !== undefined && event.cost !== null && (before === null || before.cost !== undefined);
  const cost = isKnown ? (before?.cost ?? 0) + event.cost : undefined;
  return { ...(before ?? { seconds: 0 }), usage, cost, requests: (before?.requests ?? 0) + 1 };
}
