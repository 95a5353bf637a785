// Elements: what can be created, and what is refused.

import { h, keyed } from "/assets/dom.js";
import { makeCall, updateCall } from "/assets/components/tool_call.js";
import { makeTranscript } from "/assets/components/transcript.js";
import { applyEvent, newState } from "/assets/state.js";
import { equal, holds, test, throws } from "./check.js";
import { begin, commandSummary, ended, fleeting, lasting, replied, session, use } from "./events.js";

test("text is never markup", () => {
  const element = h("p", { title: "<b>" }, "<b>x</b>", ["&amp;", null, false, 3]);
  equal([element.children.length, element.textContent], [0, "<b>x</b>&amp;3"]);
});

test("attributes that run code are refused", () => {
  for (const name of ["onclick", "ONERROR", "style", "srcdoc", "formaction"])
    throws(() => h("a", { [name]: "x" }), name);
  for (const [address, isKept] of [
    ["https://x.y", true],
    ["/a", true],
    ["#a", true],
    ["mailto:a@b", true],
    ["javascript:alert(1)", false],
    [" javascript:alert(1)", false],
    ["//x.y", false],
    ["data:text/html,x", false],
  ]) {
    equal(h("a", { href: address }).hasAttribute("href"), isKept, address);
  }
  for (const [address, isKept] of [
    ["data:image/png;base64,AA==", true],
    ["data:image/svg+xml;base64,AA==", false],
    ["https://x.y/z.png", false],
  ]) {
    equal(h("img", { src: address }).hasAttribute("src"), isKept, address);
  }
});

test("an option without a value has none", () => {
  equal(h("option", { value: "" }, "the server's choice").value, "");
});

test("keyed lists keep their elements", () => {
  const list = h("ul");
  const how = { key: (item) => item, make: (item) => h("li", null, item) };
  keyed(list, ["a", "b", "c"], how);
  const [a, b, c] = list.children;
  keyed(list, ["c", "a", "d"], how);
  equal(list.textContent, "cad");
  holds(
    list.children[0] === c && list.children[1] === a && !b.isConnected && !list.contains(b),
    "elements were made anew",
  );
});

test("a call opens, with hostile output as text", () => {
  begin();
  const state = newState();
  applyEvent(state, replied([use("a", "bash", { command: "<b>x</b>" })]));
  const element = makeCall(state.items[0]);
  document.body.append(element);
  applyEvent(
    state,
    fleeting("tool_started", {
      call: "a",
      name: "bash",
      input: { command: "<b>x</b>" },
      summary: commandSummary("<b>x</b>"),
    }),
  );
  applyEvent(state, fleeting("tool_output", { call: "a", text: "\u001b[31m<script>\u001b[0m\n", is_error: false }));
  updateCall(element, state.items[0]);
  holds(element.querySelector(".live .ansi-1").textContent === "<script>", "live output is not coloured");
  applyEvent(
    state,
    ended("a", "bash", "<script>alert(1)</script>\nexit code: 1", {
      is_error: true,
      summary: commandSummary("<b>x</b>", { detail: "exit code 1" }),
      changes: [{ path: "<i>", diff: "@@ -1 +1 @@\n-<a>\n+<b>\n" }],
    }),
  );
  updateCall(element, state.items[0]);
  equal(
    [
      element.dataset.status,
      element.querySelector(".call-end").textContent,
      element.querySelector(".live").hidden,
    ],
    ["failed", "exit code 1", true],
  );
  element.querySelector("details").open = true;
  return new Promise((resolve) => setTimeout(resolve)).then(() => {
    holds(
      element.querySelector(".call-body").textContent.includes("<script>alert(1)</script>"),
      "the result is missing",
    );
    equal(element.querySelectorAll("script, i, b").length, 0);
    element.remove();
  });
});

test("a transcript shows what its state holds, in order", () => {
  const transcript = makeTranscript({ startAtEnd: false });
  document.body.append(transcript.element);
  const state = newState();
  for (const event of session()) {
    applyEvent(state, event);
    transcript.update(state);
    const shown = [...transcript.element.querySelectorAll(".item")].map((item) => item.dataset.kind);
    equal(
      shown,
      state.items.map((item) => item.kind),
      `after ${event.type}`,
    );
  }
  applyEvent(state, lasting("noted", { text: "<img src=x>" }));
  transcript.update(state);
  equal(transcript.element.querySelectorAll("img").length, 0);
  transcript.stop();
  transcript.element.remove();
});
