// Starts a chat: the first message creates an interactive job, and the chat continues on its page.

import { address, api, newRequestKey } from "../api.js";
import { fill, h } from "../dom.js";
import { makeComposer } from "../components/composer.js";
import { mark } from "../components/icons.js";
import { makeJobTable } from "../components/job_table.js";

const MAX_RECENT = 8;

export function chat({ go, me }) {
  const composer = makeComposer({
    label: "Message",
    placeholder: "Ask, or say what to do",
    async send(text) {
      const job = await api.schedule({ task: text, interactive: true }, { key: newRequestKey() });
      go(address.job(job.id));
    },
  });
  const recent = h("div");
  let isStopped = false;

  api
    .jobs({ limit: 100 })
    .then(({ jobs }) => {
      const chats = jobs.filter((job) => job.interactive).slice(0, MAX_RECENT);
      if (isStopped || chats.length === 0) return;
      const table = makeJobTable({ showOwner: false, label: "Recent chats" });
      table.show(chats);
      fill(recent, h("h2", null, "Recent chats"), table.element);
    })
    .catch(() => {
      // The list is optional: a chat can be started without it.
    });

  return {
    title: "Chat",
    element: h(
      "div.page.chat-start",
      null,
      h(
        "div.chat-hello",
        null,
        mark(),
        h("h1", null, "What should we work on?"),
        h(
          "p.quiet",
          null,
          `A session in a sealed sandbox with ${me.default_model ?? "the server's model"}. It waits for you between messages.`,
        ),
      ),
      composer.element,
      recent,
    ),
    focus: () => composer.focus(),
    stop() {
      isStopped = true;
    },
  };
}
