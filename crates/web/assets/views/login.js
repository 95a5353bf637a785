// The login page: takes a key and returns to the previous page. The key is sent to the server once
// and not stored here: the browser has a cookie that scripts cannot read.

import { h } from "../dom.js";
import { icon, mark } from "../components/icons.js";

export function login({ query, go, signIn }) {
  const field = h("input", {
    type: "password",
    id: "key",
    name: "key",
    autocomplete: "off",
    required: true,
    spellcheck: "false",
    "aria-describedby": "key-help key-problem",
  });
  const problem = h("p.field-problem", { id: "key-problem", role: "alert" });
  const button = h("button.button.primary", { type: "submit" }, icon("key"), "Sign in");
  const form = h(
    "form.login",
    null,
    mark(),
    h("h1", null, "Sign in"),
    h("label", { for: "key" }, "API key"),
    field,
    h(
      "p.quiet",
      { id: "key-help" },
      "An admin makes keys: on the keys page, or with ",
      h("code", null, "hotcell keys create"),
      ".",
    ),
    problem,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    button.disabled = true;
    try {
      await signIn(field.value.trim());
      go(safeTarget(query.get("next")), { replace: true });
    } catch (error) {
      problem.textContent = error.status === 401 ? "This key is not valid." : error.message;
      field.setAttribute("aria-invalid", "true");
      field.select();
    } finally {
      button.disabled = false;
    }
  });
  return { title: "Sign in", element: h("div.page.narrow", null, form), focus: () => field.focus() };
}

/** Only paths of this site: a link must not lead elsewhere after a login. */
export function safeTarget(path) {
  return path && /^\/(?![/\\])/.test(path) && !path.startsWith("/login") ? path : "/";
}
