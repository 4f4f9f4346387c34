// Elements made by hand: text is always set as text, so nothing of a trace is ever read as HTML.

// An element of HTML. Of its properties on… are listeners, vars are variables of its style, all others attributes.
export function h(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) if (isThere(value)) setProperty(element, name, value);
  element.append(...children.flat().filter(isThere));
  return element;
}

function setProperty(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "vars") for (const [key, number] of Object.entries(value)) element.style.setProperty(key, number);
  else element.setAttribute(name, value === true ? "" : value);
}

function isThere(value) {
  return value !== undefined && value !== null && value !== false;
}

// A button that looks like a link.
export function link(label, go) {
  return h("button", { class: "link", type: "button", onclick: go }, label);
}

// A paragraph in small print.
export function quiet(...children) {
  return h("p", { class: "quiet" }, ...children);
}

export function byId(id) {
  return document.getElementById(id);
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat().filter(isThere));
}

// Give an element each of these classes, or take it away: {class: whether}.
export function setClasses(element, classes) {
  for (const [name, isOn] of Object.entries(classes)) element.classList.toggle(name, isOn);
}

// Scroll a box, and nothing around it, so that an element in it can be seen.
export function keepInView(element, box) {
  const inner = element.getBoundingClientRect();
  const outer = box.getBoundingClientRect();
  if (box.scrollHeight <= box.clientHeight) return;
  if (inner.top < outer.top + 20) box.scrollTop -= outer.top + 20 - inner.top;
  else if (inner.bottom > outer.bottom - 40) box.scrollTop += inner.bottom - outer.bottom + 40;
}

// Scroll the page so that a number is in sight: below the tour, and on a narrow page above the sheet about it.
export function uncover(cell) {
  const isNarrow = getComputedStyle(byId("entrybox")).position === "fixed";
  const box = isNarrow ? window : byId("middle");
  const top = byId("tour").getBoundingClientRect().bottom + 4;
  const rect = byId(isNarrow ? "entrybox" : "middle").getBoundingClientRect();
  const bottom = (isNarrow ? rect.top : rect.bottom) - 4;
  const { top: upper, bottom: lower } = cell.getBoundingClientRect();
  if (lower > bottom) box.scrollBy(0, Math.min(lower - bottom, upper - top));
  else if (upper < top && byId("tour").classList.contains("going")) box.scrollBy(0, upper - top);
}
