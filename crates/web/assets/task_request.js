// Converts a filled-in form to a request, or reports which field is invalid. Pure. The server
// validates again; this catches only what can be checked here.

import { bytes, parseBytes } from "./text/format.js";

/**
 * @param {object} form texts by field, plus `network` (a list), `interactive`, `source`
 * @param {object} me what the server says of itself: ceilings and defaults
 * @returns {{request: object, problems: Map<string, string>}}
 */
export function makeRequest(form, me) {
  const problems = new Map();
  const request = { task: form.task };
  if (form.task.trim() === "") problems.set("task", "Say what is to be done.");
  if (form.model) request.model = form.model;
  if (form.backend) request.backend = form.backend;
  if (form.require) request.require = form.require;
  const limits = readLimits(form, me?.limits ?? {}, problems);
  if (Object.keys(limits).length > 0) request.limits = limits;
  if (form.network.length > 0) request.network = form.network;
  const budget = readBudget(form, me?.limits ?? {}, problems);
  if (Object.keys(budget).length > 0) request.budget = budget;
  if (form.timeout) {
    const seconds = parseDuration(form.timeout);
    if (!(seconds >= 1)) problems.set("timeout", "A time such as 90, 15m or 2h.");
    else if (me?.timeout && seconds > me.timeout)
      problems.set("timeout", `At most ${me.timeout} seconds on this server.`);
    else request.timeout = Math.round(seconds);
  }
  if (form.source === "git") readGit(form, request, problems);
  if (form.source === "zip" && !form.upload)
    problems.set("upload", "Choose a zip, or start with an empty workspace.");
  if (form.webhook) {
    if (!/^https?:\/\/[^\s]+$/i.test(form.webhook))
      problems.set("webhook", "An address that begins with http:// or https://.");
    else request.webhook = { url: form.webhook, ...(form.secret ? { secret: form.secret } : {}) };
  } else if (form.secret) problems.set("webhook", "A secret needs an address to sign for.");
  if (form.interactive) request.interactive = true;
  return { request, problems };
}

function readLimits(form, ceilings, problems) {
  const limits = {};
  for (const name of ["memory", "disk"]) {
    if (!form[name]) continue;
    const size = parseBytes(form[name]);
    if (!(size > 0)) problems.set(name, "A size such as 512m or 2 GiB.");
    else if (ceilings[name] && size > ceilings[name])
      problems.set(name, `At most ${bytes(ceilings[name])} on this server.`);
    else limits[name] = size;
  }
  number(form, "cpus", limits, problems, { ceiling: ceilings.cpus, words: "A number such as 0.5 or 2." });
  number(form, "pids", limits, problems, { ceiling: ceilings.pids, isWhole: true, words: "A whole number." });
  return limits;
}

function readBudget(form, ceilings, problems) {
  const budget = {};
  number(form, "cost", budget, problems, { ceiling: ceilings.cost, words: "Dollars, such as 0.50." });
  number(form, "tokens", budget, problems, {
    ceiling: ceilings.tokens,
    isWhole: true,
    words: "A whole number.",
  });
  number(form, "turns", budget, problems, {
    ceiling: ceilings.turns,
    isWhole: true,
    words: "A whole number.",
  });
  return budget;
}

function number(form, name, into, problems, { ceiling, isWhole = false, words }) {
  if (!form[name]) return;
  const value = Number(form[name].replace(/^\$/, "").replaceAll("_", ""));
  if (!(value > 0) || !Number.isFinite(value) || (isWhole && !Number.isInteger(value)))
    problems.set(name, words);
  else if (ceiling && value > ceiling) problems.set(name, `At most ${ceiling} on this server.`);
  else into[name] = value;
}

function readGit(form, request, problems) {
  if (!/^https:\/\/[^\s@]+$/i.test(form.git)) {
    problems.set("git", "An address that begins with https://, without a user name.");
    return;
  }
  if (form.branch.startsWith("-")) problems.set("branch", "A branch does not begin with a dash.");
  request.input = { git: { url: form.git, ...(form.branch ? { branch: form.branch } : {}) } };
}

const FIELDS = { "webhook.url": "webhook", "webhook.secret": "secret", input: "git" };

/**
 * The field that the server's refusal names, as in `limits.memory: at most 2 is possible`.
 * @returns {{field: string, text: string} | null}
 */
export function refusedField(detail) {
  const match = /^([a-z_]+(?:\.[a-z_]+)?): (.+)$/s.exec(detail);
  if (!match) return null;
  return { field: FIELDS[match[1]] ?? match[1].split(".").at(-1), text: match[2] };
}

/** Seconds of `90`, `90s`, `15m` or `2h`. */
export function parseDuration(text) {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*$/i.exec(text);
  if (!match) return NaN;
  return Number(match[1]) * { "": 1, s: 1, m: 60, h: 3600 }[match[2].toLowerCase()];
}

/** What is wrong with a host name; null if it is valid. */
export function checkHost(host) {
  return /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/i.test(host)
    ? null
    : `${host} is not a host: write names such as pypi.org or *.example.com:443.`;
}
