// Elements from data. Nothing here parses a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Creates an HTML element. */
export function html(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Creates an SVG element. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/**
 * A sentence for display and for screen readers: parts are strings, or objects with a `text` that is displayed and a
 * `spoken` that is read aloud, such as numbers with exponents.
 */
export function sentence(parts) {
  const nodes = parts.map((part) =>
    typeof part === "string"
      ? document.createTextNode(part)
      : html("span", { class: "number" }, html("span", { "aria-hidden": "true" }, part.text), html("span", { class: "unseen" }, part.spoken)),
  );
  const all = document.createDocumentFragment();
  all.append(...nodes);
  return all;
}
