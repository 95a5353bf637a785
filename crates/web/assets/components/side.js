// The panel beside a transcript: resource usage and limits, the plan, and the sandbox's isolation.

import { fill, h, keyed, setText } from "../dom.js";
import { clock, count, duration, inputTokens, limitWords, money, tokens } from "../text/format.js";
import { visible, visibleName } from "../text/visible.js";
import { showLine } from "./code_view.js";
import { icon } from "./icons.js";

const PLAN_WORDS = { pending: "to do", active: "in progress", done: "done" };

export function makeSide() {
  const stats = {
    cost: makeStat("Cost"),
    tokens: makeStat("Tokens"),
    requests: makeStat("Requests"),
    time: makeStat("Time"),
  };
  const planList = h("ol.plan-steps");
  const planNow = h("span.plan-now");
  const planCount = h("span.quiet");
  const plan = h(
    "details.panel.plan",
    { open: window.innerWidth >= 960, hidden: true },
    h("summary", null, icon("plan"), h("h2", null, "Plan"), planNow, planCount),
    planList,
  );
  const walls = h("div");
  const sandbox = h(
    "details.panel.sandbox",
    { open: window.innerWidth >= 960, hidden: true },
    h("summary", null, icon("shield"), h("h2", null, "Sandbox")),
    walls,
  );
  const element = h(
    "aside.side",
    { "aria-label": "About this job" },
    h(
      "dl.stats",
      null,
      Object.values(stats).map((stat) => stat.element),
    ),
    plan,
    sandbox,
  );
  let shownSandbox = null;
  let shownPlan = null;

  return {
    element,
    update({ job, state, seconds }) {
      const spending = newestSpending(state, job);
      stats.cost.show(money(spending?.cost), spending?.cost, spending?.max_cost ?? job.budget?.cost, money);
      const usage = spending?.usage ?? {};
      stats.tokens.show(
        count(tokens(usage)),
        tokens(usage),
        spending?.max_tokens ?? job.budget?.tokens,
        count,
      );
      stats.tokens.title(
        `${inputTokens(usage)} in, of which ${usage.cache_read_input_tokens ?? 0} from the cache; ${usage.output_tokens ?? 0} out`,
      );
      stats.requests.show(
        String(spending?.requests ?? 0),
        spending?.requests,
        spending?.max_requests ?? job.budget?.turns,
        String,
      );
      const spent = (job.ended ? duration : clock)(seconds);
      stats.time.show(spent, seconds, job.timeout ?? spending?.max_seconds, clock);
      if (state.plan !== shownPlan) {
        shownPlan = state.plan;
        showPlan({ panel: plan, list: planList, counts: planCount, now: planNow }, state.plan);
      }
      if (state.sandbox !== shownSandbox) {
        shownSandbox = state.sandbox;
        sandbox.hidden = !state.sandbox;
        if (state.sandbox) fill(walls, sandboxFacts(state.sandbox));
      }
    },
  };
}

/** The newer of two counts: spending never decreases. */
export function newestSpending({ spending: live }, { spending: recorded }) {
  if (!live) return recorded;
  return (recorded?.requests ?? 0) > live.requests ? recorded : live;
}

function makeStat(name) {
  const value = h("span.stat-value");
  const limit = h("span.stat-limit");
  const bar = h("span.stat-bar", { hidden: true }, h("span.stat-fill"));
  const element = h("div.stat", null, h("dt", null, name), h("dd", null, value, limit, bar));
  return {
    element,
    show(text, amount, most, format) {
      setText(value, text);
      const hasLimit = typeof most === "number" && most > 0;
      setText(limit, hasLimit ? `of ${format(most)}` : "");
      bar.hidden = !hasLimit;
      if (!hasLimit) return;
      const part = Math.min(1, (amount ?? 0) / most);
      bar.firstElementChild.style.transform = `scaleX(${part.toFixed(3)})`;
      bar.classList.toggle("nearly", part > 0.85);
    },
    title: (text) => element.setAttribute("title", text),
  };
}

function showPlan({ panel, list, counts, now }, steps) {
  panel.hidden = !steps || steps.length === 0;
  if (panel.hidden) return;
  showLine(now, visibleName(steps.find((step) => step.status === "active")?.title ?? ""));
  setText(counts, `${steps.filter((step) => step.status === "done").length} / ${steps.length}`);
  keyed(
    list,
    steps.map((step, index) => ({ ...step, index })),
    {
      key: (step) => String(step.index),
      make: () => h("li", null, h("span.step-mark"), h("span.step-title")),
      update(element, step) {
        element.dataset.status = step.status;
        const mark = element.firstElementChild;
        if (mark.dataset.status !== step.status) {
          mark.dataset.status = step.status;
          fill(
            mark,
            step.status === "done" ? icon("check") : null,
            h("span.visually-hidden", null, PLAN_WORDS[step.status]),
          );
        }
        showLine(element.lastElementChild, visibleName(step.title));
      },
    },
  );
}

const STRENGTHS = {
  namespaces: "namespaces: shares the host's kernel",
  kernel: "kernel: a kernel of its own in user space",
  vm: "vm: a machine of its own",
};

/** The isolation of the sandbox, as a list of facts. */
export function sandboxFacts({ backend, strength, reason, walls, network, limits }) {
  return h(
    "dl.facts",
    null,
    h("dt", null, "Backend"),
    h("dd", null, visibleName(backend)),
    strength && [
      h("dt", null, "Strength"),
      h("dd", null, STRENGTHS[strength] ?? visibleName(strength)),
    ],
    reason && [h("dt", null, "Chosen"), h("dd", null, visible(reason))],
    h("dt", null, "Network"),
    h(
      "dd",
      null,
      network.length === 0
        ? h("span.good", null, "off: only loopback")
        : h(
            "ul.tags",
            null,
            network.map((host) => h("li", null, visibleName(host))),
          ),
    ),
    h("dt", null, "Walls"),
    h(
      "dd",
      null,
      h(
        "ul.walls",
        null,
        walls.map((wall) => h("li", null, visibleName(wall))),
      ),
    ),
    Object.entries(limits ?? {}).map(([name, value]) => [
      h("dt", null, visibleName(name)),
      h("dd", null, visibleName(limitWords(String(value)))),
    ]),
  );
}
