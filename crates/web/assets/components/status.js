// A job's state as text and colour. Never as colour alone.

import { h, setText } from "../dom.js";

const LOOKS = {
  queued: ["Queued", "queued"],
  running: ["Running", "running"],
  waiting: ["Waiting", "waiting"],
  complete: ["Complete", "complete"],
  failed: ["Failed", "failed"],
};

const CAUSES = {
  agent: "Failed",
  provider: "Provider failed",
  budget: "Budget used up",
  deadline: "Out of time",
  stuck: "Stuck",
  cancelled: "Cancelled",
  interrupted: "Interrupted",
  input: "Input failed",
  sandbox: "No sandbox",
  crashes: "Crashed",
  artifact: "Not packed",
  server: "Server failed",
};

/** The state as text, with the cause of a failure. */
export function stateWords(job) {
  if (job.state === "failed" && job.failure) return CAUSES[job.failure.cause] ?? "Failed";
  return (LOOKS[job.state] ?? [job.state])[0];
}

export function look(job) {
  if (job.state === "failed" && ["cancelled", "interrupted"].includes(job.failure?.cause)) return "stopped";
  return (LOOKS[job.state] ?? ["", "queued"])[1];
}

export function pill(job) {
  const element = h("span.pill", null, h("span.dot", { "aria-hidden": "true" }), h("span.pill-words"));
  updatePill(element, job);
  return element;
}

export function updatePill(element, job) {
  const wanted = look(job);
  if (element.dataset.look !== wanted) element.dataset.look = wanted;
  setText(element.lastElementChild, stateWords(job));
}

export function isActive(job) {
  return ["queued", "running", "waiting"].includes(job.state);
}
