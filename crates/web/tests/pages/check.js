// A minimal test runner. Tests are registered, run in order, and leave their result in the page:
// `data-result` of the root is `passed` or `failed`, the list has a line for each test.

const tests = [];

export function test(name, run) {
  tests.push({ name, run });
}

export function equal(got, wanted, what = "") {
  const a = JSON.stringify(got);
  const b = JSON.stringify(wanted);
  if (a !== b) throw new Error(`${what} got ${a}, wanted ${b}`.slice(0, 2000));
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

export function throws(run, what) {
  try {
    run();
  } catch {
    return;
  }
  throw new Error(`${what}: nothing was thrown`);
}

/** Pseudo-random numbers that are the same in every run. */
export function numbers(seed) {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

export async function runAll() {
  const list = document.getElementById("results");
  let failed = 0;
  for (const { name, run } of tests) {
    const line = document.createElement("li");
    try {
      await run();
      line.textContent = `ok ${name}`;
    } catch (error) {
      failed += 1;
      line.textContent = `FAILED ${name}: ${error.message}`;
    }
    list.append(line);
  }
  document.documentElement.dataset.count = String(tests.length);
  document.documentElement.dataset.result = failed === 0 && tests.length > 0 ? "passed" : "failed";
}
