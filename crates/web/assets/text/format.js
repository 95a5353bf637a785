// Short forms of numbers, sizes, times and money. Pure: the current time is an argument.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  let unit = 0;
  let value = Number(count) || 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** `2 GiB`, `512m` or `1048576` in bytes; NaN for other texts. */
export function parseBytes(text) {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:i?b)?|b)?\s*$/i.exec(text);
  if (!match) return NaN;
  const power = match[2] ? "kmgt".indexOf(match[2].toLowerCase()) + 1 : 0;
  return Math.round(Number(match[1]) * 1024 ** power);
}

/** Dollars. Small amounts keep their significant digits. */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars === 0) return "$0.00";
  return dollars < 0.1 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

/** 950, 12.3k, 4.56M. */
export function count(number) {
  if (number < 1000) return String(number);
  if (number < 999_500) return `${trim((number / 1000).toFixed(number < 99_950 ? 1 : 0))}k`;
  return `${trim((number / 1e6).toFixed(2))}M`;
}

function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** `850 ms`, `4.2 s`, `3 m 05 s`, `2 h 10 m`. */
export function duration(seconds) {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return clock(seconds);
}

/** The same in whole seconds, for running clocks. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600)
    return `${Math.floor(whole / 60)} m${whole % 60 > 0 ? ` ${String(whole % 60).padStart(2, "0")} s` : ""}`;
  const minutes = Math.floor((whole % 3600) / 60);
  return `${Math.floor(whole / 3600)} h${minutes > 0 ? ` ${String(minutes).padStart(2, "0")} m` : ""}`;
}

/** A limit as reported by the sandbox, with seconds in readable form. */
export function limitWords(text) {
  return text.replace(/^(\d+(?:\.\d+)?)s\b/, (_, seconds) => clock(Number(seconds)));
}

/** How long ago, in short form. */
export function age(time, now = Date.now()) {
  const seconds = (now - Date.parse(time)) / 1000;
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)}s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ago`;
  if (seconds < 30 * 86_400) return `${Math.floor(seconds / 86_400)}d ago`;
  return new Date(time).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

export function fullTime(time) {
  return new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** The heading for a day's jobs. */
export function dayName(time, now = Date.now()) {
  const day = new Date(time);
  const days = Math.round((startOfDay(now) - startOfDay(day)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return day.toLocaleDateString(undefined, { weekday: "long" });
  const sameYear = day.getFullYear() === new Date(now).getFullYear();
  return day.toLocaleDateString(undefined, { month: "long", year: sameYear ? undefined : "numeric" });
}

function startOfDay(time) {
  const day = new Date(time);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime();
}

export function plural(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

/** All tokens of a usage. */
export function tokens(usage) {
  if (!usage) return 0;
  return inputTokens(usage) + (usage.output_tokens ?? 0);
}

export function inputTokens(usage) {
  return (
    (usage.input_tokens ?? 0) +
    (usage.cache_creation_input_tokens ?? 0) +
    (usage.cache_read_input_tokens ?? 0)
  );
}
