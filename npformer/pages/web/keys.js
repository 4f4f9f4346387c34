// The keys: through the steps and lines, and from number to number inside an array.

import { byId } from "./dom.js";

export function onKey(app, event) {
  if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.target.closest("dialog")) return;
  const isCell = event.target.matches("td[role=gridcell]");
  if (isCell && moveInGrid(app, event)) return event.preventDefault();
  const actions = {
    ArrowRight: () => app.go(app.step.number + 1),
    ArrowLeft: () => app.go(app.step.number - 1),
    ArrowDown: () => app.goMoment(app.moment + 1),
    ArrowUp: () => app.goMoment(app.moment - 1),
    Home: () => app.go(0),
    End: () => app.go(app.model.steps.length - 1),
    l: () => app.go(app.model.half),
    " ": () => app.play(),
    p: () => byId("predict").click(),
    b: () => byId("bug").focus(),
    "?": () => byId("help").showModal(),
    Escape: () => app.unpin(),
  };
  if (event.key === " " && event.target.closest("button, summary")) return;
  if (actions[event.key]) {
    actions[event.key]();
    event.preventDefault();
  }
}

function moveInGrid(app, event) {
  const cell = event.target;
  const row = cell.parentElement;
  const cells = [...row.querySelectorAll("td[role=gridcell]")];
  const at = cells.indexOf(cell);
  const rows = [...row.parentElement.children].filter((each) => each.querySelector("td[role=gridcell]"));
  const beside = (by) => rows[rows.indexOf(row) + by]?.querySelectorAll("td[role=gridcell]")[at];
  const to = { ArrowRight: cells[at + 1], ArrowLeft: cells[at - 1], ArrowDown: beside(1), ArrowUp: beside(-1) };
  if (event.key === "Enter") {
    app.pin(cell, false);
    if (app.predict) byId("guess")?.focus();
    return true;
  }
  if (event.key === "Escape") {
    app.unpin();
    byId("timeline").focus();
    return true;
  }
  if (!(event.key in to)) return false;
  if (to[event.key]) {
    cell.tabIndex = -1;
    to[event.key].tabIndex = 0;
    to[event.key].focus();
  }
  return true;
}
