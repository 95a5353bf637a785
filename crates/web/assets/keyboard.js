// Keyboard shortcuts: one listener for the whole page. Keys mean nothing while somebody types, or
// while a dialog is open. Knows no page: who wants a key binds it.

const PATIENCE = 1200;

/** @type {Map<string, {run: (event: KeyboardEvent) => void, help: string, group: string}>} */
const bindings = new Map();
let prefix = null;
let prefixTimer = null;

/**
 * Binds a key such as `n`, `?` or `g d`. Gives a function that takes the binding back.
 */
export function bind(keys, help, run, group = "Everywhere") {
  const binding = { run, help, group };
  bindings.set(keys, binding);
  return () => {
    if (bindings.get(keys) === binding) bindings.delete(keys);
  };
}

/** What is bound now, for the help dialog. */
export function bound() {
  return [...bindings].map(([keys, { help, group }]) => ({ keys, help, group }));
}

export function isTyping(target) {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
    const keys = prefix ? `${prefix} ${event.key}` : event.key;
    forget();
    const binding = bindings.get(keys);
    if (binding) {
      event.preventDefault();
      binding.run(event);
    } else if ([...bindings.keys()].some((name) => name.startsWith(`${event.key} `))) {
      prefix = event.key;
      prefixTimer = setTimeout(forget, PATIENCE);
    }
  });
}

function forget() {
  clearTimeout(prefixTimer);
  prefix = null;
}
