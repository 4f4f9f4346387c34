// The calls as a tree.

import { byId, h, replace } from "./dom.js";
import { stepOf } from "./model.js";
import { keepInView } from "./source.js";

export function buildTree(app) {
  const roots = app.model.calls.filter((call) => call.parent === null);
  const list = h("ul", { role: "tree", "aria-label": "calls" }, ...roots.map((call) => item(app, call)));
  replace(byId("tree"), list);
  list.addEventListener("keydown", (event) => move(event, list));
}

function item(app, call) {
  const open = () => {
    const step = stepOf(app.model, call.id, app.step.way) || stepOf(app.model, call.id, "forward");
    app.go(step.number);
  };
  const kind = call.kind === "layer" ? call.type : "";
  const label = h("span", { class: `label ${call.kind}`, onclick: open }, h("i", { class: "dot", "aria-hidden": "true" }), call.label, kind && kind !== call.label ? h("small", {}, ` ${kind}`) : null);
  const node = h("li", { role: "treeitem", tabindex: "-1", "aria-level": String(call.depth + 1), "data-call": String(call.id) }, label);
  if (call.parts.length) {
    node.setAttribute("aria-expanded", "true");
    node.append(h("ul", { role: "group" }, ...call.parts.map((id) => item(app, app.model.calls[id]))));
  }
  node.open = open;
  return node;
}

export function markTree(app) {
  const tree = byId("tree");
  for (const node of tree.querySelectorAll("li")) {
    const id = Number(node.dataset.call);
    const isCurrent = id === app.step.call.id;
    node.classList.toggle("current", isCurrent);
    node.setAttribute("aria-selected", String(isCurrent));
    node.tabIndex = isCurrent ? 0 : -1;
    const dot = node.querySelector(".dot");
    dot.style.setProperty("--size", app.sizeOf(id, app.step.way));
    node.classList.toggle("first", Boolean(app.bug) && app.bug.first.call === id);
    if (isCurrent) keepInView(node.querySelector(".label"), tree);
  }
}

function move(event, list) {
  const all = [...list.querySelectorAll("li")].filter((node) => !node.parentElement.closest('[aria-expanded="false"]'));
  const current = event.target.closest("li");
  const at = all.indexOf(current);
  const isOpen = current.getAttribute("aria-expanded");
  const to = { ArrowDown: all[at + 1], ArrowUp: all[at - 1], Home: all[0], End: all[all.length - 1] }[event.key];
  if (to) to.focus();
  else if (event.key === "ArrowRight" && isOpen === "false") current.setAttribute("aria-expanded", "true");
  else if (event.key === "ArrowRight" && isOpen === "true") current.querySelector("li").focus();
  else if (event.key === "ArrowLeft" && isOpen === "true") current.setAttribute("aria-expanded", "false");
  else if (event.key === "ArrowLeft") current.parentElement.closest("li")?.focus();
  else if (event.key === "Enter" || event.key === " ") current.open();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
