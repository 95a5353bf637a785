// Tool calls: what is shown of them comes from their summaries, whatever the tool is called.

import { callWords, endWords, inputParts } from "/assets/components/call_words.js";
import { makeCall, updateCall } from "/assets/components/tool_call.js";
import { makeTranscript } from "/assets/components/transcript.js";
import { applyEvent, newState } from "/assets/state.js";
import { readSummary } from "/assets/state/call_summary.js";
import { equal, holds, test } from "./check.js";
import { begin, commandSummary, ended, fleeting, replied, summary, use } from "./events.js";

const call = (raw, more = {}) => ({
  name: "oracle",
  input: {},
  summary: readSummary(raw),
  content: [],
  status: "done",
  ...more,
});

test("a call is told in one line", () => {
  for (const [one, wanted] of [
    [call(commandSummary("ls\nrm x")), ["terminal", "", "ls…", true]],
    [call(summary("command", "look at", "job 3")), ["terminal", "look at", "job 3", false]],
    [call(summary("read", "read", "a\u202eb from line 3")), ["read", "read", "a⟨U+202E⟩b from line 3", false]],
    [call(summary("write", "write", "x")), ["file", "write", "x", false]],
    [call(summary("edit", "edit", "x")), ["edit", "edit", "x", false]],
    [call(summary("list", "list", ".")), ["folder", "list", ".", false]],
    [call(summary("search", "search", "x in src")), ["search", "search", "x in src", false]],
    [call(summary("plan", "plan", "1 of 2 done")), ["plan", "plan", "1 of 2 done", false]],
    [call(summary("other", "$", "x")), ["tool", "$", "x", false]],
    [call(summary("from_the_future", "ask", "x")), ["tool", "ask", "x", false]],
    [call(summary("constructor", "ask", "x")), ["tool", "ask", "x", false]],
    [call({}), ["tool", "", "", false]],
  ]) {
    const { icon, verb, line, isCommand } = callWords(one);
    equal([icon, verb, line, isCommand], wanted);
  }
});

test("a call without a summary is told by its name and a telling argument", () => {
  for (const [name, input, line] of [
    ["bash", { command: "ls\nrm x" }, "ls…"],
    ["fetch", { depth: 2, url: "http://x" }, "http://x"],
    ["find", { text: "b", pattern: "a" }, "a"],
    ["find", { path: 7, text: "b" }, "b"],
    ["find", { a: 1 }, ""],
    ["find", ["x"], ""],
    ["find", "x", ""],
    ["find", null, ""],
  ]) {
    const words = callWords(call(null, { name, input }));
    equal([words.icon, words.verb, words.line, words.isCommand], ["tool", name, line, false]);
  }
  equal(callWords(call(null, { name: 7 })).verb, "");
});

test("a call tells how it ended", () => {
  for (const [one, wanted] of [
    [call(commandSummary("x")), null],
    [call(commandSummary("x", { detail: "exit code 2" }), { isError: true }), "exit code 2"],
    [call(commandSummary("x", { detail: "goes on as job 3" })), "goes on as job 3"],
    [call(commandSummary("x", { detail: "killed by signal 9 (SIGKILL)" })), "killed by signal 9 (SIGKILL)"],
    [call(summary("edit", "edit", "x", { output: "diff", detail: "+3 −1" })), null],
    [call(summary("edit", "edit", "x", { output: "diff", detail: "+3 −1" }), { isError: true }), "failed"],
    [call(summary("search", "search", "x", { output: "nothing", detail: "12 matches" })), "12 matches"],
    [call(summary("read", "read", "x"), { isError: true }), "failed"],
    [call(summary("read", "read", "x"), { status: "lost" }), "no result"],
    [call(null, { broken: "not JSON", isError: true }), "broken"],
    [call(null, { content: [{ type: "text", text: "exit code: 2" }] }), null],
    [call(null, { isError: true }), "failed"],
  ])
    equal(endWords(one), wanted);
});

test("an opened call shows the part of its input that its tool chose", () => {
  const argument = (name, language) => ({ input: { show: "argument", name, language } });
  const command = commandSummary("ls");
  const writing = (name, language) => summary("write", "write", "x", argument(name, language));
  const unknown = summary("read", "read", "x", { input: { show: "hologram" } });
  for (const [one, wanted] of [
    [call(command, { input: { command: "ls" } }), [["Command", "sh", "ls"]]],
    [
      call(command, { input: { command: "ls", timeout: 3 } }),
      [
        ["Command", "sh", "ls"],
        ["Input", "json", '{\n  "timeout": 3\n}'],
      ],
    ],
    [call(command, { input: { command: 7 } }), [["Input", "json", '{\n  "command": 7\n}']]],
    [call(writing("content", "a.b/c.rs"), { input: { path: "x", content: "fn" } }), [["Content", "rs", "fn"]]],
    [call(writing("t", "src/Dockerfile"), { input: { t: "" } }), [["T", "dockerfile", ""]]],
    [call(writing("t", "src/LICENSE"), { input: { t: "" } }), [["T", "", ""]]],
    [call(writing("constructor", "sh")), []],
    [call(summary("read", "read", "x"), { input: { path: "x" } }), []],
    [call(summary("read", "read", "x"), { input: null }), []],
    [call(unknown, { input: { a: 1 } }), [["Input", "json", '{\n  "a": 1\n}']]],
    [call(null, { input: { command: "ls" } }), [["Input", "json", '{\n  "command": "ls"\n}']]],
    [call(null, { input: null }), [["Input", "json", "null"]]],
  ])
    equal(
      inputParts(one).map((part) => [part.label, part.language, part.text]),
      wanted,
    );
});

/** The element of a call after all events, opened. */
async function opened(events) {
  begin();
  const state = newState();
  for (const event of events()) applyEvent(state, event);
  const element = makeCall(state.items[0]);
  document.body.append(element);
  element.querySelector("details").open = true;
  await new Promise((resolve) => setTimeout(resolve));
  return element;
}

const textOf = (element, ...classes) => classes.map((name) => element.querySelector(`.${name}`).textContent);

test("a tool that the page has never heard of looks right", async () => {
  const input = { question: "why", depth: 3 };
  const told = summary("other", "ask", "the oracle", { input: { show: "all" } });
  const element = await opened(() => [
    replied([use("a", "oracle", input)]),
    fleeting("tool_started", { call: "a", name: "oracle", input, summary: told }),
    ended("a", "oracle", "because", { summary: { ...told, detail: "1 answer" } }),
  ]);
  equal(textOf(element, "call-verb", "call-line", "call-end"), ["ask", "the oracle", "1 answer"]);
  holds(element.querySelector(".call-icon .icon-tool"), "the icon is another");
  const body = element.querySelector(".call-body");
  holds(body.textContent.includes('"depth": 3'), "the input is missing");
  equal(body.querySelector(".output").textContent, "because");
  element.remove();
});

test("a call of an older release has a generic line", async () => {
  const element = await opened(() => [
    replied([use("a", "bash", { command: "ls -l" })]),
    ended("a", "bash", "no such file\nexit code: 2", { is_error: true }),
  ]);
  equal(textOf(element, "call-verb", "call-line", "call-end"), ["bash", "ls -l", "failed"]);
  holds(element.querySelector(".call-icon .icon-tool"), "the icon is another");
  holds(!element.classList.contains("is-command"), "it is shown as a command");
  const body = element.querySelector(".call-body").textContent;
  holds(body.includes('"command": "ls -l"') && body.includes("exit code: 2"), body);
  element.remove();
});

test("a call is generic until it starts", () => {
  begin();
  const state = newState();
  applyEvent(state, replied([use("a", "bash", { command: "ls" })]));
  const element = makeCall(state.items[0]);
  equal(textOf(element, "call-verb", "call-line"), ["bash", "ls"]);
  const start = { call: "a", name: "bash", input: { command: "ls" }, summary: commandSummary("ls") };
  applyEvent(state, fleeting("tool_started", start));
  updateCall(element, state.items[0]);
  equal(textOf(element, "call-verb", "call-line"), ["", "ls"]);
  holds(element.matches(".is-command") && element.querySelector(".icon-terminal"), "it is no command");
});

test("a change of the one file that the line names does not repeat the name", async () => {
  for (const [subject, isRepeated] of [
    ["a.txt", false],
    ["all files", true],
  ]) {
    const element = await opened(() => [
      replied([use("a", "oracle", {})]),
      ended("a", "oracle", "ok", {
        summary: summary("edit", "edit", subject, { output: "diff", detail: "+1 −1" }),
        changes: [{ path: "a.txt", diff: "@@ -1 +1 @@\n-a\n+b\n" }],
      }),
    ]);
    equal(element.querySelector(".change .path") !== null, isRepeated, subject);
    equal(textOf(element, "call-counts", "call-end"), ["+1 −1", ""], subject);
    element.remove();
  }
});

test("hostile summaries are borne", async () => {
  const long = "x".repeat(10_000);
  const nested = { toString: 1, valueOf: { a: [1] } };
  for (const raw of [
    7,
    true,
    null,
    "text",
    [],
    [commandSummary("x")],
    {},
    { verb: nested, subject: nested, detail: nested, kind: nested, input: nested, output: nested, job: nested },
    { verb: ["$"], subject: 7, detail: 7, kind: ["command"], input: [], output: ["plan"] },
    { verb: long, subject: long, detail: long, kind: long, output: long },
    commandSummary(long, { input: { show: "argument", name: long, language: long } }),
    commandSummary("x", { input: { show: "argument", name: "command", language: `${long}.${long}` } }),
    commandSummary("x", { input: { show: "argument", name: nested, language: nested } }),
    commandSummary("x", { input: { show: "argument", name: "command", language: nested } }),
    summary("other", "\u001b[2J\u0000\n\u202e", "<b>\r\u2028\u200b</b>", { detail: "\u0007\t\n<i>" }),
    summary("__proto__", "x", "x", { input: { show: "argument", name: "__proto__" }, output: "__proto__" }),
  ]) {
    const what = JSON.stringify(raw).slice(0, 100);
    for (const input of [{ command: "ls" }, { steps: nested }, null, 7, [nested]]) {
      const start = { call: "a", name: "oracle", input, summary: raw };
      const events = () => [
        replied([use("a", "oracle", input)]),
        fleeting("tool_started", start),
        ended("a", "oracle", "the answer", { summary: raw }),
      ];
      const element = await opened(events);
      holds(element.querySelector(".call-body .output").textContent === "the answer", what);
      for (const shown of textOf(element, "call-verb", "call-line", "call-end")) {
        holds(shown.length <= 401, `${what} is too long`);
        holds(!/[\u0000-\u001f\u200b\u2028\u202e]/.test(shown), `${what} is deceptive`);
      }
      for (const title of element.querySelectorAll(".section-title, figcaption span"))
        holds(title.textContent.length <= 100, `${what} has a long label`);
      equal(element.querySelectorAll("b, i").length, 0, what);
      element.remove();
      begin();
      const state = newState();
      const transcript = makeTranscript({ startAtEnd: false });
      for (const event of events()) {
        applyEvent(state, event);
        transcript.update(state);
      }
      equal([state.plan, transcript.element.querySelectorAll(".call").length], [null, 1], what);
      transcript.stop();
    }
  }
});
