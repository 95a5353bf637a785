// Keyboard shortcuts: one listener for the whole page. Ignored while the user types and while a
// dialog is open. Pages bind the keys that they need.

const PREFIX_TIMEOUT_MS = 1200;

/** @type {Map<string, {run: (event: KeyboardEvent) => void, help: string, group: string}>} */
const bindings = new Map();
let prefix = null;
let prefixTimer = null;

/**
 * Binds a key such as `n`, `?` or `g d`. Returns a function that removes the binding.
 */
export function bind(keys, help, run, group = "Everywhere") {
  const binding = { run, help, group };
  bindings.set(keys, binding);
  return () => {
    if (bindings.get(keys) === binding) bindings.delete(keys);
  };
}

/** The current bindings, for the help dialog. */
export function currentBindings() {
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
    clearPrefix();
    const binding = bindings.get(keys);
    if (binding) {
      event.preventDefault();
      binding.run(event);
    } else if ([...bindings.keys()].some((name) => name.startsWith(`${event.key} `))) {
      prefix = event.key;
      prefixTimer = setTimeout(clearPrefix, PREFIX_TIMEOUT_MS);
    }
  });
}

function clearPrefix() {
  clearTimeout(prefixTimer);
  prefix = null;
}
