// All facts about a job: the request, its environment, and its result.

import { address, api } from "../api.js";
import { fill, h } from "../dom.js";
import { copyButton, toastProblem } from "../components/feedback.js";
import { markdown } from "../components/markdown_view.js";
import { sandboxFacts } from "../components/side.js";
import { stateWords } from "../components/status.js";
import { bytes, clock, count, fullTime, money, plural } from "../text/format.js";
import { visible, visibleName } from "../text/visible.js";

export function makeDetails() {
  const element = h("div.details-panel");
  const webhook = makeWebhook();
  let shown = "";
  return {
    element,
    update(job, state) {
      webhook.update(job);
      const key = JSON.stringify([job, state.sandbox, state.checkpoints.length]);
      if (key === shown) return;
      shown = key;
      fill(
        element,
        section("Task", h("pre.task-text", { tabindex: 0 }, visible(job.task))),
        job.answer && section("Answer", markdown(job.answer)),
        section("Job", facts(jobFacts(job))),
        section("Asked for", facts(requestFacts(job))),
        job.has_webhook && section("Webhook", webhook.element),
        state.sandbox && section("Sandbox", sandboxFacts(state.sandbox)),
        state.checkpoints.length > 0 && section("Checkpoints", checkpoints(state.checkpoints)),
        job.artifact && section("Artifact", facts(artifactFacts(job)), leftOut(job.artifact.left_out ?? [])),
        section("From a terminal", commands(job)),
      );
    },
  };
}

/** The delivery of the job's webhook. It is not part of the stream, so it is requested. */
function makeWebhook() {
  const element = h("div.webhook", null);
  let askedFor = "";
  let timer = null;

  function show(id, delivery) {
    clearTimeout(timer);
    if (!delivery) {
      fill(element, h("p.quiet", null, "It is called when the job has ended."));
      return;
    }
    const again = h("button.button", { type: "button", on: { click: () => sendAgain(id) } }, "Send again");
    fill(
      element,
      facts([
        ["State", delivery.state],
        ["Tries", String(delivery.tries)],
        ["Last try", delivery.last_try && fullTime(delivery.last_try)],
        ["Last error", delivery.last_error && visible(delivery.last_error)],
        ["Next try", delivery.next_try && fullTime(delivery.next_try)],
      ]),
      again,
    );
    // A pending delivery changes soon, so it is polled.
    if (delivery.state === "pending" && element.isConnected)
      timer = setTimeout(() => element.isConnected && ask(id), 2000);
  }

  function ask(id) {
    api.job(id).then((job) => show(id, job.webhook), toastProblem);
  }

  function sendAgain(id) {
    api.redeliver(id).then((delivery) => show(id, delivery), toastProblem);
  }

  return {
    element,
    update(job) {
      const key = `${job.id} ${job.state} ${job.ended}`;
      if (!job.has_webhook || key === askedFor) return;
      askedFor = key;
      ask(job.id);
    },
  };
}

function section(title, ...content) {
  return h("section.panel", null, h("h2", null, title), content);
}

function facts(pairs) {
  return h(
    "dl.facts",
    null,
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

function jobFacts(job) {
  return [
    ["Id", h("span.copyable", null, h("code", null, job.id), copyButton(job.id, "Copy the id"))],
    ["State", stateWords(job) + (job.failure ? `: ${visible(job.failure.message)}` : "")],
    ["Owner", visibleName(job.owner)],
    ["Session", job.session && h("code", null, job.session)],
    ["Created", fullTime(job.created)],
    ["Started", job.started && fullTime(job.started)],
    ["Ended", job.ended && fullTime(job.ended)],
    ["Ran for", clock(job.ran_seconds ?? 0)],
    ["Messages", String(job.messages ?? 1)],
    ["Attempts", String(job.attempts ?? 0)],
    ["Parked", job.parked ? `${visibleName(job.parked.reason)} (failed ${job.parked.failures}×)` : null],
    ["Crashes survived", job.crashes ? String(job.crashes) : null],
  ];
}

function requestFacts(job) {
  const limits = job.limits ?? {};
  const budget = job.budget ?? {};
  return [
    ["Model", job.model ? visibleName(job.model) : "server's choice"],
    ["Backend", job.backend ?? "server's choice"],
    ["Required strength", job.require],
    ["Memory", limits.memory && bytes(limits.memory)],
    ["Processors", limits.cpus && String(limits.cpus)],
    ["Processes", limits.pids && String(limits.pids)],
    ["Disk", limits.disk && bytes(limits.disk)],
    ["Network", (job.network ?? []).length > 0 ? job.network.map(visibleName).join(", ") : "off"],
    [
      "Budget",
      [
        budget.cost && money(budget.cost),
        budget.tokens && `${count(budget.tokens)} tokens`,
        budget.turns && plural(budget.turns, "request"),
      ]
        .filter(Boolean)
        .join(", "),
    ],
    ["Time", job.timeout && clock(job.timeout)],
    ["Input", inputWords(job.input)],
    ["Webhook", job.has_webhook ? "yes" : null],
    ["Interactive", job.interactive ? "yes" : null],
  ];
}

function inputWords(input) {
  if (input?.git)
    return visibleName(input.git.url) + (input.git.branch ? ` (${visibleName(input.git.branch)})` : "");
  if (input?.upload) return `uploaded zip, ${bytes(input.upload.bytes)}`;
  return null;
}

function checkpoints(list) {
  return h(
    "table.plain-table",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        ["Number", "Turn", "Moment", "Files", "Bytes"].map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      null,
      list.map((one) =>
        h(
          "tr",
          null,
          [one.number, one.turn, one.moment, one.files, bytes(one.bytes)].map((value) =>
            h("td", null, String(value)),
          ),
        ),
      ),
    ),
  );
}

function artifactFacts({ artifact }) {
  return [
    ["Files", String(artifact.files)],
    ["Size", bytes(artifact.bytes)],
    [
      "SHA-256",
      h(
        "span.copyable",
        null,
        h("code.break", null, artifact.sha256),
        copyButton(artifact.sha256, "Copy the hash"),
      ),
    ],
  ];
}

function leftOut(list) {
  if (list.length === 0) return null;
  return [
    h("h3", null, "Left out"),
    h(
      "ul.left-out",
      null,
      list.map(({ path, reason }) =>
        h("li", null, h("bdi", null, h("code", null, visibleName(path))), ` ${visible(reason)}`),
      ),
    ),
  ];
}

function commands(job) {
  const origin = window.location.origin;
  const lines = [
    `curl ${origin}/status/${job.id}`,
    `curl -N ${origin}/v1/jobs/${job.id}/events`,
    `curl -o output.zip ${origin}${job.result ?? address.artifacts(job.id)}`,
  ];
  return h(
    "ul.commands",
    null,
    lines.map((line) =>
      h("li", null, h("code", { tabindex: 0 }, line), copyButton(line, "Copy the command")),
    ),
  );
}
