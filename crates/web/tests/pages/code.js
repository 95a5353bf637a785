// Syntax highlighting, and diffs.

import { fileView, showLine } from "/assets/components/code_view.js";
import { diffRows } from "/assets/components/diff_view.js";
import { parseDiff } from "/assets/text/diff.js";
import { highlight, highlightLines } from "/assets/text/highlight.js";
import { languageOfFile } from "/assets/text/languages.js";
import { equal, holds, numbers, test } from "./check.js";

const LANGUAGES = "rust python js ts json toml yaml sh html css c go java sql dockerfile diff unknown".split(
  " ",
);

test("backticks in a line are code, and nothing else is anything", () => {
  const element = document.createElement("p");
  showLine(element, "Write `a<b>` and `c`, not <i>this</i> or ` that");
  equal(
    [element.textContent, [...element.children].map((one) => `${one.tagName} ${one.textContent}`)],
    ["Write a<b> and c, not <i>this</i> or ` that", ["CODE a<b>", "CODE c"]],
  );
});

test("highlighting changes no character", () => {
  const parts = [
    "fn",
    " ",
    "\n",
    '"',
    "'",
    "`",
    "//",
    "/*",
    "*/",
    "#",
    "\\",
    "{",
    "}",
    "<",
    ">",
    "=",
    ":",
    "0x1f",
    "3.5e",
    "é",
    "𝒳",
    "'''",
    '"""',
    'r#"',
    "$x",
    "${",
    "@a",
    "--",
    "<!--",
    "&amp;",
    "true",
    "\t",
    "-",
    "+",
  ];
  const random = numbers(5);
  for (const language of LANGUAGES) {
    for (let round = 0; round < 150; round += 1) {
      const text = Array.from({ length: random(50) }, () => parts[random(parts.length)]).join("");
      equal(
        highlight(text, language)
          .map((token) => token.text)
          .join(""),
        text,
        language,
      );
      equal(
        highlightLines(text, language)
          .map((line) => line.map((token) => token.text).join(""))
          .join("\n"),
        text,
        language,
      );
    }
  }
});

test("long texts end, whatever they repeat", () => {
  for (const unit of ["a-", '"', "'", "`", "/*", "- ", "a=", "r#", "'\\", "<a ", "&#", "  \n"]) {
    const text = unit.repeat(60_000 / unit.length);
    for (const language of LANGUAGES)
      equal(
        highlight(text, language)
          .map((token) => token.text)
          .join("").length,
        text.length,
      );
  }
});

test("tokens have their kinds", () => {
  for (const [language, text, word, kind] of [
    ["rust", "pub fn main() {} // end", "pub", "keyword"],
    ["rust", 'let a = "x\\"y";', '"x\\"y"', "string"],
    ["rust", "fn a<'a>(x: &'a str)", "'a", "special"],
    ["rust", 'r#"raw " quote"#', 'r#"raw " quote"#', "string"],
    ["python", "def f(): # c", "# c", "comment"],
    ["python", "'''a\nb'''", "'''a\nb'''", "string"],
    ["js", "const x = `a ${b}`;", "`a ${b}`", "string"],
    ["json", '{"a": 1}', '"a"', "property"],
    ["toml", '[package]\nname = "x"', "[package]", "special"],
    ["yaml", "key: true", "key", "property"],
    ["sh", "echo $HOME # c", "$HOME", "special"],
    ["html", '<a href="x">', "<a", "keyword"],
    ["css", "a { color: #fff }", "#fff", "special"],
    ["go", "func main() {}", "main", "function"],
  ]) {
    const found = highlight(text, language).find((token) => token.text === word);
    equal(found?.kind, kind, `${language}: ${word} in ${JSON.stringify(highlight(text, language))}`);
  }
});

test("files know their language", () => {
  for (const [path, wanted] of [
    ["src/main.rs", "rs"],
    ["Dockerfile", "dockerfile"],
    ["a/Makefile", "makefile"],
    ["LICENSE", ""],
  ])
    equal(languageOfFile(path), wanted);
});

test("a file is shown whole, with its line numbers", () => {
  const text = Array.from({ length: 450 }, (_, index) => `let a${index} = 1;`).join("\n");
  const view = fileView(`${text}\n`, "x.js");
  equal([...view.querySelectorAll("code")].map((code) => code.textContent).join("\n"), text);
  holds(view.querySelectorAll(".line-numbers")[2].textContent.endsWith("450"), "line numbers end elsewhere");
});

test("differences are numbered", () => {
  const { rows, added, removed } = parseDiff(
    "--- a\n+++ b\n@@ -3,2 +3,3 @@ fn\n same\n-old\n+new\n+more\n\\ No newline at end of file\n",
  );
  equal([added, removed], [2, 1]);
  equal(
    rows.map(({ kind }) => kind),
    ["hunk", "same", "removed", "added", "added", "note"],
  );
  equal(
    rows.map((row) => [row.old ?? null, row.new ?? null]),
    [
      [null, null],
      [3, 3],
      [4, null],
      [null, 4],
      [null, 5],
      [null, null],
    ],
  );
});

test("hostile differences are text", () => {
  const view = diffRows("@@ -1 +1 @@\n+<img src=x onerror=alert(1)>\n+\u202e evil\n", "x");
  equal(view.querySelectorAll("img").length, 0);
  holds(
    view.textContent.includes("<img src=x onerror=alert(1)>") && view.textContent.includes("⟨U+202E⟩"),
    view.textContent,
  );
  equal(
    parseDiff("no diff at all\n@@ broken").rows.map(({ kind }) => kind),
    ["note", "note"],
  );
});
