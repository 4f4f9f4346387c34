// The calls as a tree.

import { byId, h, keepInView, replace, setClasses } from "./dom.js";

export function buildTree(app) {
  const roots = app.model.calls.filter((call) => call.parent === null);
  const list = h("ul", { role: "tree", "aria-label": "calls" }, ...roots.map((call) => branch(app, call)));
  replace(byId("tree"), list);
  list.addEventListener("keydown", (event) => moveInTree(event, list));
}

function branch(app, call) {
  const open = () => app.goCall(call.id, app.step.way);
  const properties = { role: "treeitem", tabindex: "-1", "aria-level": call.depth + 1, "data-call": call.id };
  const node = h("li", properties, branchLabel(call, open));
  if (call.parts.length) {
    node.setAttribute("aria-expanded", "true");
    node.append(h("ul", { role: "group" }, ...call.parts.map((id) => branch(app, app.model.calls[id]))));
  }
  node.open = open;
  return node;
}

function branchLabel(call, open) {
  const type = call.kind === "layer" && call.type !== call.label ? h("small", {}, ` ${call.type}`) : null;
  const dot = h("i", { class: "dot", "aria-hidden": "true" });
  return h("span", { class: `label ${call.kind}`, onclick: open }, dot, call.label, type);
}

export function markTree(app) {
  for (const node of byId("tree").querySelectorAll("li")) markBranch(app, node, Number(node.dataset.call));
}

function markBranch(app, node, id) {
  const isCurrent = id === app.step.call.id;
  setClasses(node, { current: isCurrent, first: app.first.call === id });
  node.setAttribute("aria-selected", String(isCurrent));
  node.tabIndex = isCurrent ? 0 : -1;
  node.querySelector(".dot").style.setProperty("--size", app.sizeOf(id, app.step.way));
  if (isCurrent) keepInView(node.querySelector(".label"), byId("tree"));
}

function moveInTree(event, list) {
  const current = event.target.closest("li");
  const next = neighbourInTree(event.key, current, list);
  if (next) next.focus();
  else if (event.key === "ArrowRight" && current.hasAttribute("aria-expanded")) openBranch(current);
  else if (event.key === "ArrowLeft") closeBranch(current);
  else if (event.key === "Enter" || event.key === " ") current.open();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

// The item to which a key goes, among those in sight.
function neighbourInTree(key, current, list) {
  const isInSight = (node) => !node.parentElement.closest('[aria-expanded="false"]');
  const all = [...list.querySelectorAll("li")].filter(isInSight);
  const at = all.indexOf(current);
  return { ArrowDown: all[at + 1], ArrowUp: all[at - 1], Home: all[0], End: all[all.length - 1] }[key];
}

// Open what is closed; of what is open, go to the first part.
function openBranch(node) {
  if (node.getAttribute("aria-expanded") === "false") node.setAttribute("aria-expanded", "true");
  else node.querySelector("li").focus();
}

// Close what is open; of what is closed, or has no parts, go to the whole.
function closeBranch(node) {
  if (node.getAttribute("aria-expanded") === "true") node.setAttribute("aria-expanded", "false");
  else node.parentElement.closest("li")?.focus();
}
