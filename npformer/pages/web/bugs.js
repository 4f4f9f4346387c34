// The switch that puts one of the museum's bugs into the trace.

import { byId, h, replace } from "./dom.js";
import { long } from "./arrays.js";
import { stepOf } from "./model.js";

export function buildBugs(app) {
  const select = byId("bug");
  if (!app.model.bugs.length) {
    byId("bugs").hidden = true;
    return;
  }
  select.append(...app.model.bugs.map((bug) => h("option", { value: bug.id }, bug.title)));
  select.addEventListener("change", () => switchTo(app, select.value));
}

// The bug that the page's address asks for, page.html?bug=ID; with a step after #, the page stays there.
export function openBug(app) {
  const id = new URLSearchParams(location.search).get("bug");
  if (!app.model.bugs.some((bug) => bug.id === id)) return;
  byId("bug").value = id;
  switchTo(app, id, location.hash === "");
}

function switchTo(app, id, goes = true) {
  app.bug = app.model.bugs.find((bug) => bug.id === id) || null;
  document.documentElement.classList.toggle("bugged", Boolean(app.bug));
  if (app.bug && goes) app.go(stepOf(app.model, app.bug.first.call, app.bug.first.way).number);
  else app.redraw(null);
}

export function showBug(app) {
  const box = byId("bugtext");
  box.hidden = !app.bug;
  if (!app.bug) return replace(box);
  const { bug } = app;
  const call = app.model.calls[bug.first.call];
  const first = stepOf(app.model, bug.first.call, bug.first.way);
  const button = h("button", { type: "button", id: "gofirst", onclick: () => app.go(first.number) }, "go to the first place that differs");
  const { handed } = bug.first;
  const inner = handed !== null && handed !== call.id ? `: what it hands to ${app.model.calls[handed].label}` : "";
  const where = `${call.name || call.type}, ${bug.first.way}${inner}`;
  const ways = Object.values(bug.sizes).flatMap((sizes) => Object.values(sizes)).filter((size) => size === null || size > 0);
  const right = app.model.trace.loss;
  const both = typeof bug.loss === "number" && typeof right === "number";
  const other = both && bug.loss !== right ? ` The loss is ${long(bug.loss, 5)} instead of ${long(right, 5)}.` : "";
  const loss = both && bug.loss === right ? " The loss is the same: it shows nothing." : other;
  replace(
    box,
    h("h3", {}, bug.title),
    h("dl", {}, h("dt", {}, "right"), h("dd", {}, bug.right), h("dt", {}, "wrong"), h("dd", {}, bug.wrong)),
    h("pre", { class: "diff" }, ...bug.changed.map(([sign, text]) => h("span", { class: { "+": "plus", "-": "minus" }[sign] || "same" }, `${sign} ${text}\n`))),
    h("p", {}, `First different: ${where}. ${ways.length} of ${app.model.steps.length} steps return other numbers.${loss} `, button),
    h("details", {}, h("summary", {}, "why it is wrong, and what it does to training"), h("p", {}, bug.story)),
  );
}

// What a line of the first call that differs made with the bug, minus what it made without.
export function lineDifference(app, moment, name, array) {
  if (!app.isFirstPlace()) return null;
  const isSame = (each) => each.frame.key === moment.frame.key && each.values.some(([own]) => own === name);
  const other = app.rightRun.moments.find(isSame);
  const right = other && other.values.find(([own]) => own === name)[1];
  if (!right || right.data.length !== array.data.length) return null;
  const data = array.data.map((number, i) => number - right.data[i]);
  return data.some((number) => number !== 0) ? { ...array, data } : null;
}
