// Builds and updates elements. The only place where this UI creates DOM nodes: text is inserted as
// text nodes, never as markup, and attributes that could run code are refused.

const PROPERTIES = new Set([
  "value",
  "checked",
  "disabled",
  "hidden",
  "open",
  "selected",
  "readOnly",
  "indeterminate",
]);
const REFUSED = /^(on|style$|srcdoc$|formaction$)/i;

/**
 * Creates an element.
 * @param {string} tag with classes after dots, as in `button.quiet.small`
 * @param {object} [attributes] `on` holds listeners, `data` the dataset; null and false are left out
 * @param {...(Node|string|number|null|false|Array)} children
 */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length > 0) element.className = classes.join(" ");
  if (attributes) setAll(element, attributes);
  append(element, children);
  return element;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else if (name === "class") {
      if (value) element.classList.add(...String(value).split(" ").filter(Boolean));
    } else {
      set(element, name, value);
    }
  }
}

/** Sets one attribute or property; null and false remove it. */
export function set(element, name, value) {
  if (REFUSED.test(name)) throw new Error(`attribute ${name} is not allowed`);
  if (PROPERTIES.has(name)) {
    element[name] = value ?? "";
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else if ((name === "href" || name === "src") && !isSafe(name, String(value))) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

const SAFE_LINK = /^(https?:\/\/|mailto:|\/(?!\/)|#|\?)/i;
const SAFE_IMAGE = /^(data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$|\/assets\/)/;

function isSafe(name, address) {
  return (name === "href" ? SAFE_LINK : SAFE_IMAGE).test(address);
}

/** Whether an address is allowed in a link. */
export function isSafeLink(address) {
  return SAFE_LINK.test(address);
}

export function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces all children by these. */
export function fill(element, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  element.replaceChildren(fragment);
  return element;
}

/** Changes a text only if it differs, to avoid needless layout. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/**
 * Updates a container's children to match a list, keeping the element of each key.
 * @param {Element} container with no other children
 * @param {Array} items
 * @param {{key: (item) => string, make: (item) => Element, update?: (element, item) => void}} how
 */
export function keyed(container, items, { key, make, update }) {
  const known = container.keyedElements ?? (container.keyedElements = new Map());
  const seen = new Set();
  let place = container.firstElementChild;
  for (const item of items) {
    const name = key(item);
    seen.add(name);
    let element = known.get(name);
    if (!element) {
      element = make(item);
      known.set(name, element);
    }
    update?.(element, item);
    if (element === place) place = place.nextElementSibling;
    else container.insertBefore(element, place);
  }
  for (const [name, element] of known) {
    if (!seen.has(name)) {
      element.remove();
      known.delete(name);
    }
  }
}

/** Text for screen readers only. */
export function hiddenText(text) {
  return h("span.visually-hidden", null, text);
}
