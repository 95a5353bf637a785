// Following a job over a stream that breaks: reconnects from where it was, and stops at the end.

import { follow } from "/assets/live.js";
import { equal, holds, test } from "./check.js";

/** Replaces the browser's EventSource, and is controlled by the test. */
class FakeSource extends EventTarget {
  static made = [];
  static OPEN = 1;
  static CONNECTING = 0;
  static CLOSED = 2;

  constructor(address) {
    super();
    this.address = address;
    this.readyState = FakeSource.CONNECTING;
    FakeSource.made.push(this);
  }

  close() {
    this.readyState = FakeSource.CLOSED;
  }

  open() {
    this.readyState = FakeSource.OPEN;
    this.dispatchEvent(new Event("open"));
  }

  send(name, value) {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(value) }));
  }

  /** @param {number} state of the source after the call */
  fail(state) {
    this.readyState = state;
    this.dispatchEvent(new Event("error"));
  }
}

function scene() {
  const real = window.EventSource;
  window.EventSource = FakeSource;
  FakeSource.made = [];
  const heard = { seq: 0, log: [] };
  const stream = follow("a b", {
    lastSeq: () => heard.seq,
    opened: () => heard.log.push("opened"),
    event: (event) => {
      heard.seq = event.seq ?? heard.seq;
      heard.log.push(`event ${event.seq}`);
    },
    job: (job) => heard.log.push(`job ${job.state}`),
    connection: (state) => heard.log.push(state),
    refused: () => heard.log.push("refused"),
  });
  return { heard, stream, sources: FakeSource.made, end: () => (stream.stop(), (window.EventSource = real)) };
}

/** The next source that is created. */
async function nextSource(sources, count) {
  while (sources.length < count) await new Promise((resolve) => setTimeout(resolve, 50));
  return sources.at(-1);
}

test("events are handed on, and the end is the end", () => {
  const { heard, sources, stream, end } = scene();
  equal(sources[0].address, "/v1/jobs/a%20b/events");
  sources[0].open();
  sources[0].send("job", { state: "running" });
  sources[0].send("agent", { seq: 1 });
  sources[0].send("end", {});
  equal(heard.log, ["connecting", "opened", "open", "job running", "event 1", "ended"]);
  equal(sources[0].readyState, FakeSource.CLOSED);
  sources[0].fail(FakeSource.CLOSED);
  equal([sources.length, heard.log.at(-1)], [1, "ended"]);
  stream.resume();
  equal(sources.at(-1).address, "/v1/jobs/a%20b/events?after=1", "woken up, it goes on after the last event");
  end();
});

test("what the browser mends by itself is left to it", () => {
  const { heard, sources, end } = scene();
  sources[0].open();
  sources[0].fail(FakeSource.CONNECTING);
  equal([sources.length, heard.log.at(-1)], [1, "lost"]);
  sources[0].open();
  equal(heard.log.slice(-2), ["opened", "open"], "fleeting events come again");
  end();
});

test("what the browser gives up is asked for again, from where it was", async () => {
  const { heard, sources, end } = scene();
  sources[0].open();
  sources[0].send("agent", { seq: 7 });
  sources[0].fail(FakeSource.CLOSED);
  equal(heard.log.slice(-2), ["lost", "refused"]);
  const second = await nextSource(sources, 2);
  equal(second.address, "/v1/jobs/a%20b/events?after=7");
  second.fail(FakeSource.CLOSED);
  const third = await nextSource(sources, 3);
  third.open();
  equal(heard.log.at(-1), "open");
  end();
});

test("who has stopped is not connected again", async () => {
  const { sources, stream, end } = scene();
  sources[0].fail(FakeSource.CLOSED);
  stream.stop();
  window.dispatchEvent(new Event("online"));
  await new Promise((resolve) => setTimeout(resolve, 2000));
  holds(sources.length === 1 || sources.at(-1).readyState === FakeSource.CLOSED, "a stream is open");
  stream.resume();
  equal(sources.length, 1);
  end();
});
