// The page of a job: its state, its activity, and its actions. Applies the events of the stream to
// the state, and draws at most once per frame.

import { address, api } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { bind } from "../keyboard.js";
import { follow } from "../live.js";
import { applyEvent, newState, reopen } from "../state.js";
import { makeComposer } from "../components/composer.js";
import { confirm, loading, problemNotice, toastProblem } from "../components/feedback.js";
import { makeJobHeader } from "../components/job_header.js";
import { hasNeverWaited, ranSeconds } from "../components/job_table.js";
import { icon } from "../components/icons.js";
import { makeQueue } from "../components/queue.js";
import { makeSide, newestSpending } from "../components/side.js";
import { isActive, pill, stateWords, updatePill } from "../components/status.js";
import { makeTabs } from "../components/tabs.js";
import { makeTranscript } from "../components/transcript.js";
import { money } from "../text/format.js";
import { oneLine } from "../text/visible.js";
import { makeDetails } from "./job_details.js";
import { makeDiff } from "./job_diff.js";
import { makeFiles } from "./job_files.js";
import { makeLogs } from "./job_logs.js";

export function job({ parameters: [id], query, go, me }) {
  const element = h("div.page.job-page", null, loading("Opening the job…"));
  let stopInner = () => {};
  let isStopped = false;
  api.job(id).then(
    (record) => {
      if (!isStopped) stopInner = open(element, record, { query, go, me }).stop;
    },
    (problem) => {
      const title = problem.status === 404 ? "No such job" : "The job cannot be shown";
      fill(
        element,
        h("h1", null, title),
        problemNotice(problem),
        h("p", null, h("a", { href: "/" }, "All jobs")),
      );
    },
  );
  return {
    title: "Job",
    element,
    stop() {
      isStopped = true;
      stopInner();
    },
  };
}

function open(element, first, { query, go, me }) {
  const { id } = first;
  const state = newState();
  const view = { job: first, receivedAt: performance.now(), seconds: 0 };
  let frame = null;
  let isFirstState = true;
  const transcript = makeTranscript({ startAtEnd: isActive(first) });
  const side = makeSide();
  const queue = makeQueue();
  const announcement = h("p.visually-hidden", { role: "status", "aria-live": "polite" });
  const connection = h("p.connection", { role: "status", hidden: true });
  const header = makeJobHeader({ act, showOwner: me.role === "admin" && me.needs_key });
  const interrupt = h(
    "button.button.quiet.square",
    {
      type: "button",
      "aria-label": "Interrupt",
      title: "Interrupt (Esc)",
      hidden: true,
      on: { click: () => act("interrupt") },
    },
    icon("pause"),
  );
  const composer = makeComposer({
    label: "Message to the agent",
    placeholder: "",
    send: sendMessage,
    extra: interrupt,
  });
  const talk = h(
    "div.talk",
    null,
    transcript.element,
    h("div.dock", null, transcript.jump, queue.element, connection, composer.element),
  );
  const files = makeFiles(id, () => view.job);
  const diff = makeDiff(id, () => view.job);
  const logs = makeLogs(id, () => view.job);
  const details = makeDetails();
  const tabs = makeTabs(
    [
      { name: "transcript", label: "Transcript", panel: talk, shown: scheduleDraw },
      { name: "files", label: "Files", panel: files.element, shown: files.shown },
      { name: "diff", label: "Diff", panel: diff.element, shown: diff.shown },
      { name: "logs", label: "Logs", panel: logs.element, shown: logs.shown, hidden: logs.hidden },
      { name: "details", label: "Details", panel: details.element, shown: scheduleDraw },
    ],
    query.get("tab") ?? "transcript",
    (name) => {
      window.history.replaceState(
        null,
        "",
        name === "transcript" ? address.job(id) : `${address.job(id)}?tab=${name}`,
      );
      scheduleDraw();
    },
  );
  const mini = h("div.tabs-end", { "aria-hidden": "true" }, pill(first), h("span"));
  fill(
    element,
    header.element,
    h(
      "div.job-grid",
      null,
      h(
        "div.job-main",
        null,
        h("div.tab-bar", null, tabs.element, mini),
        talk,
        files.element,
        diff.element,
        logs.element,
        details.element,
      ),
      side.element,
    ),
    announcement,
  );

  function scheduleDraw() {
    frame ??= requestAnimationFrame(draw);
  }

  function draw() {
    frame = null;
    const { job: record } = view;
    header.update(record, state);
    side.update({ job: record, state, seconds: seconds() });
    queue.update(record, state);
    transcript.update(state);
    if (tabs.current() === "details") details.update(record, state);
    composer.setPlaceholder(placeholder(record));
    interrupt.hidden = record.state !== "running";
    updatePill(mini.firstElementChild, record);
    setText(mini.lastElementChild, money(newestSpending(state, record)?.cost));
    document.title = `${record.state === "running" ? "● " : ""}${oneLine(record.task, 60)} · Hotcell`;
    element.dataset.state = record.state;
    element.dataset.tab = tabs.current();
    element.classList.toggle("is-chat", record.interactive === true);
  }

  function seconds() {
    const { job: record } = view;
    const isTicking = record.state === "running" && !hasNeverWaited(record);
    const since = isTicking ? (performance.now() - view.receivedAt) / 1000 : 0;
    view.seconds = Math.max(view.seconds, ranSeconds(record) + since, state.spending?.seconds ?? 0);
    return view.seconds;
  }

  function onJob(record) {
    const before = view.job;
    if (record.state !== before.state || isFirstState)
      setText(announcement, `The job is ${stateWords(record).toLowerCase()}`);
    isFirstState = false;
    view.job = record;
    view.receivedAt = performance.now();
    if (isActive(before) && !isActive(record)) diff.stale();
    scheduleDraw();
  }

  const stream = follow(id, {
    lastSeq: () => state.lastSeq,
    opened() {
      reopen(state);
      scheduleDraw();
    },
    event(event) {
      if (applyEvent(state, event)) scheduleDraw();
    },
    job: onJob,
    connection(now) {
      connection.hidden = now !== "lost";
      if (now === "lost")
        fill(connection, h("span.spinner", { "aria-hidden": "true" }), "Connection lost. Reconnecting…");
      element.dataset.connection = now;
    },
    refused() {
      api.job(id).then(onJob, (problem) => {
        if (problem.status === 404)
          fill(
            element,
            h("h1", null, "No such job"),
            h("p", null, "It was deleted. ", h("a", { href: "/" }, "All jobs")),
          );
      });
    },
  });

  // The stream reports the effect, in order; the response of the request may be older than the
  // stream.
  async function sendMessage(text) {
    await api.sendMessage(id, text);
    queue.add(text, state);
    stream.resume();
    transcript.follow();
    scheduleDraw();
  }

  async function act(action) {
    const question = QUESTIONS[action];
    if (question && !(await confirm(question))) return;
    try {
      if (action === "retry") go(address.job((await api.retry(id)).id));
      else if (action === "remove") {
        await api.remove(id);
        go("/");
      } else {
        await api[action](id);
      }
    } catch (problem) {
      toastProblem(problem);
    }
  }

  const watcher = new IntersectionObserver(
    ([entry]) => element.classList.toggle("is-scrolled", !entry.isIntersecting),
    { rootMargin: "-48px 0px 0px" },
  );
  watcher.observe(header.element);
  const ticker = setInterval(scheduleDraw, 1000);
  const unbind = [
    bind("Escape", "Interrupt", () => view.job.state === "running" && act("interrupt"), "Job"),
    bind("m", "Write a message", () => (tabs.choose("transcript"), composer.focus()), "Job"),
    bind("e", "Jump to latest", () => (tabs.choose("transcript"), transcript.follow()), "Job"),
    ...["transcript", "files", "diff", "logs", "details"].map((name, index) =>
      bind(String(index + 1), `Show ${name}`, () => tabs.choose(name), "Job"),
    ),
  ];
  scheduleDraw();

  return {
    stop() {
      stream.stop();
      transcript.stop();
      logs.hidden();
      watcher.disconnect();
      clearInterval(ticker);
      if (frame !== null) cancelAnimationFrame(frame);
      unbind.forEach((undo) => undo());
    },
  };
}

const QUESTIONS = {
  interrupt: {
    title: "Interrupt the agent?",
    text: "It stops what it is doing and waits for your next message.",
    action: "Interrupt",
    isDangerous: false,
  },
  cancel: {
    title: "Cancel this job?",
    text: "The agent is stopped. What it has made so far is packed and can be downloaded.",
    action: "Cancel the job",
  },
  remove: {
    title: "Delete this job?",
    text: "Its files, transcript and logs are removed. This cannot be undone.",
    action: "Delete",
  },
};

function placeholder(record) {
  if (record.state === "waiting") return "Write a message";
  return isActive(record) ? "Add a message" : "Continue this job";
}
