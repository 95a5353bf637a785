// Tabs with panels, navigated with the arrow keys. A panel is built when it is first shown.

import { h } from "../dom.js";

/**
 * @param {Array<{name: string, label: string, panel: Element, shown?: () => void, hidden?: () => void}>} tabs
 * @param {string} first
 * @param {(name: string) => void} changed
 */
export function makeTabs(tabs, first, changed) {
  const buttons = new Map();
  let current = null;
  const list = h("div.tabs", { role: "tablist", "aria-label": "Views of the job" });
  for (const { name, label, panel } of tabs) {
    const button = h(
      "button.tab",
      { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}` },
      label,
    );
    button.addEventListener("click", () => choose(name));
    buttons.set(name, button);
    list.append(button);
    panel.setAttribute("role", "tabpanel");
    panel.id = `panel-${name}`;
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    panel.hidden = true;
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(({ name }) => name === current.name);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    choose(next.name);
    buttons.get(next.name).focus();
  });

  function choose(name, isFirst = false) {
    const next = tabs.find((tab) => tab.name === name) ?? tabs[0];
    if (next === current) return;
    if (current) {
      current.panel.hidden = true;
      current.hidden?.();
    }
    current = next;
    for (const [other, button] of buttons) {
      const isChosen = other === next.name;
      button.setAttribute("aria-selected", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
    next.panel.hidden = false;
    next.shown?.();
    if (!isFirst) changed(next.name);
  }

  choose(first, true);
  return { element: list, choose, current: () => current.name };
}
