// What a session looks like, as a fold over its events. The only module that knows what an event
// means. Pure of DOM, clock and network: the same events give the same state, here and in a test.
//
// A lasting event (one with `seq`) is taken once. The others show work under way: they are taken
// back by `reopen`, because a server sends them again to whoever follows anew.

/** Live output of one call that is kept, in characters: its end matters most. */
const LONGEST_OUTPUT = 256 * 1024;

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

const LASTING = {
  session_started(state, event) {
    state.session = event.session;
    state.model = event.model;
  },
  sandbox_started(state, event) {
    const { backend, walls, network, limits } = event;
    state.sandbox = { backend, walls, network, limits };
    dropPassing(state);
    push(state, { key: `sandbox:${event.seq}`, kind: "sandbox", sandbox: state.sandbox, replaces: event.replaces ?? null, time: event.time });
  },
  turn_started(state, event) {
    endOpenCalls(state);
    dropPartial(state);
    state.turn = event.turn;
    state.isTurnOpen = true;
    state.activity = { kind: "asking" };
    push(state, { key: `prompt:${event.seq}`, kind: "prompt", turn: event.turn, blocks: event.prompt, time: event.time });
  },
  turn_continued(state, event) {
    dropPartial(state);
    state.turn = event.turn;
    state.isTurnOpen = true;
    push(state, { key: `continued:${event.seq}`, kind: "continued", turn: event.turn, time: event.time });
  },
  replied(state, event) {
    dropPartial(state);
    dropPassing(state);
    const prefix = `reply:${state.replies}`;
    event.content.forEach((block, index) => takeBlock(state, event, block, `${prefix}:${index}`));
    state.replies += 1;
    state.model = event.model;
    state.spending = addSpending(state.spending, event);
    state.activity = state.isTurnOpen ? { kind: "working" } : null;
    if (!["end_turn", "tool_use", "stop_sequence"].includes(event.stop)) {
      push(state, { key: `stop:${event.seq}`, kind: "stop", stop: event.stop, turn: event.turn, time: event.time });
    }
  },
  tool_ended(state, event) {
    const call = state.calls.get(event.call) ?? newCall(state, event.call, event.name, event.time);
    const { content, is_error, kept, changes, millis } = event;
    Object.assign(call, { content, isError: is_error, kept: kept ?? null, changes: changes ?? [], millis, isOver: true });
    call.status = is_error ? "failed" : "done";
    call.output = "";
    state.openCalls.delete(call);
    touch(state, call);
  },
  noted(state, event) {
    push(state, { key: `note:${event.seq}`, kind: "note", text: event.text, turn: state.turn, time: event.time });
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
    push(state, { key: `outcome:${event.seq}`, kind: "outcome", turn: event.turn, outcome: event.outcome, spending: event.spending, time: event.time });
  },
  undone(state, event) {
    const { turn, restored, removed, left } = event;
    for (const item of state.items) {
      if (item.turn >= turn && !item.isUndone) {
        item.isUndone = true;
        touch(state, item);
      }
    }
    push(state, { key: `undone:${event.seq}`, kind: "undone", undone: { turn, restored, removed, left: left ?? [] }, time: event.time });
  },
};

const FLEETING = {
  request_started(state, event) {
    dropPartial(state);
    state.activity = { kind: "asking", request: event.request };
  },
  retrying(state, event) {
    dropPartial(state);
    state.activity = { kind: "retrying", attempt: event.attempt, reason: event.reason, until: Date.parse(event.time) + event.wait_ms };
  },
  text_delta: (state, event) => grow(state, "text", event),
  thinking_delta: (state, event) => grow(state, "thinking", event),
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
    Object.assign(call, { status: "running", input: event.input, summary: event.summary, output: "", startedAt: event.time });
    state.activity = { kind: "working" };
    touch(state, call);
  },
  tool_output(state, event) {
    const call = state.calls.get(event.call);
    if (!call || call.isOver) return;
    call.output = (call.output + event.text).slice(-LONGEST_OUTPUT);
    touch(state, call);
  },
  command_refused(state, event) {
    push(state, { key: `refused:${event.time}`, kind: "refused", reason: event.reason, isPassing: true, turn: state.turn, time: event.time });
  },
  spent(state, event) {
    state.spending = event.spending;
  },
};

function grow(state, kind, event) {
  state.activity = { kind: "writing" };
  let item = state.partial.at(-1);
  if (!item || item.kind !== kind) {
    item = { key: `reply:${state.replies}:${state.partial.length}`, kind, text: "", isPartial: true, turn: state.turn, time: event.time };
    state.partial.push(item);
    push(state, item);
  }
  item.text += event.text;
  touch(state, item);
}

function takeBlock(state, event, block, key) {
  const base = { key, turn: event.turn, time: event.time };
  if (block.type === "text") {
    if (block.text !== "") push(state, { ...base, kind: "text", text: block.text });
  } else if (block.type === "thinking" || block.type === "redacted_thinking") {
    push(state, { ...base, kind: "thinking", text: block.thinking ?? "", isRedacted: block.type !== "thinking" });
  } else if (block.type === "tool_use") {
    const call = newCall(state, block.id, block.name, event.time);
    call.input = block.input;
    call.turn = event.turn;
    const broken = event.broken_calls?.[block.id];
    if (broken) Object.assign(call, { status: "failed", broken });
    if (block.name === "plan" && Array.isArray(block.input?.steps)) state.plan = readPlan(block.input.steps);
  } else {
    push(state, { ...base, kind: "other", block });
  }
}

function readPlan(steps) {
  return steps.slice(0, 200).map((step) => ({
    title: String(step?.title ?? step ?? ""),
    status: ["active", "done"].includes(step?.status) ? step.status : "pending",
  }));
}

function newCall(state, id, name, time) {
  const call = {
    key: `call:${state.replies}:${id}`, kind: "call", call: id, name, turn: state.turn, time,
    status: "waiting", summary: "", input: null, inputText: "", output: "", content: [], changes: [],
    kept: null, millis: null, isError: false, isOver: false, broken: null, startedAt: null, settled: null,
  };
  state.calls.set(id, call);
  state.openCalls.add(call);
  push(state, call);
  return call;
}

function endOpenCalls(state) {
  for (const call of state.openCalls) {
    Object.assign(call, { status: call.broken ? "failed" : "lost", isOver: true });
    touch(state, call);
  }
  state.openCalls.clear();
}

function push(state, item) {
  state.items.push(item);
  touch(state, item);
  state.isReordered = true;
}

function touch(state, item) {
  state.changed.add(item);
}

/** What came of a reply that is not whole is void. */
function dropPartial(state) {
  if (state.partial.length === 0) return;
  const gone = new Set(state.partial);
  for (const item of gone) {
    if (item.kind !== "call") continue;
    state.openCalls.delete(item);
    if (state.calls.get(item.call) === item) state.calls.delete(item.call);
  }
  state.items = state.items.filter((item) => !gone.has(item));
  state.partial = [];
  state.isReordered = true;
}

function dropPassing(state) {
  if (!state.items.some((item) => item.isPassing)) return;
  state.items = state.items.filter((item) => !item.isPassing);
  state.isReordered = true;
}

function addSpending(before, event) {
  const usage = { ...(before?.usage ?? {}) };
  for (const [name, value] of Object.entries(event.usage ?? {})) usage[name] = (usage[name] ?? 0) + value;
  const isKnown = event.cost !== undefined && event.cost !== null && (before === null || before.cost !== undefined);
  const cost = isKnown ? (before?.cost ?? 0) + event.cost : undefined;
  return { ...(before ?? { seconds: 0 }), usage, cost, requests: (before?.requests ?? 0) + 1 };
}
