// The keys: through the steps and lines, and from number to number inside an array.

import { byId } from "./dom.js";

const CELL = "td[role=gridcell]";
const ACTIONS = {
  ArrowRight: (app) => app.goBy(1),
  ArrowLeft: (app) => app.goBy(-1),
  ArrowDown: (app) => app.goDown(),
  ArrowUp: (app) => app.goMoment(app.moment - 1),
  Home: (app) => app.go(0),
  End: (app) => app.go(app.model.steps.length - 1),
  l: (app) => app.go(app.model.half),
  " ": (app) => app.play(),
  p: () => byId("predict").click(),
  o: () => byId("operations").click(),
  b: () => byId("bug").focus(),
  "?": () => byId("help").showModal(),
  Escape: letGo,
};

export function onKey(app, event) {
  if (isForOthers(event)) return;
  const isDone = event.target.matches(CELL) && onKeyInGrid(app, event);
  const action = ACTIONS[event.key];
  if (!isDone && !action) return;
  if (!isDone) action(app);
  event.preventDefault();
}

// Keys of the browser, of a field, of a dialog, or of a button.
function isForOthers({ key, target, altKey, ctrlKey, metaKey }) {
  if (altKey || ctrlKey || metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return true;
  const others = key === " " ? "dialog, button, summary" : "dialog";
  return Boolean(target.closest(others));
}

// Whether the key was one for numbers.
function onKeyInGrid(app, { key, target }) {
  if (key === "Enter") keep(app, target);
  else if (key === "Escape") letGo(app);
  else if (key.startsWith("Arrow")) moveTo(neighbours(target)[key], target);
  else return false;
  return true;
}

function keep(app, cell) {
  app.pin(cell, false);
  if (app.predict) byId("guess")?.focus();
}

function letGo(app) {
  app.unpin();
  byId("timeline").focus();
}

// The cells beside a cell, by the key that goes there; some are undefined.
function neighbours(cell) {
  const row = cell.parentElement;
  const cells = [...row.querySelectorAll(CELL)];
  const rows = [...row.parentElement.children].filter((tableRow) => tableRow.querySelector(CELL));
  const at = cells.indexOf(cell);
  const beside = (by) => rows[rows.indexOf(row) + by]?.querySelectorAll(CELL)[at];
  return { ArrowRight: cells[at + 1], ArrowLeft: cells[at - 1], ArrowDown: beside(1), ArrowUp: beside(-1) };
}

function moveTo(next, cell) {
  if (!next) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
