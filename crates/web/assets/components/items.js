// Renders each kind of transcript item. A maker returns `{element, update}`; items are those of
// `state.js`. Calls have their own module.

import { fill, h, setText } from "../dom.js";
import { clock, count, fullTime, money, plural, tokens } from "../text/format.js";
import { visible, visibleName } from "../text/visible.js";
import { icon } from "./icons.js";
import { showMarkdown } from "./markdown_view.js";
import { makeCall, updateCall } from "./tool_call.js";

const fixed = (element) => ({ element, update() {} });

const OUTCOMES = {
  done: ["check", "good", "Turn complete"],
  failed: ["cross", "bad", "The agent could not continue"],
  budget: ["warn", "warn", "Budget used up"],
  provider: ["cross", "bad", "The provider failed"],
  interrupted: ["pause", "plain", "Interrupted"],
};

const STOPS = {
  max_tokens: "The reply was cut off at its token limit.",
  refusal: "The model declined to continue.",
  model_context_window_exceeded: "The conversation is longer than the model can read.",
  pause_turn: "The provider paused a long reply; it continues.",
  interrupted: "The reply was interrupted.",
};

const MAKERS = {
  prompt(item) {
    const text = item.blocks
      .map((block) => (block.type === "text" ? block.text : `[${block.type}]`))
      .join("\n\n");
    const words = h("div.prompt-text", null, visible(text));
    const isLong = text.length > 1500 || text.split("\n").length > 18;
    const more =
      isLong && h("button.button.quiet.small", { type: "button", "aria-expanded": "false" }, "Show all");
    if (isLong) {
      words.classList.add("clamped");
      more.addEventListener("click", () => {
        const isClamped = words.classList.toggle("clamped");
        more.setAttribute("aria-expanded", String(!isClamped));
        setText(more, isClamped ? "Show all" : "Show less");
      });
    }
    return fixed(
      h(
        "article.item.prompt",
        { "aria-label": `Message ${item.turn}`, title: fullTime(item.time) },
        words,
        more,
      ),
    );
  },
  text() {
    const element = h("article.item.reply.prose", { "aria-label": "Reply" });
    return {
      element,
      update(item) {
        element.classList.toggle("is-partial", item.isPartial === true);
        showMarkdown(element, item.text);
      },
    };
  },
  thinking(first) {
    const words = h("div.thinking-text.prose");
    const peek = h("span.thinking-peek");
    const details = h(
      "details.item.thinking",
      { open: false },
      h(
        "summary",
        null,
        icon("thought"),
        h("span.thinking-label", null, first.isRedacted ? "Thinking, sealed by the provider" : "Thinking"),
        peek,
      ),
      words,
    );
    let latest = first;
    const draw = () => {
      if (details.open) showMarkdown(words, latest.text);
    };
    details.addEventListener("toggle", draw);
    return {
      element: details,
      update(item) {
        latest = item;
        details.classList.toggle("is-partial", item.isPartial === true);
        const flat = item.text
          .slice(item.isPartial ? -160 : 0)
          .slice(0, 160)
          .replace(/\s+/g, " ")
          .trim();
        setText(peek, visibleName(flat));
        draw();
      },
    };
  },
  call(first) {
    const element = makeCall(first);
    element.classList.add("item");
    return { element, update: (item) => updateCall(element, item) };
  },
  note: (item) =>
    fixed(
      h(
        "div.item.note",
        null,
        icon("note"),
        h("div", null, h("span.note-label", null, "Note to the model"), h("p", null, visible(item.text))),
      ),
    ),
  refused: (item) => fixed(h("div.item.note.warn", null, icon("warn"), h("p", null, visible(item.reason)))),
  stop: (item) =>
    fixed(
      h(
        "div.item.note.warn",
        null,
        icon("warn"),
        h("p", null, STOPS[item.stop] ?? `The reply ended: ${visible(String(item.stop))}`),
      ),
    ),
  continued: () => fixed(h("div.item.divider", null, h("span", null, "Continued"))),
  other: (item) =>
    fixed(
      h(
        "div.item.note",
        null,
        icon("note"),
        h("p", null, `A block of kind ${visibleName(String(item.block?.type ?? "unknown"))}`),
      ),
    ),
  sandbox(item) {
    const { backend, reason, walls, network } = item.sandbox;
    const net = network.length === 0 ? "network off" : `network: ${network.map(visibleName).join(", ")}`;
    if (item.replaces)
      return fixed(
        h(
          "div.item.note.warn",
          null,
          icon("shield"),
          h("p", null, `The sandbox was replaced: ${visible(item.replaces)}`),
        ),
      );
    return fixed(
      h(
        "div.item.event-line",
        { title: [reason && visible(reason), walls.map(visibleName).join(", ")].filter(Boolean).join(" · ") },
        icon("shield"),
        h("span", null, `Sandbox ready · ${visibleName(backend)} · ${plural(walls.length, "wall")} · ${net}`),
      ),
    );
  },
  outcome(item) {
    const { outcome, spending } = item;
    const [name, tone, words] = OUTCOMES[outcome.kind] ?? ["note", "plain", outcome.kind];
    const spent = [
      plural(spending.requests, "request"),
      `${count(tokens(spending.usage))} tokens`,
      money(spending.cost),
      clock(spending.seconds),
    ].join(" · ");
    return fixed(
      h(
        "div.item.outcome",
        { class: tone },
        icon(name),
        h(
          "div",
          null,
          h("p", null, h("strong", null, words), outcome.reason && `: ${visible(outcome.reason)}`),
          h("p.quiet", null, spent),
        ),
      ),
    );
  },
  undone(item) {
    const { turn, restored, removed, left } = item.undone;
    return fixed(
      h(
        "div.item.note.warn",
        null,
        icon("back"),
        h(
          "div",
          null,
          h(
            "p",
            null,
            `Reverted to before message ${turn}: ${plural(restored, "file")} restored, ${removed} removed.`,
          ),
          left.length > 0 && h("p.quiet", null, `Not restored: ${left.map(visibleName).join(", ")}`),
        ),
      ),
    );
  },
  redone(item) {
    const { turn, restored, removed, left } = item.redone;
    return fixed(
      h(
        "div.item.note.warn",
        null,
        icon("back"),
        h(
          "div",
          null,
          h(
            "p",
            null,
            `Message ${turn} counts again: ${plural(restored, "file")} restored, ${removed} removed.`,
          ),
          left.length > 0 && h("p.quiet", null, `Not restored: ${left.map(visibleName).join(", ")}`),
        ),
      ),
    );
  },
  model: (item) =>
    fixed(h("div.item.event-line", null, icon("note"), h("span", null, `Model: ${visibleName(item.model)}`))),
  summary: (item) =>
    fixed(
      h(
        "div.item.note",
        null,
        icon("note"),
        h(
          "div",
          null,
          h("p", null, "For the model, this summary replaces the conversation so far:"),
          h("p.prompt-text", null, visible(item.text)),
        ),
      ),
    ),
};

/** @returns {{element: Element, update: (item) => void}} */
export function makeItem(item) {
  const made = (MAKERS[item.kind] ?? MAKERS.other)(item);
  made.element.dataset.kind = item.kind;
  return made;
}

/** The current activity, at the end of the transcript. */
export function showActivity(element, activity, model) {
  const words = activity && activityWords(activity, model);
  element.hidden = !words;
  if (!words || element.dataset.words === words) return;
  element.dataset.words = words;
  element.classList.toggle("warn", activity.kind === "retrying");
  fill(element, h("span.spinner", { "aria-hidden": "true" }), h("span", null, words));
}

function activityWords(activity, model) {
  if (activity.kind === "asking") return `Waiting for ${model ? visibleName(model) : "the model"}`;
  if (activity.kind === "working") return "Working";
  if (activity.kind === "retrying") {
    const seconds = Math.max(0, Math.ceil((activity.until - Date.now()) / 1000));
    return `Attempt ${activity.attempt} failed: ${visible(activity.reason)}. ${seconds > 0 ? `Trying again in ${seconds} s` : "Trying again"}`;
  }
  return null;
}
