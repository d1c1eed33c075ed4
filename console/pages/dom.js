// dom: makes elements. All text of a page is made here, as text: nothing is ever parsed as HTML.
import { addressOf } from "./router.js";
import { parts } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

function addText(to, text) {
  for (const part of parts(String(text))) {
    if (!part.odd) {
      to.append(part.text);
      continue;
    }
    const mark = document.createElementNS(to.namespaceURI, to.namespaceURI === SVG ? "tspan" : "span");
    mark.setAttribute("class", "odd");
    mark.append(part.text);
    to.append(mark);
  }
}

export function add(to, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) to.append(child);
    else addText(to, child);
  }
  return to;
}

function make(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else if (name === "title" || name === "aria-label")
      element.setAttribute(name, parts(String(value)).map((p) => p.text).join(""));
    else if (name === "href" && value[0] === "/" && !value.startsWith("/api/")) element.setAttribute(name, addressOf(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  return add(element, children);
}

export const h = (tag, props, ...children) => make(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => make(document.createElementNS(SVG, tag), props, children);

// Text in which code is between backticks.
export const prose = (text) => String(text).split("`").map((part, i) => (i % 2 ? h("code", null, part) : part));

export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, ...children);
}
