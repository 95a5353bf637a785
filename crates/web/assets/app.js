// Entry point of the UI: routes, the top bar, and navigation. A page is a function that returns
// `{title, element, stop?}`; this module does not know the content of pages.

import { api, whenSignedOut } from "./api.js";
import { fill, h } from "./dom.js";
import { bind, currentBindings, listen } from "./keyboard.js";
import { problemNotice, show, toastProblem } from "./components/feedback.js";
import { icon, mark } from "./components/icons.js";
import { chat } from "./views/chat.js";
import { dashboard } from "./views/dashboard.js";
import { history as historyView } from "./views/history.js";
import { job } from "./views/job.js";
import { keys } from "./views/keys.js";
import { login } from "./views/login.js";
import { newTask } from "./views/new_task.js";

const ROUTES = [
  { pattern: /^\/$/, view: dashboard, name: "dashboard" },
  { pattern: /^\/new$/, view: newTask, name: "new" },
  { pattern: /^\/jobs\/([0-9a-fA-F-]{1,64})$/, view: job, name: "job" },
  { pattern: /^\/history$/, view: historyView, name: "history" },
  { pattern: /^\/chat$/, view: chat, name: "chat" },
  { pattern: /^\/keys$/, view: keys, name: "keys" },
  { pattern: /^\/login$/, view: login, name: "login", isOpen: true },
];

const LINKS = [
  { href: "/", name: "dashboard", label: "Jobs", icon: "jobs" },
  { href: "/chat", name: "chat", label: "Chat", icon: "chat" },
  { href: "/history", name: "history", label: "History", icon: "history" },
  { href: "/keys", name: "keys", label: "Keys", icon: "key" },
];

let current = null;
let me = null;

/** Navigates to an address of this UI. */
export function go(path, { replace = false } = {}) {
  if (replace) window.history.replaceState(null, "", path);
  else window.history.pushState(null, "", path);
  return showPage();
}

async function showPage() {
  const path = window.location.pathname;
  const route = ROUTES.find(({ pattern }) => pattern.test(path));
  current?.stop?.();
  current = null;
  const main = document.getElementById("main");
  if (!route) {
    // Signed-in users see the bar with its links; others see only the page.
    me ??= await api.me().catch(() => null);
    return mount(main, notFoundPage(), "");
  }
  if (!route.isOpen && !(await ensureSignedIn(main))) return undefined;
  const context = {
    parameters: route.pattern.exec(path).slice(1),
    query: new URLSearchParams(window.location.search),
    me,
    go,
    signIn,
  };
  mount(main, route.view(context), route.name);
  return undefined;
}

function mount(main, page, name) {
  const isFirst = main.dataset.page === undefined;
  current = page;
  main.dataset.page = name;
  document.title = page.title ? `${page.title} · Hotcell` : "Hotcell";
  fill(main, page.element);
  drawBar(name);
  if (!page.keepsScroll) window.scrollTo(0, 0);
  if (page.focus) page.focus();
  else if (!isFirst) main.focus({ preventScroll: true });
}

/** Whether the user is signed in. If not, the login page is shown instead. */
async function ensureSignedIn(main) {
  if (me) return true;
  try {
    me = await api.me();
    return true;
  } catch (problem) {
    if (problem.needsLogin) signedOut();
    else {
      const again = h(
        "button.button",
        { type: "button", on: { click: () => showPage() } },
        icon("retry"),
        "Try again",
      );
      fill(main, h("div.page", null, h("h1", null, "Not connected"), problemNotice(problem), again));
      drawBar("");
    }
    return false;
  }
}

async function signIn(key) {
  await api.login(key);
  me = await api.me();
}

function signedOut() {
  me = null;
  if (window.location.pathname === "/login") return;
  const back = window.location.pathname + window.location.search;
  go(`/login?next=${encodeURIComponent(back)}`, { replace: true });
}

function notFoundPage() {
  const element = h(
    "div.page",
    null,
    h(
      "div.empty.lost",
      null,
      mark(),
      h("h1", null, "Not found"),
      h("p", null, "There is no page at this address."),
      h("a.button", { href: "/" }, icon("jobs"), "All jobs"),
    ),
  );
  return { title: "Not found", element };
}

function drawBar(name) {
  const isIn = me !== null;
  const link = ({ href, name: target, label, icon: shape }) =>
    h(
      "a.bar-link",
      { href, "aria-current": target === name ? "page" : null, title: label },
      icon(shape),
      h("span", null, label),
    );
  fill(
    document.getElementById("bar"),
    h("a.brand", { href: "/", "aria-label": "Hotcell, all jobs" }, mark(), h("span", null, "hotcell")),
    isIn && h("nav.bar-nav", { "aria-label": "Pages" }, LINKS.map(link)),
    h(
      "div.bar-end",
      null,
      h(
        "button.button.quiet.square",
        {
          type: "button",
          "aria-label": "Switch between dark and light",
          title: "Dark or light (t)",
          on: { click: () => window.hotcellTheme.toggle() },
        },
        icon("sun"),
      ),
      h(
        "button.button.quiet.square",
        { type: "button", "aria-label": "Help and shortcuts", title: "Help (?)", on: { click: help } },
        icon("help"),
      ),
      isIn &&
        me.needs_key &&
        h(
          "button.button.quiet.square",
          {
            type: "button",
            "aria-label": `Sign out ${me.user}`,
            title: `Sign out ${me.user}`,
            on: { click: logout },
          },
          icon("out"),
        ),
      isIn &&
        name !== "new" &&
        h(
          "a.button.primary.bar-new",
          { href: "/new", title: "New task (n)" },
          icon("plus"),
          h("span", null, "New task"),
        ),
    ),
  );
}

async function logout() {
  try {
    await api.logout();
    signedOut();
  } catch (problem) {
    toastProblem(problem);
  }
}

function help() {
  const bindings = currentBindings();
  const groups = Map.groupBy ? Map.groupBy(bindings, ({ group }) => group) : new Map([["Keys", bindings]]);
  show(
    "Help",
    [...groups].map(([group, list]) =>
      h(
        "section",
        null,
        h("h3", null, group),
        h(
          "dl.shortcuts",
          null,
          list.map(({ keys: names, help: words }) => [
            h(
              "dt",
              null,
              names.split(" ").map((key) => h("kbd", null, key === " " ? "Space" : key)),
            ),
            h("dd", null, words),
          ]),
        ),
      ),
    ),
    h(
      "p.quiet",
      null,
      h("a", { href: "/docs" }, "API reference"),
      me?.version ? ` · Hotcell ${me.version}` : "",
    ),
  );
}

function followLinks() {
  document.addEventListener("click", (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.ctrlKey ||
      event.metaKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin)
      return;
    if (link.hash && link.pathname === window.location.pathname) return;
    if (!ROUTES.some(({ pattern }) => pattern.test(link.pathname))) return;
    event.preventDefault();
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    go(link.pathname + link.search);
  });
  window.addEventListener("popstate", () => showPage());
}

listen();
bind("n", "New task", () => go("/new"));
bind("c", "Chat", () => go("/chat"));
bind("g d", "All jobs", () => go("/"));
bind("g h", "History", () => go("/history"));
bind("g k", "Keys", () => go("/keys"));
bind("t", "Dark or light", () => window.hotcellTheme.toggle());
bind("?", "This help", help);
whenSignedOut(signedOut);
followLinks();
showPage();
