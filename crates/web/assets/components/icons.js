// The icons, drawn as strokes on a grid of 16. Decorative only: text beside them or a label on
// their button gives the meaning.

const PATHS = {
  plus: "M8 3v10M3 8h10",
  jobs: "M2.5 3.5h11v3h-11zM2.5 9.5h11v3h-11z",
  chat: "M2.5 3h11v8h-6l-3 2.5V11h-2z",
  history: "M8 4.5V8l2.5 1.5M2.8 6A5.5 5.5 0 1 1 2.5 8M2.5 3v3h3",
  key: "M10 2.5a3.5 3.5 0 1 1-2.6 5.8L3 12.7V13.5h2v-1.5h1.5V10.5L8 9M10.6 5.4h.01",
  docs: "M3.5 2.5h6l3 3v8h-9zM9.5 2.5v3h3M5.5 8.5h5M5.5 11h5",
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  help: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM6.2 6.3a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.8.6-.8 1.3M8 11.2h.01",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3l3.2 3.2",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  file: "M3.5 2h6l3 3v9h-9zM9.5 2v3h3",
  read: "M1.8 8S4 4 8 4s6.2 4 6.2 4S12 12 8 12 1.8 8 1.8 8zM8 6.3a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4z",
  edit: "M3 13l.7-2.8 7-7 2.1 2.1-7 7zM9.5 4.4l2.1 2.1",
  folder: "M2 4h4.5l1.3 1.5H14V13H2z",
  plan: "M2.5 4.5l1 1 2-2M2.5 9l1 1 2-2M8 4.7h5.5M8 9.2h5.5M8 13h5.5M3 13h1.5",
  tool: "M9.5 3.2a3 3 0 0 1 3.7 3.9L10.9 5 9 6.9 10.8 9a3 3 0 0 1-3.6-.8L3.6 13 2.4 11.8l4.9-3.7A3 3 0 0 1 9.5 3.2z",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  back: "M7 3.5L2.5 8 7 12.5M2.5 8h11",
  arrowDown: "M8 2.5v11M3.5 9L8 13.5 12.5 9",
  send: "M8 13.5v-11M3.5 7L8 2.5 12.5 7",
  download: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
  stop: "M4 4h8v8H4z",
  pause: "M5 3v10M11 3v10",
  retry: "M13 8a5 5 0 1 1-1.5-3.6M13 2v3h-3",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.5v4.5M9.3 6.5v4.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5l3.5 3.5L13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  warn: "M8 2.2L14.5 13.5h-13zM8 6.5v3.5M8 11.8h.01",
  shield: "M8 1.8l5.2 2v4c0 3.2-2.2 5.4-5.2 6.4-3-1-5.2-3.2-5.2-6.4v-4z",
  thought:
    "M5.5 13.5h5M6 11.5h4M8 1.8a4.2 4.2 0 0 1 2.3 7.7c-.3.3-.5.6-.5 1H6.2c0-.4-.2-.7-.5-1A4.2 4.2 0 0 1 8 1.8z",
  note: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM8 7.3v3.7M8 5h.01",
  out: "M6 2.5H2.5v11H6M6.5 8h7M10.5 5l3 3-3 3",
  upload: "M8 11V3M4.5 6L8 2.5 11.5 6M2.5 13.5h11",
  link: "M6.5 9.5l3-3M7 4.5l1.2-1.2a3 3 0 0 1 4.3 4.3L11.3 8.8M9 11.5l-1.2 1.2a3 3 0 0 1-4.3-4.3L4.7 7.2",
};

const SVG = "http://www.w3.org/2000/svg";

/** @param {keyof PATHS} name */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("focusable", "false");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name] ?? PATHS.tool);
  svg.append(path);
  return svg;
}

/** The logo: a window in a thick wall, with a glowing object behind it. */
export function mark() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "mark");
  svg.setAttribute("aria-hidden", "true");
  const add = (tag, attributes) => {
    const shape = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    svg.append(shape);
  };
  add("rect", { class: "wall", x: 1, y: 1, width: 22, height: 22, rx: 6 });
  add("rect", { class: "glass", x: 5, y: 5, width: 14, height: 14, rx: 3 });
  add("circle", { class: "halo", cx: 12, cy: 13.4, r: 5 });
  add("circle", { class: "source", cx: 12, cy: 13.4, r: 3.1 });
  add("path", { class: "arm", d: "M7.2 10.4 10.4 7.2" });
  return svg;
}
