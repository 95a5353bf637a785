// The form for a new task: the task first, everything else under "Options".

import { address, api, newRequestKey } from "../api.js";
import { fill, h } from "../dom.js";
import { problemNotice, toast } from "../components/feedback.js";
import { makeChipsField, makeDropField, makeField } from "../components/fields.js";
import { icon } from "../components/icons.js";
import { makeSource } from "../components/source_field.js";
import { checkHost, makeRequest, refusedField } from "../task_request.js";
import { bytes, clock, count, money } from "../text/format.js";

const BACKENDS = ["native", "podman", "docker", "gvisor", "microvm", "firecracker", "microsandbox"];
/** Weakest first. */
const STRENGTHS = {
  namespaces: "namespaces: the server's kernel",
  kernel: "kernel: one of its own in user space",
  vm: "vm: a machine of its own",
};

export function newTask({ query, me, go }) {
  const limits = me.limits ?? {};
  const most = (value, format = String) => (value ? `at most ${format(value)}` : "");
  const task = makeField({
    name: "task",
    label: "Task",
    input: h("textarea.task-box", {
      rows: 7,
      required: true,
      value: query.get("task") ?? "",
      placeholder: "Build me a todo app with tests. Keep it in one folder and explain how to run it.",
      spellcheck: "true",
    }),
  });
  const model = makeField({
    name: "model",
    label: "Model",
    placeholder: me.default_model ?? "the server's choice",
    help: "claude-… or openai/NAME",
  });
  const backend = makeField({
    name: "backend",
    label: "Backend",
    input: h(
      "select",
      null,
      h("option", { value: "" }, me.backend ? `server's choice (${me.backend})` : "server's choice"),
      h("option", { value: "auto" }, "auto: the strongest that works"),
      BACKENDS.map((name) => h("option", { value: name }, name)),
    ),
  });
  const require = makeField({
    name: "require",
    label: "Strength",
    help: "Nothing weaker is started.",
    input: h(
      "select",
      null,
      h("option", { value: "" }, STRENGTHS[me.require] ? `at least ${me.require}` : "any walls"),
      Object.entries(STRENGTHS)
        .slice(Object.keys(STRENGTHS).indexOf(me.require) + 1)
        .map(([value, words]) => h("option", { value }, words)),
    ),
  });
  const fields = {
    task,
    model,
    backend,
    require,
    memory: makeField({
      name: "memory",
      label: "Memory",
      placeholder: limits.memory ? bytes(limits.memory) : "2 GiB",
      help: most(limits.memory, bytes),
    }),
    cpus: makeField({
      name: "cpus",
      label: "Processors",
      placeholder: String(limits.cpus ?? 2),
      help: most(limits.cpus),
      inputmode: "decimal",
    }),
    pids: makeField({
      name: "pids",
      label: "Processes",
      placeholder: String(limits.pids ?? 512),
      help: most(limits.pids),
      inputmode: "numeric",
    }),
    disk: makeField({
      name: "disk",
      label: "Disk",
      placeholder: limits.disk ? bytes(limits.disk) : "4 GiB",
      help: most(limits.disk, bytes),
    }),
    network: makeChipsField({
      name: "network",
      label: "Reachable hosts",
      placeholder: "pypi.org",
      help: "The network is off except for these. Enter adds one.",
      check: checkHost,
    }),
    cost: makeField({
      name: "cost",
      label: "Cost",
      placeholder: limits.cost ? money(limits.cost) : "no limit",
      help: "US dollars",
      inputmode: "decimal",
    }),
    tokens: makeField({
      name: "tokens",
      label: "Tokens",
      placeholder: limits.tokens ? count(limits.tokens) : "no limit",
      help: "in and out",
      inputmode: "numeric",
    }),
    turns: makeField({
      name: "turns",
      label: "Requests",
      placeholder: limits.turns ? String(limits.turns) : "no limit",
      help: "to the model",
      inputmode: "numeric",
    }),
    timeout: makeField({
      name: "timeout",
      label: "Time",
      placeholder: me.timeout ? clock(me.timeout) : "no limit",
      help: me.timeout ? `at most ${clock(me.timeout)}` : "90, 15m or 2h",
    }),
    git: makeField({
      name: "git",
      label: "Repository",
      placeholder: "https://github.com/owner/name",
      type: "url",
    }),
    branch: makeField({ name: "branch", label: "Branch or tag", placeholder: "default" }),
    upload: makeDropField({
      name: "upload",
      label: "Zip",
      accept: ".zip,application/zip",
      help: most(me.max_upload, bytes),
      check: (file) => checkZip(file, me.max_upload),
    }),
    webhook: makeField({
      name: "webhook",
      label: "Webhook",
      placeholder: "https://example.com/hook",
      help: "Called when the job has ended.",
      type: "url",
    }),
    secret: makeField({ name: "secret", label: "Secret", help: "Signs what is sent.", type: "password" }),
  };
  const interactive = h("input", { type: "checkbox", id: "interactive" });
  const source = makeSource(fields);
  const problem = h("div");
  const button = h(
    "button.button.primary.large",
    { type: "submit" },
    icon("send"),
    h("span", null, "Schedule"),
  );
  const options = h(
    "details.options",
    { open: query.has("options") },
    h("summary", null, icon("right"), "Options"),
    group(
      "Agent",
      h("div.field-row", null, model.element, backend.element, require.element),
      h(
        "div.check",
        null,
        interactive,
        h("label", { for: "interactive" }, "Stay ready for further messages after each turn"),
      ),
    ),
    group("Workspace at the start", source.element),
    group(
      "Limits of the sandbox",
      h(
        "div.field-row.four",
        null,
        [fields.memory, fields.cpus, fields.pids, fields.disk].map(({ element }) => element),
      ),
      fields.network.element,
    ),
    group(
      "Budget",
      h(
        "div.field-row.four",
        null,
        [fields.cost, fields.tokens, fields.turns, fields.timeout].map(({ element }) => element),
      ),
    ),
    group("When it ends", h("div.field-row", null, fields.webhook.element, fields.secret.element)),
  );
  const form = h(
    "form.task-form",
    { novalidate: true },
    problem,
    task.element,
    options,
    h(
      "div.form-end",
      null,
      button,
      h("span.quiet", null, h("kbd", null, "Ctrl"), " ", h("kbd", null, "Enter")),
    ),
  );
  let key = newRequestKey();

  async function submit() {
    if (!fields.network.commit()) return reveal(fields.network);
    const texts = Object.fromEntries(
      Object.values(fields)
        .filter((field) => field.value)
        .map((field) => [field.name, field.value()]),
    );
    const upload = source.value() === "zip" ? fields.upload.file() : null;
    const { request, problems } = makeRequest(
      {
        ...texts,
        task: task.control.value,
        network: fields.network.values(),
        source: source.value(),
        upload,
        interactive: interactive.checked,
      },
      me,
    );
    for (const field of Object.values(fields)) field.setProblem(problems.get(field.name) ?? "");
    fill(problem);
    const first = Object.values(fields).find((field) => problems.has(field.name));
    if (first) return reveal(first);
    button.disabled = true;
    try {
      const job = await api.schedule(request, { upload, key });
      toast("Scheduled", "good");
      return go(address.job(job.id));
    } catch (error) {
      showProblem(error);
      key = newRequestKey();
    } finally {
      button.disabled = false;
    }
    return undefined;
  }

  /** Shows the problem at the field that the server names, or else at the top. */
  function showProblem(error) {
    const refused = refusedField(error.message);
    const named = Object.values(fields).find((field) => field.name === refused?.field);
    if (named) {
      named.setProblem(error.hint ? `${refused.text}. ${error.hint}` : refused.text);
      reveal(named);
    } else {
      fill(problem, problemNotice(error));
      problem.scrollIntoView({ block: "nearest" });
    }
  }

  function reveal(field) {
    if (options.contains(field.element)) options.open = true;
    field.control.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit();
    }
  });

  return {
    title: "New task",
    element: h("div.page.medium", null, h("h1", null, "New task"), form),
    focus: () => task.control.focus(),
  };
}

function group(title, ...content) {
  return h("fieldset", null, h("legend", null, title), content);
}

function checkZip(file, most) {
  if (!/\.zip$/i.test(file.name)) return "Only zip files can be unpacked.";
  return most && file.size > most
    ? `The zip has ${bytes(file.size)}; the limit is ${bytes(most)}.`
    : null;
}
