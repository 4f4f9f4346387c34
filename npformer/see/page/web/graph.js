// The operations as a drawn graph: numbers go down its lines in the forward pass, gradients come up in the backward.

import { byId, keepInView, replace, setClasses, svg } from "./dom.js";
import { insideOf, stepOf, wholeName } from "./model.js";

const WIDE = 108;
const HIGH = 20;
const DOWN = 31;
const GAP = 14;
const SIDE = 16;
const MOST_LETTERS = 17;

export function buildGraph(app) {
  const places = layout(app.model);
  const edges = app.model.flows.edges.map(([from, to]) => edgeBetween(from, to, places));
  const nodes = [...places].map(([id, place]) => nodeOf(app, id, centreOf(place)));
  const picture = emptyGraph([...places.values()]);
  picture.append(svg("g", {}, ...edges), svg("g", {}, ...nodes));
  replace(byId("graph"), picture);
  app.graph = { edges, nodes };
}

function emptyGraph(places) {
  const columns = Math.max(0, ...places.map((place) => place.column)) + 1;
  const rows = Math.max(0, ...places.map((place) => place.row)) + 1;
  const width = 2 * SIDE + columns * WIDE + (columns - 1) * GAP;
  const height = rows * DOWN + 8;
  const name = "graph of the operations, in the order of the forward pass from top to bottom";
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name });
}

// Each operation below all that it reads from; under the maker of its first input, if that place is free.
function layout(model) {
  const places = new Map();
  const taken = new Set();
  let columns = 0;
  for (const call of model.calls.filter((part) => !part.parts.length)) {
    const above = makersOf(model, call).map((id) => places.get(id));
    const row = Math.max(-1, ...above.map((place) => place.row)) + 1;
    let column = above.length ? above[0].column : columns;
    while (taken.has(`${column}.${row}`)) column++;
    columns = Math.max(columns, column + 1);
    taken.add(`${column}.${row}`);
    places.set(call.id, { row, column });
  }
  return places;
}

// The operations that made what a call reads, in the order of its inputs.
function makersOf(model, call) {
  const edges = model.flows.edges.filter(([, to]) => to === call.id);
  return edges.sort((a, b) => a[2] - b[2]).map(([from]) => from);
}

function centreOf(place) {
  return [SIDE + place.column * (WIDE + GAP) + WIDE / 2, 4 + place.row * DOWN + HIGH / 2];
}

function edgeBetween(from, to, places) {
  const line = svg("path", { class: "edge", d: curve(places.get(from), places.get(to)) });
  line.ends = [from, to];
  return line;
}

function curve(from, to) {
  const [x1, y1] = centreOf(from);
  const [x2, y2] = centreOf(to);
  const [top, bottom] = [y1 + HIGH / 2, y2 - HIGH / 2];
  if (from.column !== to.column) return `M${x1} ${top}C${x1} ${top + 16} ${x2} ${bottom - 16} ${x2} ${bottom}`;
  return to.row === from.row + 1 ? `M${x1} ${top}V${bottom}` : pastOthers(x1 - WIDE / 2, y1, y2);
}

// From one left edge to another, around the operations in between.
function pastOthers(x, y1, y2) {
  const side = x - 12;
  const out = `C${side} ${y1} ${side} ${y1 + 8} ${side} ${y1 + 14}`;
  const back = `C${side} ${y2 - 8} ${side} ${y2} ${x} ${y2}`;
  return `M${x} ${y1}${out}V${y2 - 14}${back}`;
}

function nodeOf(app, id, [x, y]) {
  const call = app.model.calls[id];
  const box = svg("rect", { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 5 });
  const text = svg("text", { x, y: y + 4, "text-anchor": "middle" }, shortened(call.type.replace(/_/g, " ")));
  const onclick = () => app.goCall(id, app.step.way);
  const node = svg("g", { class: "node", onclick }, svg("title", {}, wholeName(call)), box, text);
  node.call = id;
  return node;
}

function shortened(text) {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
}

export function markGraph(app) {
  const inside = insideOf(app.model, app.step.call);
  for (const node of app.graph.nodes) markNode(app, node, inside);
  for (const edge of app.graph.edges) markEdge(app.step.way, edge, inside);
}

function markNode(app, node, inside) {
  const { way, call, number } = app.step;
  const isCurrent = node.call === call.id;
  const step = stepOf(app.model, node.call, way);
  setClasses(node, {
    current: isCurrent,
    inside: inside.has(node.call) && !isCurrent,
    done: Boolean(step) && step.number < number,
    backward: way === "backward",
    first: app.first.call === node.call,
  });
  node.style.setProperty("--size", app.sizeOf(node.call, way));
  if (isCurrent) keepInView(node, byId("graph"));
}

function markEdge(way, edge, inside) {
  const [from, to] = way === "forward" ? edge.ends : [...edge.ends].reverse();
  setClasses(edge, {
    arrives: inside.has(to) && !inside.has(from),
    leaves: inside.has(from) && !inside.has(to),
    backward: way === "backward",
  });
}
