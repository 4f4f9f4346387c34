// The timeline: a column for each step, forward then backward, with the layers as brackets above their parts.

import { byId, h, replace, setClasses } from "./dom.js";
import { insideOf, wholeName } from "./model.js";

const MOST_DEPTH = 4;
const LEAST_NAMED = 6; // a shorter bracket has no room for its name

export function buildTimeline(app) {
  const { steps, half } = app.model;
  const line = byId("timeline");
  const isLayer = ({ call }) => call.parts.length && call.depth < MOST_DEPTH;
  line.style.setProperty("--steps", steps.length);
  app.ticks = steps.map(tickOf);
  replace(line, ...steps.filter(isLayer).map((step) => bracketOf(app.model, step)), ...app.ticks);
  byId("ends").textContent = `forward 1 … ${half}, then backward ${steps.length - half} … 1`;
  listenToLine(app, line);
}

function tickOf({ call, way, number }) {
  const tick = h("i", { class: `tick ${way} ${call.kind}`, title: `${wholeName(call)}, ${way}` });
  return placed(tick, `${number + 1}`, MOST_DEPTH + 1);
}

// A layer's bracket spans the steps inside it and its own.
function bracketOf(model, { call, way }) {
  const inside = insideOf(model, call);
  const numbers = model.steps.filter((step) => step.way === way && inside.has(step.call.id)).map((step) => step.number);
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  const name = last - first < LEAST_NAMED ? "" : call.label.replace(/^layers\./, "layer ").replace(/_/g, " ");
  const bracket = h("b", { class: `bracket ${way}`, title: wholeName(call) }, name);
  return placed(bracket, `${first + 1} / ${last + 2}`, call.depth + 1);
}

function placed(element, column, row) {
  element.style.gridColumn = column;
  element.style.gridRow = `${row}`;
  return element;
}

// Pressing and dragging go to the step under the pointer.
function listenToLine(app, line) {
  const { length } = app.model.steps;
  const goUnder = (event) => {
    const box = line.getBoundingClientRect();
    const number = Math.floor(((event.clientX - box.left) / box.width) * length);
    app.go(Math.min(Math.max(number, 0), length - 1));
  };
  line.addEventListener("pointerdown", (event) => {
    line.setPointerCapture(event.pointerId);
    goUnder(event);
  });
  line.addEventListener("pointermove", (event) => line.hasPointerCapture(event.pointerId) && goUnder(event));
}

export function markTimeline(app) {
  app.ticks.forEach((tick, i) => markTick(app, tick, app.model.steps[i]));
  const { way, call, number } = app.step;
  const { steps, half } = app.model;
  const [done, all] = way === "forward" ? [number + 1, half] : [steps.length - number, steps.length - half];
  const text = `${way} ${done} of ${all}: ${wholeName(call)}`;
  const line = byId("timeline");
  line.setAttribute("aria-valuemax", String(steps.length));
  line.setAttribute("aria-valuenow", String(number + 1));
  line.setAttribute("aria-valuetext", text);
  byId("where").textContent = `step ${number + 1} of ${steps.length} · ${way} ${done}`;
  byId("live").textContent = text;
}

function markTick(app, tick, { call, way, number }) {
  setClasses(tick, {
    current: number === app.step.number,
    done: number < app.step.number,
    first: app.first.call === call.id && app.first.way === way,
  });
  tick.style.setProperty("--size", app.sizeOf(call.id, way));
}
