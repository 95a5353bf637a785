// Conversion of forms to requests, and formatting and parsing of numbers.

import { checkHost, makeRequest, parseDuration, refusedField } from "/assets/task_request.js";
import {
  age,
  bytes,
  clock,
  count,
  dayName,
  duration,
  limitWords,
  money,
  parseBytes,
  tokens,
} from "/assets/text/format.js";
import { safeTarget } from "/assets/views/login.js";
import { marked } from "/assets/views/history.js";
import { equal, test } from "./check.js";

const EMPTY = {
  task: "x",
  model: "",
  backend: "",
  require: "",
  memory: "",
  cpus: "",
  pids: "",
  disk: "",
  network: [],
  cost: "",
  tokens: "",
  turns: "",
  timeout: "",
  git: "",
  branch: "",
  webhook: "",
  secret: "",
  source: "none",
  upload: null,
  interactive: false,
};
const ME = { limits: { memory: 2 ** 31, cpus: 2, pids: 512, disk: 2 ** 32, cost: 5 }, timeout: 3600 };

test("a form becomes a request", () => {
  const check = (change, wanted) => {
    const { request, problems } = makeRequest({ ...EMPTY, ...change }, ME);
    equal([...problems], [], JSON.stringify(change));
    equal(request, { task: "x", ...wanted }, JSON.stringify(change));
  };
  check({}, {});
  check(
    { model: "m", backend: "native", interactive: true },
    { model: "m", backend: "native", interactive: true },
  );
  check({ backend: "podman", require: "namespaces" }, { backend: "podman", require: "namespaces" });
  check({ memory: "512m", cpus: "0.5", pids: "64" }, { limits: { memory: 536870912, cpus: 0.5, pids: 64 } });
  check(
    { network: ["pypi.org"], cost: "$0.50", tokens: "100_000" },
    { network: ["pypi.org"], budget: { cost: 0.5, tokens: 100000 } },
  );
  check({ timeout: "15m" }, { timeout: 900 });
  check(
    { source: "git", git: "https://a.b/c", branch: "main" },
    { input: { git: { url: "https://a.b/c", branch: "main" } } },
  );
  check({ source: "none", git: "https://a.b/c" }, {});
  check({ webhook: "https://a.b", secret: "s" }, { webhook: { url: "https://a.b", secret: "s" } });
});

test("what is wrong is said at its field", () => {
  for (const [change, field] of [
    [{ task: "  " }, "task"],
    [{ memory: "lots" }, "memory"],
    [{ memory: "3g" }, "memory"],
    [{ cpus: "0" }, "cpus"],
    [{ cpus: "NaN" }, "cpus"],
    [{ pids: "1.5" }, "pids"],
    [{ cost: "-1" }, "cost"],
    [{ cost: "6" }, "cost"],
    [{ turns: "many" }, "turns"],
    [{ timeout: "0" }, "timeout"],
    [{ timeout: "2h" }, "timeout"],
    [{ source: "git", git: "git@a.b:c" }, "git"],
    [{ source: "git", git: "https://user@a.b/c" }, "git"],
    [{ source: "git", git: "https://a.b/c", branch: "--upload-pack=x" }, "branch"],
    [{ source: "zip" }, "upload"],
    [{ webhook: "ftp://a.b" }, "webhook"],
    [{ secret: "s" }, "webhook"],
  ])
    equal([...makeRequest({ ...EMPTY, ...change }, ME).problems.keys()], [field], JSON.stringify(change));
});

test("refusals of the server find their field", () => {
  for (const [detail, field, text] of [
    ["limits.memory: at most 2 is possible", "memory", "at most 2 is possible"],
    ["webhook.url: it must begin with `http://`", "webhook", "it must begin with `http://`"],
    ["input: cannot clone: no such host", "git", "cannot clone: no such host"],
    ["model: there is no `x`", "model", "there is no `x`"],
  ])
    equal(refusedField(detail), { field, text });
  for (const detail of ["the server is ending", "Too many: wait", ""]) equal(refusedField(detail), null);
});

test("hosts and times", () => {
  for (const [host, isGood] of [
    ["pypi.org", true],
    ["*.example.com:443", true],
    ["a b", false],
    ["https://x", false],
    ["-x", false],
    ["x/y", false],
  ])
    equal(checkHost(host) === null, isGood, host);
  for (const [text, wanted] of [
    ["90", 90],
    ["1.5m", 90],
    ["2h", 7200],
    ["soon", null],
  ])
    equal(parseDuration(text), wanted);
});

test("numbers are written for people", () => {
  equal([0, 1023, 1024, 1536, 5 * 2 ** 20, 2 ** 41].map(bytes), [
    "0 B",
    "1023 B",
    "1 KiB",
    "1.5 KiB",
    "5 MiB",
    "2 TiB",
  ]);
  equal(["512m", "2 GiB", "1024", "1.5k", "x", "-1"].map(parseBytes), [
    2 ** 29,
    2 ** 31,
    1024,
    1536,
    null,
    null,
  ]);
  equal([undefined, 0, 0.0123, 1.239].map(money), ["–", "$0.00", "$0.0123", "$1.24"]);
  equal([999, 1000, 12_345, 999_499, 1_234_567].map(count), ["999", "1k", "12.3k", "999k", "1.23M"]);
  equal([0.0004, 0.85, 4.21, 61, 3600, 7260].map(duration), [
    "0 ms",
    "850 ms",
    "4.2 s",
    "1 m 01 s",
    "1 h",
    "2 h 01 m",
  ]);
  equal(clock(-5), "0 s");
  equal(["4259.981337414s by guest", "900s", "4G by guest"].map(limitWords), [
    "1 h 10 m by guest",
    "15 m",
    "4G by guest",
  ]);
  equal(tokens({ input_tokens: 1, cache_read_input_tokens: 2, output_tokens: 3 }), 6);
});

test("ages and days", () => {
  const now = Date.parse("2026-01-31T12:00:00Z");
  const ago = (seconds) => new Date(now - seconds * 1000).toISOString();
  equal(
    [0, 30, 90, 7200, 200_000].map((seconds) => age(ago(seconds), now)),
    ["just now", "30s ago", "1m ago", "2h ago", "2d ago"],
  );
  equal(
    [0, 86_400].map((seconds) => dayName(ago(seconds), now)),
    ["Today", "Yesterday"],
  );
});

test("a login leads back into this site alone", () => {
  for (const [path, wanted] of [
    ["/jobs/1?tab=files", "/jobs/1?tab=files"],
    ["https://evil", "/"],
    ["//evil", "/"],
    ["/\\evil", "/"],
    ["/login?next=/", "/"],
    [null, "/"],
  ])
    equal(safeTarget(path), wanted);
});

test("excerpts mark the words of a query", () => {
  const show = (excerpt, query) =>
    marked(excerpt, query)
      .map((part) => (typeof part === "string" ? part : `[${part.textContent}]`))
      .join("");
  equal(show("the Range is wrong <b>", "range b"), "the [Range] is wrong <[b]>");
  equal(show("a.b*c", ".*("), "a.b*c");
});
