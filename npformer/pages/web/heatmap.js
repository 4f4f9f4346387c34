// One array as a table of coloured numbers: red above zero, blue below, the stronger the farther from it.

import { entryName, largest, powerOf, powerText, short, unravel } from "./arrays.js";
import { h } from "./dom.js";
import { picture, tiles } from "./picture.js";

// Arrays with more numbers, or more columns, are shown as pictures.
const MOST_NUMBERS = 640;
const MOST_COLUMNS = 24;

// spec: {call, what, name, array, title, note, labels, difference, hides}; what says which of the call's arrays it is.
export function card(spec) {
  const { array } = spec;
  const shown = spec.difference || array;
  const most = largest(shown);
  const power = powerOf(shown);
  const shape = array.shape.length ? `(${array.shape.join(", ")})` : "a number";
  const caption = h(
    "figcaption",
    {},
    h("b", {}, spec.title || spec.name),
    h("span", { class: "shape" }, shape),
    power ? h("span", { class: "power" }, powerText(power)) : null,
    spec.note ? h("span", { class: "note" }, spec.note) : null,
    spec.difference ? h("span", { class: "badge" }, "wrong − right") : null,
  );
  const blocks = blocksOf(array).map((block, i) => table(spec, { ...shown, most, power }, block, i === 0));
  const isNarrow = array.shape.length === 4 && array.shape[1] * array.shape[3] <= 10; // all heads of a sequence in one row
  const figure = h("figure", { class: "card" }, caption, h("div", { class: isNarrow ? "blocks heads" : "blocks", vars: { "--heads": array.shape[1] || 1 } }, ...blocks));
  figure.spec = spec;
  if (spec.difference) figure.classList.add("differs");
  return figure;
}

// The two-dimensional parts of an array, with the index of their first number.
function blocksOf(array) {
  const { shape } = array;
  const columns = shape.length ? shape[shape.length - 1] : 1;
  const rows = shape.length > 1 ? shape[shape.length - 2] : 1;
  const size = Math.max(1, rows * columns);
  const count = array.data.length / size;
  return Array.from({ length: count }, (_, i) => ({ rows, columns, start: i * size, label: blockLabel(shape, i), batch: batchOf(shape, i, count) }));
}

function batchOf(shape, i, count) {
  return shape.length > 2 ? Math.floor((i * shape[0]) / count) : 0;
}

function blockLabel(shape, i) {
  const outer = shape.slice(0, -2);
  const index = unravel(i, outer);
  const names = outer.length === 2 ? ["batch", "head"] : outer.length === 1 ? ["batch"] : [];
  return index
    .map((place, axis) => (outer[axis] > 1 ? `${names[axis] || "axis " + axis} ${place}` : ""))
    .filter(Boolean)
    .join(", ");
}

// Labels of one sequence of the batch, which is the first axis; of two-dimensional arrays, where it is the rows, none.
function labelsAt(labels, block) {
  return labels && labels[block.batch] ? labels[block.batch] : null;
}

function table(spec, shown, block, isFirst) {
  const rowLabels = labelsAt(spec.labels && spec.labels.rows, block);
  const columnLabels = labelsAt(spec.labels && spec.labels.columns, block);
  const name = `${spec.title || spec.name}${block.label ? `, ${block.label}` : ""}`;
  if (spec.array.data.length > MOST_NUMBERS || block.columns > MOST_COLUMNS) return labelled(block, picture(spec, shown, block, name));
  const lines = [];
  if (columnLabels) {
    const heads = columnLabels.map((label) => h("th", { scope: "col" }, label));
    lines.push(h("tr", {}, rowLabels ? h("td", { class: "corner" }) : null, ...heads));
  }
  for (let row = 0; row < block.rows; row++) {
    const line = h("tr", {}, rowLabels ? h("th", { scope: "row" }, rowLabels[row]) : null);
    for (let column = 0; column < block.columns; column++) {
      const flat = block.start + row * block.columns + column;
      line.append(cell(spec, shown, flat, isFirst && row === 0 && column === 0));
    }
    lines.push(line);
  }
  const wide = block.columns > 8 ? "grid wide" : "grid";
  const body = h("table", { class: wide, role: "grid", "aria-label": name }, h("tbody", {}, ...lines));
  return labelled(block, body);
}

function labelled(block, body) {
  return block.label ? h("div", { class: "block" }, h("div", { class: "blocklabel" }, block.label), body) : body;
}

function cell(spec, shown, flat, isFirst) {
  const made = h("td", { role: "gridcell", tabindex: isFirst ? "0" : "-1" });
  made.entry = { call: spec.call, what: spec.what, name: spec.name, flat, array: spec.array };
  paint(made, spec, shown, flat);
  return made;
}

function paint(made, spec, shown, flat) {
  const number = shown.data[flat];
  const name = entryName(spec.title || spec.name, flat, spec.array.shape);
  if (spec.hides && spec.hides(flat)) {
    made.className = "hidden";
    made.textContent = "?";
    made.setAttribute("aria-label", `${name}: hidden, press Enter to predict it`);
    return;
  }
  const strength = shown.kind === "f" && shown.most > 0 && Number.isFinite(number) ? Math.abs(number) / shown.most : 0;
  const sign = number > 0 ? "pos" : number < 0 ? "neg" : "zero";
  made.className = shown.kind === "f" ? sign : "id";
  if (!Number.isFinite(number)) made.className = "broken";
  if (strength > 0.55) made.classList.add("strong");
  made.style.setProperty("--t", `${(100 * strength).toFixed(1)}%`);
  const token = spec.labels && spec.labels.cells ? ` ${spec.labels.cells[flat]}` : "";
  made.textContent = short(number * 10 ** shown.power, shown.kind) + token;
  made.setAttribute("aria-label", `${name} = ${short(number, shown.kind)}`);
}

// The array without numbers, if it is small.
export function thumbnail(array) {
  const blocks = blocksOf(array);
  const isSmall = array.data.length > 0 && array.data.length <= 144 && blocks[0].rows <= 12;
  return isSmall && array.kind === "f" ? tiles(array, blocks, largest(array)) : null;
}
