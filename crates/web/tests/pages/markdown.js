// Rendered markdown: its meaning, and what it must never do.

import { showMarkdown } from "/assets/components/markdown_view.js";
import { parseInline } from "/assets/text/inline.js";
import { parseMarkdown } from "/assets/text/markdown.js";
import { equal, holds, numbers, test } from "./check.js";

const ALLOWED = new Set(
  "A BLOCKQUOTE BR BUTTON CODE DIV EM FIGCAPTION FIGURE H3 HR LI OL P PATH PRE S SPAN STRONG SVG TABLE TBODY TD TH THEAD TR UL".split(
    " ",
  ),
);

function draw(text) {
  const element = document.createElement("div");
  showMarkdown(element, text);
  return element;
}

/** The structure of the rendered elements, such as `p(em)`. */
function outline(element) {
  const children = [...element.children]
    .filter((child) => !["FIGCAPTION"].includes(child.tagName))
    .map(outline);
  const name = element.tagName.toLowerCase();
  return children.length > 0 ? `${name}(${children.join(" ")})` : name;
}

function check(text, wanted) {
  equal([...draw(text).children].map(outline).join(" "), wanted, text);
}

test("blocks", () => {
  check("# One\n\n### Three ##", "h3 h3");
  check("Title\n=====\n\nOther\n---", "h3 h3");
  check("a\nb  \nc", "p(br)");
  check("---\n***\n_ _ _", "hr hr hr");
  check("> a\n> > b\nlazy", "blockquote(p blockquote(p))");
  check("- a\n- b\n  - c\n- d", "ul(li(div) li(div ul(li(div))) li(div))");
  check("1. a\n\n2. b", "ol(li(p) li(p))");
  check("- a\n* b", "ul(li(div)) ul(li(div))");
  check("In 1986\n7. was a number", "p");
  check("- [x] done\n- [ ] not", "ul(li(span div) li(span div))");
  check(
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n| `x|y` |",
    "div(table(thead(tr(th th)) tbody(tr(td td) tr(td(code) td))))",
  );
  check("```js\nlet a\n```\ntext", "figure(pre(code(span))) p");
  check("~~~\n```\n~~~", "figure(pre(code))");
  check("```\nnever closed\n# not a heading", "figure(pre(code))");
});

test("words", () => {
  for (const [text, wanted] of [
    ["**b** *e* ~~s~~ `c`", "p(strong em s code)"],
    ["***both***", "p(em(strong))"],
    ["**a *b* c**", "p(strong(em))"],
    ["snake_case_name and 2*3*4", "p(em)"],
    ["snake_case_name", "p"],
    ["\\*not\\* `\\*code\\*`", "p(code)"],
    ["[a](https://x.y 'title') <https://x.y> https://x.y.", "p(a a a)"],
    ["[a [b](https://x.y) c](https://z.y)", "p(a)"],
    ["![picture](https://x.y/z.png)", "p(a)"],
    [
      "[a](javascript:alert(1)) [b](data:text/html,x) [c](//x.y) [d](/v1/logout) [e](vbscript:x)",
      "p(span span span span span)",
    ],
    ["<script>alert(1)</script> <b>x</b> <!-- y -->", "p"],
  ])
    check(text, wanted);
});

test("links go out bare", () => {
  for (const link of draw("[a](https://x.y) <mailto:a@b.c> ![z](http://x.y/p.png)").querySelectorAll("a")) {
    equal([link.target, link.rel], ["_blank", "noopener noreferrer nofollow"]);
    holds(/^(https?|mailto):/.test(link.href), link.href);
  }
});

test("hostile texts make harmless elements", () => {
  const parts = [
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](http://e.e/p.png)",
    "**",
    "*",
    "_",
    "`",
    "```",
    "~~~",
    "\n",
    "\n\n",
    "> ",
    "- ",
    "1. ",
    "| a |",
    "|---|",
    "[",
    "]",
    "(",
    ")",
    "<",
    "http://a.b",
    "\\",
    "#",
    "\u202e",
    "\u0000",
    "\u001b[31m",
    "é",
    "𝒳",
    " ",
    "\t",
    "javascript:",
  ];
  const random = numbers(11);
  for (let round = 0; round < 1500; round += 1) {
    const text = Array.from({ length: 1 + random(40) }, () => parts[random(parts.length)]).join("");
    const element = draw(text);
    for (const one of element.querySelectorAll("*")) {
      holds(ALLOWED.has(one.tagName.toUpperCase()), `${one.tagName} from ${JSON.stringify(text)}`);
      for (const { name, value } of one.attributes) {
        holds(!/^(on|style|src)/i.test(name), `${name} from ${JSON.stringify(text)}`);
        if (name === "href")
          holds(/^(https?:|mailto:)/i.test(value), `${value} from ${JSON.stringify(text)}`);
      }
    }
    holds(
      !/[\u0000\u001b\u202e]/.test(element.textContent),
      `hidden characters from ${JSON.stringify(text)}`,
    );
  }
});

test("a text that grows is drawn as if it had come whole", () => {
  const check = (text) => {
    const growing = document.createElement("div");
    for (let length = 0; length <= text.length; length += 1) {
      showMarkdown(growing, text.slice(0, length));
      const whole = draw(text.slice(0, length));
      equal(
        [outline(growing), growing.textContent],
        [outline(whole), whole.textContent],
        JSON.stringify(text.slice(0, length)),
      );
    }
  };
  check(
    "# Title\n\nSome *words* and\n\n- a\n- b\n  1. c\n\n```rust\nfn x() {}\n\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n\nend",
  );
  check("one\n\n- a\n\n\n- b\n\ntext\n\n1. x\n\n   y\n\n2. z\r\n\r\nlast");
  const parts = ["a", "\n", "\n\n", "- b", "1. c", "> d", "# e", "```", "  ", "    ", "---", "| f |", "*"];
  const random = numbers(19);
  for (let round = 0; round < 60; round += 1)
    check(Array.from({ length: 14 }, () => parts[random(parts.length)]).join(""));
});

test("what does not change is not drawn again", () => {
  const element = document.createElement("div");
  showMarkdown(element, "one\n\ntwo");
  const [first] = element.children;
  showMarkdown(element, "one\n\ntwo three");
  holds(element.children[0] === first, "the first paragraph was drawn again");
});

test("long and deep texts end", () => {
  for (const text of [
    "[".repeat(1e5),
    "*".repeat(1e5),
    "*a ".repeat(5e4),
    "a* ".repeat(5e4),
    "` `` ".repeat(3e4),
    Array.from({ length: 1500 }, (_, index) => "`".repeat(index)).join("a"),
    ">".repeat(1e5),
    "[a](b".repeat(3e4),
    "# a".padEnd(1e5) + "x",
    "|a".repeat(3e4),
    "  ".repeat(1000) + "- x",
  ]) {
    parseMarkdown(text);
    parseInline(text);
  }
  const depth = (element) => 1 + Math.max(0, ...[...element.children].map(depth));
  for (const mark of ["> ", "- ", "*a **b "])
    holds(depth(draw(mark.repeat(3000))) < 120, `${mark} nests too deep`);
});
