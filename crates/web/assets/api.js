// The server's API as functions. The only module that makes requests, except for live events. Does
// not use the DOM; a listener sends users who are not signed in to the login page.

/** A problem document of the server, or a substitute for one. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `the server answered ${status}`);
    this.name = "Problem";
    this.status = status;
    // A server without keys refuses other users of its machine until they log in.
    this.needsLogin = status === 401 || document.type === "/docs#problem-other-user";
    this.hint = document.hint ?? null;
    this.retryAfter = document.retryAfter ?? null;
  }
}

let onSignedOut = () => {};

/** Calls `listener` whenever the server requires a key. */
export function whenSignedOut(listener) {
  onSignedOut = listener;
}

async function send(method, path, { body, headers = {}, signal, isQuiet = false } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: { Accept: "application/json", ...headers },
      body,
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      detail: "The server cannot be reached",
      hint: "Check that it is running; this page tries again by itself.",
    });
  }
  if (answer.ok) return answer;
  const problem = await readProblem(answer);
  if (problem.needsLogin && !isQuiet) onSignedOut();
  throw problem;
}

async function readProblem(answer) {
  let document = {};
  try {
    if ((answer.headers.get("content-type") ?? "").includes("json")) document = await answer.json();
  } catch {
    // The status alone is used.
  }
  const retryAfter = Number(answer.headers.get("retry-after")) || null;
  return new Problem(answer.status, { title: answer.statusText, ...document, retryAfter });
}

async function json(method, path, value, options = {}) {
  const headers =
    value === undefined ? options.headers : { "Content-Type": "application/json", ...options.headers };
  const body = value === undefined ? undefined : JSON.stringify(value);
  const answer = await send(method, path, { ...options, headers, body });
  return answer.status === 204 ? null : answer.json();
}

function query(values) {
  const filled = Object.entries(values).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return filled.length === 0 ? "" : `?${new URLSearchParams(filled)}`;
}

const job = (id, rest = "") => `/v1/jobs/${encodeURIComponent(id)}${rest}`;

export const api = {
  me: () => json("GET", "/v1/me", undefined, { isQuiet: true }),
  login: (key) => json("POST", "/v1/login", { key }, { isQuiet: true }),
  logout: () => json("POST", "/v1/logout"),

  jobs: ({ status, q, cursor, limit } = {}, signal) =>
    json("GET", `/v1/jobs${query({ status, q, cursor, limit })}`, undefined, { signal }),
  job: (id, signal) => json("GET", job(id), undefined, { signal }),
  /** Schedules a job, with an upload if there is one. The key makes a second click harmless. */
  schedule(request, { upload = null, key } = {}) {
    const headers = key ? { "Idempotency-Key": key } : {};
    if (!upload) return json("POST", "/v1/jobs", request, { headers });
    const form = new FormData();
    form.append("request", new Blob([JSON.stringify(request)], { type: "application/json" }));
    form.append("input", upload, upload.name);
    return send("POST", "/v1/jobs", { body: form, headers }).then((answer) => answer.json());
  },
  cancel: (id) => json("POST", job(id, "/cancel")),
  retry: (id) => json("POST", job(id, "/retry")),
  remove: (id) => json("DELETE", job(id)),
  sendMessage: (id, text) => json("POST", job(id, "/messages"), { text }),
  interrupt: (id) => json("POST", job(id, "/interrupt")),
  redeliver: (id) => json("POST", job(id, "/webhook/redeliver")),

  files: (id, path) => json("GET", job(id, `/files${query({ path })}`)),
  content: (id, path) => json("GET", job(id, `/files/content${query({ path })}`)),
  diff: (id) => json("GET", job(id, "/diff")),
  logs: (id, name, tail, signal) =>
    send("GET", job(id, `/logs${query({ name, tail })}`), { headers: { Accept: "text/plain" }, signal }).then(
      (answer) => answer.text(),
    ),
  search: (q, limit, signal) => json("GET", `/v1/search${query({ q, limit })}`, undefined, { signal }),

  keys: () => json("GET", "/v1/keys"),
  makeKey: (wanted) => json("POST", "/v1/keys", wanted),
  revokeKey: (id) => json("DELETE", `/v1/keys/${encodeURIComponent(id)}`),

  /** Reasons other than load why jobs wait, one line each. */
  degraded: async (signal) => {
    const answer = await send("GET", "/readyz", { headers: { Accept: "text/plain" }, signal, isQuiet: true });
    const lines = (await answer.text()).split("\n");
    return lines.filter((line) => line.startsWith("degraded: ")).map((line) => line.slice("degraded: ".length));
  },

  openapi: () => json("GET", "/openapi.json"),
};

/** Addresses for links and streams. */
export const address = {
  job: (id) => `/jobs/${encodeURIComponent(id)}`,
  events: (id, after) => job(id, `/events${query({ after: after || null })}`),
  raw: (id, path) => job(id, `/files/raw${query({ path })}`),
  artifacts: (id) => job(id, "/artifacts"),
  log: (id, name) => job(id, `/logs${query({ name })}`),
};

/** A key that ensures that a request is scheduled at most once. */
export function newRequestKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
