// Adds items to a transcript and removes them.

export function newCall(state, id, name, time) {
  const call = {
    key: `call:${state.replies}:${id}`,
    kind: "call",
    call: id,
    name,
    turn: state.turn,
    time,
    status: "waiting",
    /** What the tool says of the call, or null. */
    summary: null,
    input: null,
    inputText: "",
    output: "",
    content: [],
    changes: [],
    kept: null,
    millis: null,
    isError: false,
    isOver: false,
    broken: null,
    startedAt: null,
    settled: null,
  };
  state.calls.set(id, call);
  state.openCalls.add(call);
  push(state, call);
  return call;
}

export function endOpenCalls(state) {
  for (const call of state.openCalls) {
    Object.assign(call, { status: call.broken ? "failed" : "lost", isOver: true });
    touch(state, call);
  }
  state.openCalls.clear();
}

export function push(state, item) {
  state.items.push(item);
  touch(state, item);
  state.isReordered = true;
}

export function touch(state, item) {
  state.changed.add(item);
}

/** Discards an incomplete reply. */
export function dropPartial(state) {
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

export function dropPassing(state) {
  if (!state.items.some((item) => item.isPassing)) return;
  state.items = state.items.filter((item) => !item.isPassing);
  state.isReordered = true;
}
