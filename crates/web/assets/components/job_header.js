// The header of a job's page: state, task, facts, and the buttons that its state allows. Shows why
// a job failed, and where its result is.

import { address } from "../api.js";
import { fill, h, set, setText } from "../dom.js";
import { age, bytes, fullTime, plural } from "../text/format.js";
import { oneLine, visible, visibleName } from "../text/visible.js";
import { showLine } from "./code_view.js";
import { icon } from "./icons.js";
import { isActive, pill, updatePill } from "./status.js";

const BUTTONS = [
  { name: "interrupt", label: "Interrupt", icon: "pause", when: (job) => job.state === "running" },
  { name: "cancel", label: "Cancel", icon: "stop", when: isActive },
  { name: "retry", label: "Retry", icon: "retry", when: (job) => !isActive(job) },
  { name: "remove", label: "Delete", icon: "trash", when: (job) => !isActive(job) },
];

export function makeJobHeader({ act, showOwner }) {
  const status = pill({ state: "queued" });
  const title = h("h1.job-title");
  const facts = h("p.job-facts");
  const banner = h("div.job-banner", { hidden: true });
  const buttons = new Map(
    BUTTONS.map(({ name, label, icon: shape }) => [
      name,
      h(
        "button.button.small",
        { type: "button", title: label, on: { click: () => act(name) } },
        icon(shape),
        h("span", null, label),
      ),
    ]),
  );
  const download = h(
    "a.button.small",
    { download: "", title: "Download what is there so far" },
    icon("download"),
    h("span", null, "Zip"),
  );
  const actions = h(
    "div.job-actions",
    { role: "group", "aria-label": "Actions" },
    [...buttons.values()].slice(0, 2),
    download,
    [...buttons.values()].slice(2),
  );
  const element = h(
    "header.job-header",
    null,
    h(
      "div.job-top",
      null,
      h("a.back", { href: "/", "aria-label": "All jobs", title: "All jobs" }, icon("back")),
      status,
      h("div.spacer"),
      actions,
    ),
    title,
    facts,
    banner,
  );
  let shownFacts = "";
  let shownBanner = "";

  return {
    element,
    update(job, state) {
      updatePill(status, job);
      showLine(title, oneLine(job.task, 160));
      for (const { name, when } of BUTTONS) buttons.get(name).hidden = !when(job);
      download.hidden = !["running", "waiting"].includes(job.state);
      set(download, "href", address.artifacts(job.id));
      const text = factsOf(job, state, showOwner).join(" · ");
      if (text !== shownFacts) {
        shownFacts = text;
        facts.textContent = text;
        facts.title = `Created ${fullTime(job.created)}`;
      }
      const key = JSON.stringify([job.state, job.failure, job.artifact]);
      if (key !== shownBanner) {
        shownBanner = key;
        const content = bannerOf(job);
        banner.hidden = !content;
        fill(banner, content);
      }
    },
  };
}

function factsOf(job, state, showOwner) {
  const model = state.model ?? job.model;
  const backend = state.sandbox?.backend ?? job.backend;
  const network = state.sandbox?.network ?? job.network ?? [];
  return [
    job.interactive && "chat",
    model && visibleName(model),
    backend && visibleName(backend),
    state.sandbox && (network.length === 0 ? "network off" : plural(network.length, "host")),
    showOwner && visibleName(job.owner),
    (job.attempts ?? 0) > 1 && `${job.attempts} attempts`,
    age(job.created),
  ].filter(Boolean);
}

function bannerOf(job) {
  if (job.state === "failed" && job.failure) {
    const isStopped = ["cancelled", "interrupted"].includes(job.failure.cause);
    return h(
      "div.notice",
      { class: isStopped ? "plain" : "bad" },
      icon(isStopped ? "stop" : "warn"),
      h("p", null, visible(job.failure.message)),
      artifactLink(job),
    );
  }
  if (job.state === "complete" && job.artifact) {
    return h(
      "div.notice.good",
      null,
      icon("check"),
      h(
        "p",
        null,
        `${plural(job.artifact.files, "file")} in the result, ${bytes(job.artifact.bytes)} packed`,
        (job.artifact.left_out?.length ?? 0) > 0 && `; ${job.artifact.left_out.length} left out, see Details`,
        ".",
      ),
      artifactLink(job),
    );
  }
  return null;
}

function artifactLink(job) {
  if (!job.artifact) return null;
  return h("a.button.small", { href: address.artifacts(job.id), download: "" }, icon("download"), "Download");
}
