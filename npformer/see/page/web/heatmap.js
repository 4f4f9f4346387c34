// One array as a table of coloured numbers: red above zero, blue below, the stronger the farther from it.

import { brief, entryAt, entryName, largest, powerOf, powerText, short, unravel } from "./arrays.js";
import { h, quiet } from "./dom.js";
import { picture, tiles } from "./picture.js";

// Arrays with more numbers, or more columns, are shown as pictures.
const MOST_NUMBERS = 640;
const MOST_COLUMNS = 24;

// spec: {call, what, name, array, note, labels, difference, hides}; what says which of the call's arrays it is.
export function card(spec) {
  const array = spec.difference || spec.array;
  const shown = { ...array, most: largest(array), power: powerOf(array) };
  const { leftOut, shape } = spec.array;
  const blocks = (leftOut ? rowsOf(spec.array) : blocksOf(spec.array)).map((block) => blockBox(spec, shown, block));
  const said = leftOut ? leftOutText(leftOut) : null;
  const figure = h("figure", { class: "card" }, captionOf(spec, shown.power), said, blocksBox(shape, blocks));
  figure.spec = spec;
  if (spec.difference) figure.classList.add("differs");
  figure.querySelector("td[role=gridcell]")?.setAttribute("tabindex", "0");
  return figure;
}

// The rows of an array that is left out which are on the page.
function rowsOf({ shape, leftOut }) {
  const columns = shape[shape.length - 1];
  const starts = Object.keys(leftOut.rows).map(Number);
  return starts.map((start) => ({ rows: 1, columns, start, label: `row ${start / columns}`, sequence: 0 }));
}

function leftOutText({ mean, deviation, largest: most }) {
  const [centre, spread, size] = [mean, deviation, most].map((number) => brief(number ?? NaN));
  const statistics = `mean ${centre}, standard deviation ${spread}, largest size ${size}.`;
  return quiet(`Its numbers are not on this page: ${statistics} npformer explain … --at NAME[INDEX] shows one.`);
}

function captionOf({ name, array, note, difference }, power) {
  const { shape } = array;
  return h(
    "figcaption",
    {},
    h("b", {}, name),
    h("span", { class: "shape" }, shape.length ? `(${shape.join(", ")})` : "a number"),
    power ? h("span", { class: "power" }, powerText(power)) : null,
    note ? h("span", { class: "note" }, note) : null,
    difference ? h("span", { class: "badge" }, "wrong − right") : null,
  );
}

// Narrow ones stand side by side: all heads of a sequence in one row.
function blocksBox(shape, blocks) {
  const isNarrow = shape.length === 4 && shape[1] * shape[3] <= 10;
  return h("div", { class: isNarrow ? "blocks heads" : "blocks", vars: { "--heads": shape[1] || 1 } }, ...blocks);
}

// The two-dimensional parts of an array, with the index of their first number.
function blocksOf({ shape, data }) {
  const [rows, columns] = [1, 1, ...shape].slice(-2);
  const size = Math.max(1, rows * columns);
  const count = data.length / size;
  const sequenceOf = (i) => (shape.length > 2 ? Math.floor((i * shape[0]) / count) : 0);
  const blockAt = (_, i) => ({ rows, columns, start: i * size, label: blockLabel(shape, i), sequence: sequenceOf(i) });
  return Array.from({ length: count }, blockAt);
}

function blockLabel(shape, i) {
  const outer = shape.slice(0, -2);
  const names = outer.length > 2 ? [] : ["batch", "head"];
  return unravel(i, outer)
    .map((place, axis) => (outer[axis] > 1 ? `${names[axis] || `axis ${axis}`} ${place}` : ""))
    .filter(Boolean)
    .join(", ");
}

function blockBox(spec, shown, block) {
  const name = block.label ? `${spec.name}, ${block.label}` : spec.name;
  const isLarge = spec.array.data.length > MOST_NUMBERS || block.columns > MOST_COLUMNS;
  const body = isLarge ? picture(spec, shown, block, name) : grid(spec, shown, block, name);
  return block.label ? h("div", { class: "block" }, h("div", { class: "blocklabel" }, block.label), body) : body;
}

// Labels of one sequence of the batch, which is the first axis; of a two-dimensional array those of the whole.
function labelsAt(labels, block) {
  return (labels && labels[block.sequence]) || null;
}

function grid(spec, shown, block, name) {
  const rowLabels = labelsAt(spec.labels?.rows, block);
  const lines = Array.from({ length: block.rows }, (_, row) => {
    const start = block.start + row * block.columns;
    const cells = Array.from({ length: block.columns }, (__, column) => cell(spec, shown, start + column));
    return h("tr", {}, rowLabels && h("th", { scope: "row" }, rowLabels[row]), ...cells);
  });
  const head = gridHead(labelsAt(spec.labels?.columns, block), rowLabels);
  const wide = block.columns > 8 ? "grid wide" : "grid";
  return h("table", { class: wide, role: "grid", "aria-label": name }, h("tbody", {}, head, ...lines));
}

function gridHead(labels, rowLabels) {
  if (!labels) return null;
  const heads = labels.map((label) => h("th", { scope: "col" }, label));
  return h("tr", {}, rowLabels && h("td", { class: "corner" }), ...heads);
}

function cell(spec, shown, flat) {
  const td = h("td", { role: "gridcell", tabindex: "-1" });
  td.entry = entryAt(spec, flat);
  const name = entryName(spec.name, flat, spec.array.shape);
  if (spec.hides && spec.hides(flat)) {
    td.className = "hidden";
    td.textContent = "?";
    td.setAttribute("aria-label", `${name}: hidden, press Enter to predict it`);
  } else {
    paint(td, shown, shown.data[flat], spec.labels?.cells?.[flat]);
    td.setAttribute("aria-label", `${name} = ${td.textContent} ${powerText(shown.power)}`.trim());
  }
  return td;
}

// token: what an id stands for.
function paint(td, shown, number, token) {
  const hasStrength = shown.kind === "f" && shown.most > 0 && Number.isFinite(number);
  const strength = hasStrength ? Math.abs(number) / shown.most : 0;
  td.className = colourClass(number, shown.kind);
  td.style.setProperty("--t", `${(100 * strength).toFixed(1)}%`);
  td.textContent = short(number * 10 ** shown.power, shown.kind) + (token === undefined ? "" : ` ${token}`);
}

function colourClass(number, kind) {
  if (!Number.isFinite(number)) return "broken";
  if (kind !== "f") return "id";
  if (number === 0) return "zero";
  return number > 0 ? "pos" : "neg";
}

// The array without numbers, if it is small.
export function thumbnail(array) {
  const blocks = blocksOf(array);
  const isSmall = array.data.length > 0 && array.data.length <= 144 && blocks[0].rows <= 12;
  return isSmall && array.kind === "f" ? tiles(array, blocks, largest(array)) : null;
}
