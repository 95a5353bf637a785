// Dark or light theme. Loaded as a plain script before the first paint, so that the page does not
// flash; the toggle calls `window.hotcellTheme`. Stores the choice in this browser only.

(() => {
  const STORAGE_KEY = "hotcell-theme";
  const root = document.documentElement;

  function read() {
    try {
      return localStorage.getItem(STORAGE_KEY);
    } catch {
      return null;
    }
  }

  function isDark() {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  const chosen = read();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  window.hotcellTheme = {
    isDark,
    toggle() {
      const next = isDark() ? "light" : "dark";
      root.dataset.theme = next;
      try {
        localStorage.setItem(STORAGE_KEY, next);
      } catch {
        // Without storage the choice lasts as long as the page.
      }
      return next;
    },
  };
})();
