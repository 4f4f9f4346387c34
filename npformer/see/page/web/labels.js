// Which tokens an array's rows and columns are.

import { unravel } from "./arrays.js";

const OF_SOURCE = /^(src|source|encoder)/;
const OF_TARGET = /^(tgt|target|decoder|generator|loss)/;
const OF_SCORES = /weight|score|drop|visible|shifted|power|^y$|^softmax/;

// Whether rows are tokens of the source or of the target: those of `call.`, of all that a call reads and makes, and
// those of `call.input`, where they are known by themselves.
export function sidesOf(model) {
  const sides = new Map();
  const { tokens } = model.trace;
  if (!tokens) return sides;
  for (const call of model.calls) {
    const side = sideByName(call, tokens);
    if (side) sides.set(`${call.id}.`, side);
  }
  followSource(model, sides);
  followMemory(model, sides);
  nameInputsOfLayers(model, sides);
  return sides;
}

function sideByName(call, tokens) {
  if (!tokens.source) return "target_in";
  if (!tokens.target_in) return "source";
  if (OF_SOURCE.test(call.name)) return "source";
  return OF_TARGET.test(call.name) ? "target_in" : null;
}

// The input that a use's gradient belongs to.
function inputOf(use) {
  return `${use.call}.${use.gradient.slice(1)}`;
}

// What an operation of the source makes is of the source, whoever reads it.
function followSource(model, sides) {
  for (const call of model.calls) {
    const side = sides.get(`${call.id}.`);
    if (!side || call.parts.length || !OF_SOURCE.test(call.name)) continue;
    for (const use of Object.values(call.uses).flat()) sides.set(inputOf(use), side);
  }
}

// An operation that reads the memory alone makes keys and values of it, so its rows are tokens of the source, too.
function followMemory(model, sides) {
  for (const call of model.calls) {
    const data = call.inputs.filter((entry) => model.arrays.has(entry.value) && !call.params[entry.name]);
    const side = data.length === 1 ? sides.get(`${call.id}.${data[0].name}`) : undefined;
    if (!side) continue;
    sides.set(`${call.id}.`, side);
    for (const use of call.uses["upstream.dy"] || []) sides.set(inputOf(use), side);
  }
}

// An input of a layer is what the first of its parts that reads it says.
function nameInputsOfLayers(model, sides) {
  const start = "gradients.d";
  for (const call of model.calls.filter((layer) => layer.parts.length)) {
    for (const [target, [use]] of Object.entries(call.uses)) {
      const side = use && (sides.get(inputOf(use)) || sides.get(`${use.call}.`));
      if (target.startsWith("gradients.") && side) sides.set(`${call.id}.${target.slice(start.length)}`, side);
    }
  }
}

// Whether a call is the loss of the whole trace.
export function isLoss(call) {
  return call.type === "cross_entropy" && call.parent === null;
}

// What each id is called; and the arrays that have a column for each.
export function piecesOf(model) {
  const { tokens } = model.trace;
  const loss = model.calls.find(isLoss);
  const names = tokens?.pieces?.[0];
  if (!loss || !names) return null;
  const logits = model.arrays.get(loss.inputs[0].value);
  const arrays = new Set([logits.name, ...loss.gradients.map((entry) => entry.value)]);
  return { names, arrays, rows: tokens.target_in || tokens.source, loss: loss.id };
}

// Labels of an array's rows and columns, where they are tokens: for each sequence of the batch a list, or null.
export function labelsOf(model, call, name, array) {
  const { tokens } = model.trace;
  if (!tokens || array.shape.length < 2) return { rows: null, columns: null };
  const classes = classesOf(model, call, array) || tableLabels(model, call, name, array);
  if (classes) return classes;
  const bare = name.replace(/^d(?=.)/, "").split(/[.[]/)[0];
  return array.shape.length === 2 ? idLabels(model, call, bare, array) : tokenLabels(model, call, bare, array);
}

// Logits, and what else has a column for each class.
function classesOf(model, call, array) {
  const { pieces } = model;
  const isOne = pieces && array.shape.length === 3 && array.shape[2] === pieces.names.length;
  if (!isOne || !(pieces.arrays.has(array.name) || call.id === pieces.loss)) return null;
  const columns = Array.from({ length: array.shape[0] }, () => pieces.names);
  const rows = pieces.rows && pieces.rows[0].length === array.shape[1] ? pieces.rows : null;
  return { rows, columns };
}

// The tokens at one entry, in words.
export function tokensAt({ rows, columns }, flat, { shape }) {
  const index = unravel(flat, shape);
  const sequence = shape.length > 2 ? index[0] : 0;
  const [row, column] = index.slice(-2);
  const found = { row: rows?.[sequence]?.[row], column: columns?.[sequence]?.[column] };
  return Object.keys(found)
    .filter((axis) => found[axis] !== undefined)
    .map((axis) => `${axis} “${found[axis]}”`)
    .join(", ");
}

function sideAt(model, call, input) {
  return model.sides.get(`${call.id}.${input}`) || model.sides.get(`${call.id}.`);
}

// The tokens of a side, if there are as many.
function tokensOf(model, side, length) {
  const sideTokens = side && model.trace.tokens[side];
  return sideTokens && sideTokens[0].length === length ? sideTokens : null;
}

// Of a table of embeddings each row is a token.
function tableLabels({ pieces }, { type }, name, { shape }) {
  const isTable = type === "embedding" && /^d?table$/.test(name) && pieces?.names.length === shape[0];
  return isTable ? { rows: [pieces.names], columns: null } : null;
}

// Of an array of ids each number is a token.
function idLabels(model, call, bare, array) {
  const [rows, columns] = array.shape;
  const side = bare === "targets" ? "target_out" : sideAt(model, call, bare);
  const tokenRows = array.kind === "i" ? tokensOf(model, side, columns) : null;
  return { rows: null, columns: null, cells: tokenRows && tokenRows.length === rows ? tokenRows.flat() : null };
}

// Of scores the rows are those of q, the columns those of k.
function tokenLabels(model, call, bare, array) {
  const [rows, columns] = array.shape.slice(-2);
  const side = sideAt(model, call, bare);
  const isScores = array.shape.length === 4 && OF_SCORES.test(bare);
  if (!isScores) return { rows: tokensOf(model, side, rows), columns: null };
  const asking = model.sides.get(`${call.id}.q`) || side;
  return { rows: tokensOf(model, asking, rows), columns: tokensOf(model, sideAt(model, call, "k"), columns) };
}
