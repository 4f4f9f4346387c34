// The operations as a drawn graph: numbers go down its lines in the forward pass, gradients come up in the backward.

import { byId, replace, svg } from "./dom.js";
import { stepOf } from "./model.js";
import { keepInView } from "./source.js";

const WIDE = 108;
const HIGH = 20;
const DOWN = 31;
const GAP = 14;
const SIDE = 16;

export function buildGraph(app) {
  const places = layout(app.model);
  const columns = Math.max(0, ...[...places.values()].map((place) => place.column)) + 1;
  const rows = Math.max(0, ...[...places.values()].map((place) => place.row)) + 1;
  const width = 2 * SIDE + columns * WIDE + (columns - 1) * GAP;
  const height = rows * DOWN + 8;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "graph of the operations, in the order of the forward pass from top to bottom" });
  const edges = app.model.flows.edges.map(([from, to]) => {
    const line = svg("path", { class: "edge", d: curve(places.get(from), places.get(to)) });
    line.ends = [from, to];
    return line;
  });
  const nodes = [...places].map(([id, place]) => node(app, id, place));
  picture.append(svg("g", {}, ...edges), svg("g", {}, ...nodes));
  replace(byId("graph"), picture);
  app.graph = { edges, nodes };
}

// Each operation below all that it reads from; under the maker of its first input, if that place is free.
function layout(model) {
  const leaves = model.calls.filter((call) => !call.parts.length);
  const places = new Map();
  const taken = new Set();
  let columns = 0;
  for (const call of leaves) {
    const edges = model.flows.edges.filter((edge) => edge[1] === call.id).sort((a, b) => a[2] - b[2]);
    const before = edges.map((edge) => places.get(edge[0]));
    const row = Math.max(-1, ...before.map((place) => place.row)) + 1;
    const wanted = before.length ? before[0].column : columns++;
    let column = wanted;
    while (taken.has(`${column}.${row}`)) column++;
    columns = Math.max(columns, column + 1);
    taken.add(`${column}.${row}`);
    places.set(call.id, { row, column });
  }
  return places;
}

function middle(place) {
  return [SIDE + place.column * (WIDE + GAP) + WIDE / 2, 4 + place.row * DOWN + HIGH / 2];
}

function curve(from, to) {
  const [x1, y1] = middle(from);
  const [x2, y2] = middle(to);
  const [top, bottom] = [y1 + HIGH / 2, y2 - HIGH / 2];
  if (from.column === to.column && to.row === from.row + 1) return `M${x1} ${top}V${bottom}`;
  if (from.column === to.column) {
    const side = x1 - WIDE / 2 - 12;
    return `M${x1 - WIDE / 2} ${y1}C${side} ${y1} ${side} ${y1 + 8} ${side} ${y1 + 14}V${y2 - 14}C${side} ${y2 - 8} ${side} ${y2} ${x2 - WIDE / 2} ${y2}`;
  }
  return `M${x1} ${top}C${x1} ${top + 16} ${x2} ${bottom - 16} ${x2} ${bottom}`;
}

function node(app, id, place) {
  const call = app.model.calls[id];
  const [x, y] = middle(place);
  const open = () => {
    const step = stepOf(app.model, id, app.step.way) || stepOf(app.model, id, "forward");
    app.go(step.number);
  };
  const text = call.type.replace(/_/g, " ");
  const box = svg("rect", { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 5 });
  const made = svg("g", { class: "node", onclick: open }, svg("title", {}, call.name || call.type), box, svg("text", { x, y: y + 4, "text-anchor": "middle" }, text.length > 17 ? `${text.slice(0, 16)}…` : text));
  made.call = id;
  return made;
}

export function markGraph(app) {
  const { step } = app;
  const inside = new Set([step.call.id]);
  app.model.calls.forEach((call) => inside.has(call.parent) && inside.add(call.id));
  for (const each of app.graph.nodes) {
    const other = stepOf(app.model, each.call, step.way);
    each.classList.toggle("current", each.call === step.call.id);
    each.classList.toggle("inside", inside.has(each.call) && each.call !== step.call.id);
    each.classList.toggle("done", Boolean(other) && other.number < step.number);
    each.classList.toggle("backward", step.way === "backward");
    each.classList.toggle("first", Boolean(app.bug) && app.bug.first.call === each.call);
    each.style.setProperty("--size", app.sizeOf(each.call, step.way));
    if (each.call === step.call.id) keepInView(each, byId("graph"));
  }
  for (const edge of app.graph.edges) {
    const [from, to] = edge.ends;
    const arrives = step.way === "forward" ? inside.has(to) && !inside.has(from) : inside.has(from) && !inside.has(to);
    const leaves = step.way === "forward" ? inside.has(from) && !inside.has(to) : inside.has(to) && !inside.has(from);
    edge.classList.toggle("arrives", arrives);
    edge.classList.toggle("leaves", leaves);
    edge.classList.toggle("backward", step.way === "backward");
  }
}
