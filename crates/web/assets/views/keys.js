// The keys page: manages API keys. A token is shown once, when it is created.

import { api } from "../api.js";
import { fill, h } from "../dom.js";
import {
  confirm,
  copyButton,
  empty,
  loading,
  problemNotice,
  toast,
  toastProblem,
} from "../components/feedback.js";
import { icon } from "../components/icons.js";
import { age, fullTime } from "../text/format.js";
import { oneLine } from "../text/visible.js";

export function keys({ me }) {
  const isAdmin = me.role === "admin";
  const list = h("div.list-content", null, loading());
  const made = h("div", { "aria-live": "polite" });
  const user = h("input", {
    id: "key-user",
    name: "user",
    value: isAdmin ? "" : me.user,
    readOnly: !isAdmin,
    required: true,
    autocomplete: "off",
    placeholder: "name",
  });
  const role = h(
    "select",
    { id: "key-role", name: "role", disabled: !isAdmin },
    h("option", { value: "user" }, "user"),
    isAdmin && h("option", { value: "admin" }, "admin"),
  );
  const label = h("input", {
    id: "key-label",
    name: "label",
    autocomplete: "off",
    placeholder: "What it is for",
  });
  const form = h(
    "form.inline-form",
    { "aria-label": "New key" },
    h("div.field", null, h("label", { for: "key-user" }, "User"), user),
    h("div.field", null, h("label", { for: "key-role" }, "Role"), role),
    h("div.field.grow", null, h("label", { for: "key-label" }, "Label"), label),
    h("button.button.primary", { type: "submit" }, icon("plus"), "Make key"),
  );

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { key, token } = await api.makeKey({
        user: user.value.trim(),
        role: role.value,
        label: label.value.trim(),
      });
      fill(made, tokenNotice(key, token));
      label.value = "";
      load();
    } catch (problem) {
      fill(made, problemNotice(problem));
    }
  });

  async function load() {
    try {
      draw((await api.keys()).keys);
    } catch (problem) {
      fill(list, problemNotice(problem));
    }
  }

  function draw(all) {
    if (all.length === 0) {
      fill(
        list,
        empty(
          "No keys yet",
          me.needs_key ? "Make one above." : "Users of this machine need none. Make one to let others in.",
        ),
      );
      return;
    }
    const sorted = [...all].sort(
      (a, b) => Number(Boolean(a.revoked)) - Number(Boolean(b.revoked)) || b.created.localeCompare(a.created),
    );
    fill(
      list,
      h(
        "table.keys",
        { "aria-label": "Keys" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["Key", "User", "Role", "Label", "Made", "Action"].map((name) =>
              h("th", { scope: "col", class: `column-${name.toLowerCase()}` }, name),
            ),
          ),
        ),
        h("tbody", null, sorted.map(row)),
      ),
    );
  }

  function row(key) {
    const revoke = h(
      "button.button.small.danger-quiet",
      { type: "button", "aria-label": `Revoke ${key.prefix}`, on: { click: () => askRevoke(key) } },
      "Revoke",
    );
    return h(
      "tr",
      { class: key.revoked ? "is-revoked" : null },
      h("td", null, h("code", null, `${key.prefix}…`)),
      h("td", null, h("bdi", null, oneLine(key.user, 60))),
      h("td", null, h("span.tag", { class: key.role === "admin" ? "strong" : null }, key.role)),
      h("td.column-label", null, oneLine(key.label, 80)),
      h("td.column-made", { title: fullTime(key.created) }, age(key.created)),
      h(
        "td.column-action",
        null,
        key.revoked ? h("span.quiet", { title: fullTime(key.revoked) }, "revoked") : revoke,
      ),
    );
  }

  async function askRevoke(key) {
    const isSure = await confirm({
      title: "Revoke this key?",
      text: `${key.prefix}… of ${key.user}${key.label ? ` (${key.label})` : ""} stops working at once. This cannot be undone.`,
      action: "Revoke",
    });
    if (!isSure) return;
    try {
      await api.revokeKey(key.id);
      toast("Revoked", "good");
      load();
    } catch (problem) {
      toastProblem(problem);
    }
  }

  load();
  return {
    title: "Keys",
    element: h(
      "div.page",
      null,
      h("h1", null, "Keys"),
      h(
        "p.quiet.lead",
        null,
        isAdmin
          ? "Keys of all users. A user sees only their own jobs; an admin sees everything."
          : "Your keys. Each gives access to your jobs.",
      ),
      form,
      made,
      list,
    ),
  };
}

function tokenNotice(key, token) {
  return h(
    "div.notice.good.token-notice",
    null,
    icon("key"),
    h(
      "div",
      null,
      h(
        "p",
        null,
        h("strong", null, `Key for ${oneLine(key.user, 60)}`),
        ": copy it now, it is not shown again.",
      ),
      h("div.token", null, h("code", { tabindex: 0 }, token), copyButton(token, "Copy the key")),
    ),
  );
}
