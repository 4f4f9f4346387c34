// The switch that puts one of the museum's bugs into the trace.

import { largest, long } from "./arrays.js";
import { byId, h, replace } from "./dom.js";
import { arrayOf, stepOf, wholeName } from "./model.js";

export function buildBugs(app) {
  const select = byId("bug");
  byId("bugs").hidden = !app.model.bugs.length;
  select.append(...app.model.bugs.map((bug) => h("option", { value: bug.id }, bug.title)));
  select.addEventListener("change", () => {
    switchTo(app, select.value);
    byId("timeline").focus(); // the arrow keys step again
  });
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
  judgeBug(app);
  if (app.bug && goes) app.go(firstStep(app).number);
  else app.redraw(null);
}

// How many of the operations' gradients the bug makes wrong, beside the verdict on the right code.
function judgeBug(app) {
  const box = byId("bugverdict");
  box.hidden = !app.bug;
  byId("verdict").hidden = Boolean(app.bug);
  if (!app.bug) return;
  let [wrong, total] = [0, 0];
  for (const { id, gradients } of app.model.calls.filter(({ kind }) => kind === "operation"))
    for (const { name, value } of gradients) {
      const right = arrayOf(app.model, value);
      if (!right) continue;
      wrong += countWrong(app.differenceOf({ call: id, what: "gradients", name }), right);
      total += right.data.length;
    }
  box.textContent = `✗ ${wrong} of ${total} gradients wrong`;
}

function countWrong(difference, right) {
  const least = 1e-9 * largest(right);
  return difference ? difference.data.filter((number) => !(Math.abs(number) <= least)).length : 0;
}

function firstStep(app) {
  return stepOf(app.model, app.first.call, app.first.way);
}

export function showBug(app) {
  const box = byId("bugtext");
  box.hidden = !app.bug;
  replace(box, ...(app.bug ? aboutBug(app, app.bug) : []));
}

function aboutBug(app, bug) {
  const onclick = () => app.go(firstStep(app).number);
  const go = h("button", { type: "button", id: "gofirst", onclick }, "go to the first place that differs");
  return [
    h("h3", {}, bug.title),
    h("dl", {}, h("dt", {}, "right"), h("dd", {}, bug.right), h("dt", {}, "wrong"), h("dd", {}, bug.wrong)),
    h("pre", { class: "diff" }, ...bug.changed.map(changedLine)),
    h("p", {}, `First different: ${firstPlace(app)}. ${howFar(app)}${lossText(app)} `, go),
    h("details", {}, h("summary", {}, "why it is wrong, and what it does to training"), h("p", {}, bug.story)),
  ];
}

function changedLine([sign, text]) {
  return h("span", { class: { "+": "plus", "-": "minus" }[sign] || "same" }, `${sign} ${text}\n`);
}

function firstPlace(app) {
  const { call: id, way, handed } = app.first;
  const call = app.model.calls[id];
  const inner = handed !== null && handed !== id ? `: what it hands to ${app.model.calls[handed].label}` : "";
  return `${wholeName(call)}, ${way}${inner}`;
}

function howFar(app) {
  const sizes = Object.values(app.bug.sizes).flatMap((ways) => Object.values(ways));
  const count = sizes.filter((size) => size === null || size > 0).length;
  return `${count} of ${app.model.steps.length} steps return other numbers.`;
}

function lossText(app) {
  const [wrong, right] = [app.bug.loss, app.model.trace.loss];
  if (typeof wrong !== "number" || typeof right !== "number") return "";
  if (wrong === right) return " The loss is the same: it shows nothing.";
  return ` The loss is ${long(wrong, 5)} instead of ${long(right, 5)}.`;
}

// What a line of the first call that differs made with the bug, minus what it made without.
export function lineDifference(app, moment, name, array) {
  if (!app.isFirstPlace()) return null;
  const valueIn = (one) => one.values.find(([valueName]) => valueName === name);
  const other = app.rightRun.moments.find((one) => one.frame.key === moment.frame.key && valueIn(one));
  const [, right] = other ? valueIn(other) : [];
  if (!right || right.data.length !== array.data.length) return null;
  const data = array.data.map((number, i) => number - right.data[i]);
  return data.some((number) => number !== 0) ? { ...array, data } : null;
}
