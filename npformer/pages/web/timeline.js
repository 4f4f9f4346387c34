// The timeline: a column for each step, forward then backward, with the layers as brackets above their parts.

import { byId, h, replace } from "./dom.js";

const MOST_DEPTH = 4;

export function buildTimeline(app) {
  const { steps, half } = app.model;
  const line = byId("timeline");
  line.style.setProperty("--steps", steps.length);
  const cells = steps.map((step) => {
    const cell = h("i", { class: `tick ${step.way} ${step.call.kind}`, title: `${step.call.name || step.call.type}, ${step.way}` });
    cell.style.gridColumn = `${step.number + 1}`;
    cell.style.gridRow = `${MOST_DEPTH + 1}`;
    return cell;
  });
  const brackets = steps.filter((step) => step.call.parts.length && step.call.depth < MOST_DEPTH).map((step) => bracket(app, step));
  replace(line, ...brackets, ...cells);
  app.ticks = cells;
  byId("ends").textContent = `forward 1 … ${half}, then backward ${steps.length - half} … 1`;
  const pick = (event) => {
    const box = line.getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * steps.length);
    app.go(Math.min(Math.max(at, 0), steps.length - 1));
  };
  line.addEventListener("pointerdown", (event) => {
    line.setPointerCapture(event.pointerId);
    pick(event);
  });
  line.addEventListener("pointermove", (event) => line.hasPointerCapture(event.pointerId) && pick(event));
}

// A layer's bracket spans the steps inside it and its own.
function bracket(app, step) {
  const inside = new Set([step.call.id]);
  app.model.calls.forEach((call) => inside.has(call.parent) && inside.add(call.id));
  const numbers = app.model.steps.filter((each) => each.way === step.way && inside.has(each.call.id)).map((each) => each.number);
  const first = Math.min(...numbers);
  const last = Math.max(...numbers);
  const name = last - first > 5 ? step.call.label.replace(/^layers\./, "layer ").replace(/_/g, " ") : "";
  const made = h("b", { class: `bracket ${step.way}`, title: step.call.name || step.call.type }, name);
  made.style.gridColumn = `${first + 1} / ${last + 2}`;
  made.style.gridRow = `${step.call.depth + 1}`;
  return made;
}

export function markTimeline(app) {
  const { step } = app;
  const total = app.model.steps.length;
  const number = step.way === "forward" ? step.number + 1 : total - step.number;
  app.ticks.forEach((tick, i) => {
    const each = app.model.steps[i];
    tick.classList.toggle("current", i === step.number);
    tick.classList.toggle("done", i < step.number);
    tick.classList.toggle("first", Boolean(app.bug) && app.bug.first.call === each.call.id && app.bug.first.way === each.way);
    tick.style.setProperty("--size", app.sizeOf(each.call.id, each.way));
  });
  const line = byId("timeline");
  const text = `${step.way} ${number} of ${step.way === "forward" ? app.model.half : total - app.model.half}: ${step.call.name || step.call.type}`;
  line.setAttribute("aria-valuemax", String(total));
  line.setAttribute("aria-valuenow", String(step.number + 1));
  line.setAttribute("aria-valuetext", text);
  byId("where").textContent = `step ${step.number + 1} of ${total} · ${step.way} ${number}`;
  byId("live").textContent = text;
}
