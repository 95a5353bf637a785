// The output of programs, as it is shown.

import { output } from "/assets/components/output_view.js";
import { parseAnsi, plainText } from "/assets/text/ansi.js";
import { oneLine, visible, visibleName } from "/assets/text/visible.js";
import { equal, holds, numbers, test } from "./check.js";

test("sequences become plain text", () => {
  for (const [text, wanted] of [
    ["\u001b[31mred\u001b[0m", "red"],
    ["10%\r50%\r100%\n", "100%\n"],
    ["100%\r5", "500%"],
    ["a\r\nb", "a\nb"],
    ["ab\bc", "ac"],
    ["old\u001b[2Knew", "new"],
    ["abc\r\u001b[Kd", "d"],
    ["\u001b]0;title\u0007x", "x"],
    ["\u001b]8;;http://evil\u001b\\link\u001b]8;;\u001b\\", "link"],
    ["\u001b]never closed\nnext line", "\nnext line"],
    ["\u001bPdcs\u001b\\x", "x"],
    ["\u001b[?25l\u001b[2J\u001b[10;10Hx", "x"],
    ["\u001b(Bx", "x"],
    ["\u009b31mx", "x"],
    ["\u0007\u0000x", "x"],
    ["\u001b[8mhidden", "hidden"],
    ["a\u202eb", "a⟨U+202E⟩b"],
  ])
    equal(plainText(text), wanted, JSON.stringify(text));
});

test("colours become classes", () => {
  for (const [codes, wanted] of [
    ["31", "ansi-1"],
    ["1;92", "ansi-10 ansi-bold"],
    ["38;5;196", "ansi-9"],
    ["38;2;10;200;30", "ansi-2"],
    ["48;5;232", "ansi-on-0"],
    ["7", "ansi-ground ansi-on-ink"],
    ["31;7", "ansi-ground ansi-on-1"],
    ["38;5;999", ""],
    ["38;2;1", ""],
    ["31;0", ""],
  ])
    equal(parseAnsi(`\u001b[${codes}mx`)[0][0].style, wanted, codes);
});

test("no sequence leaves a control character, or a class of its own making", () => {
  const parts = [
    "\u001b[",
    "\u001b]",
    "\u001bP",
    "\u009b",
    "m",
    "31",
    ";",
    "38;5;",
    "K",
    "\r",
    "\n",
    "\b",
    "\u0007",
    "\u001b\\",
    "x",
    "\u001b",
    "\u0000",
    "\u2066",
    '" onclick=x',
    "é",
  ];
  const random = numbers(3);
  for (let round = 0; round < 2000; round += 1) {
    const text = Array.from({ length: 1 + random(60) }, () => parts[random(parts.length)]).join("");
    for (const run of parseAnsi(text).flat()) {
      holds(!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2066]/.test(run.text), JSON.stringify(text));
      holds(/^(ansi-[a-z0-9-]+ ?)*$/.test(run.style), run.style);
    }
  }
});

test("a long sequence hides nothing", () => {
  const hidden = "secret".repeat(2000);
  holds(plainText(`\u001b]${hidden}`).includes("secret"), "a title that never ends hides what follows");
  holds(plainText(`\u001b[${"1;".repeat(9000)}`).length > 0, "a colour that never ends hides what follows");
});

test("long output is clamped until asked for", () => {
  const text = Array.from({ length: 500 }, (_, index) => `line ${index}`).join("\n");
  const element = output(text);
  holds(!element.textContent.includes("line 250"), "the middle is shown");
  holds(
    element.textContent.includes("line 0") && element.textContent.includes("line 499"),
    "an end is missing",
  );
  element.querySelector("button").click();
  holds(element.textContent.includes("line 250"), "the middle is not shown");
});

test("names show what hides in them", () => {
  for (const [name, wanted] of [
    ["plain.txt", "plain.txt"],
    ["a\nb", "a⟨U+000A⟩b"],
    ["a\u202egnp.exe", "a⟨U+202E⟩gnp.exe"],
    ["\u001b[31m", "⟨U+001B⟩[31m"],
    ["zero\u200bwidth", "zero⟨U+200B⟩width"],
    ["\u{e0041}", "⟨U+E0041⟩"],
    ["👩‍🚀 مرحبا", "👩‍🚀 مرحبا"],
  ])
    equal(visibleName(name), wanted);
  equal(visible("a\n\tb"), "a\n\tb");
  equal(oneLine("first\nsecond"), "first…");
  equal(oneLine("x".repeat(300), 5), "xxxxx…");
});
