// The trace as the page uses it: calls by number, steps in time, terms and uses of each gradient.

import { entryName, unpack } from "./arrays.js";
import { piecesOf, sidesOf } from "./labels.js";

export async function load(data, numbers) {
  const model = { ...data, arrays: await unpack(numbers, data.places, data.left_out), calls: data.trace.calls };
  for (const call of model.calls) complete(model, call);
  model.steps = stepsOf(model.calls);
  model.half = model.steps.filter((step) => step.way === "forward").length;
  model.goesTo = goesTo(model.calls);
  model.sides = sidesOf(model);
  model.pieces = piecesOf(model);
  return model;
}

// What a call has beside what the trace says of it. uses: the gradients that add up to each of its own.
function complete(model, call) {
  const parent = model.calls[call.parent];
  call.parts = [];
  call.label = shortName(call, parent);
  call.depth = parent ? parent.depth + 1 : 0;
  call.params = call.params || {};
  call.uses = model.flows.fan_in[call.id] || {};
  call.evidence = model.evidence[call.id] || {};
  if (parent) parent.parts.push(call.id);
}

function shortName(call, parent) {
  const whole = wholeName(call);
  const before = parent && parent.name ? `${parent.name}.` : "";
  const shortened = before && whole.startsWith(before) ? whole.slice(before.length) : whole;
  return call.use > 1 ? `${shortened} (${call.use})` : shortened;
}

// A call is a step when it is complete: its parts first. Forward, then backward.
function stepsOf(calls) {
  const of = (way) =>
    calls
      .filter((call) => call[way] !== null)
      .sort((a, b) => a[way].end - b[way].end)
      .map((call) => ({ way, call }));
  const steps = [...of("forward"), ...of("backward")];
  steps.forEach((step, i) => (step.number = i));
  return steps;
}

// call.gradient -> the calls at which it arrives.
function goesTo(calls) {
  const callsByKey = new Map();
  for (const { id, uses } of calls) {
    const arriving = Object.entries(uses).filter(([target]) => target.startsWith("upstream."));
    for (const use of arriving.flatMap(([, list]) => list)) {
      const key = `${use.call}.${use.gradient}`;
      callsByKey.set(key, (callsByKey.get(key) || new Set()).add(id));
    }
  }
  return callsByKey;
}

export function wholeName(call) {
  return call.name || call.type;
}

// The last two parts of a call's name.
export function nameOf(call) {
  const name = wholeName(call).split(".").slice(-2).join(".");
  return call.use > 1 ? `${name} (${call.use})` : name;
}

export function stepOf(model, id, way) {
  return model.steps.find((step) => step.call.id === id && step.way === way);
}

// The ids of a call and of all that ran within it.
export function insideOf(model, call) {
  const inside = new Set([call.id]);
  for (const { id, parent } of model.calls) if (inside.has(parent)) inside.add(id);
  return inside;
}

export function arrayOf(model, value) {
  return typeof value === "string" ? model.arrays.get(value) : undefined;
}

// The arrays among a call's inputs, outputs, …
export function entriesOf(model, call, what) {
  return (call[what] || []).filter((entry) => arrayOf(model, entry.value));
}

export function named(entries, name) {
  return entries.find((entry) => entry.name === name);
}

// The names of the parameters that an input of a call is made of, or that one column of it is; "" if it is none.
export function parametersAt(call, input, column = null) {
  const isThere = ({ columns }) => column === null || !columns || (columns[0] <= column && column < columns[1]);
  return (call.params[input] || []).filter(isThere).map((part) => part.parameter).join(", ");
}

// The arrays in any value: [name, array] of a tuple's or cache's items, at any depth.
export function arraysIn(model, name, value) {
  const array = arrayOf(model, value);
  if (array) return [[name, array]];
  if (value === null || typeof value !== "object" || !Array.isArray(value.items)) return [];
  const before = name ? `${name}.` : "";
  const nameAt = (i) => (value.names ? `${before}${value.names[i]}` : `${name}[${i}]`);
  return value.items.flatMap((item, i) => arraysIn(model, nameAt(i), item));
}

// A value that is no array, in a few letters; "" for what says nothing (a module, a function).
export function plain(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? "" : plainObject(value);
}

function plainObject(value) {
  if ("number" in value) return value.number;
  if ("items" in value) return plainItems(value);
  return "text" in value && !("type" in value) ? `"${value.text}"` : "";
}

function plainItems({ items, names, type }) {
  const inner = items.map((item) => (typeof item === "string" ? "…" : plain(item)));
  if (names) return `${type}(${names.map((name, i) => `${name}=${inner[i]}`).join(", ")})`;
  return type === "list" ? `[${inner.join(", ")}]` : `(${inner.join(", ")})`;
}

// The sum that an entry is, if it is one: in an operation over the products of the line that made it, elsewhere over
// uses. way: of the step that shows it.
export function splitOf(model, entry, way) {
  const { call: id, what, name, flat } = entry;
  const made = lineSumOf(model, entry, way);
  if (made) return made;
  const isParameter = what === "parameter";
  const uses = model.calls[id].uses[`${what}.${name}`] || [];
  const list = isParameter ? addedTo(model, name, flat) : usesOf(model, uses, flat);
  return list.length || isParameter ? { list, kind: "uses", total: entry.array.data[flat] } : null;
}

const WAY_OF = { gradients: "backward", outputs: "forward" };

// The products of the line that made an entry; null if it is not known.
function lineSumOf(model, { call, what, flat, array }, way) {
  const passed = what === "line" ? way : WAY_OF[what];
  const parts = model.sums[call]?.[passed]?.[array.name] || [];
  const placeIn = (part) => (part.of ? model.arrays.get(part.of).data.indexOf(flat) : flat);
  const part = parts.find((one) => placeIn(one) >= 0);
  if (!part) return null;
  const k = placeIn(part);
  const list = part.products.flatMap((products) => productsAt(model, products, k));
  const total = part.total ? model.arrays.get(part.total).data[k] : array.data[flat];
  return { list, kind: "terms", total, line: part.line, code: part.code, around: part.around };
}

function productsAt(model, [count, sign, operands], k) {
  return Array.from({ length: count }, (_, row) => {
    const factors = operands.map((operand) => factorAt(model, operand, row, k));
    return { call: null, factors, sign, term: factors.reduce((product, { value }) => product * value, sign) };
  });
}

// told: the numbers themselves, of an array that is left out.
function factorAt(model, [text, arrayName, places, isBelow, told], row, k) {
  const array = model.arrays.get(arrayName);
  const { data, shape } = model.arrays.get(places);
  const [rows, columns] = shape;
  const at = (rows > 1 ? row : 0) * columns + (columns > 1 ? k : 0);
  const flat = data[at];
  const number = told ? model.arrays.get(told).data[at] : array.data[flat];
  const value = isBelow ? 1 / number : number;
  return { text: (isBelow ? "1/" : "") + entryName(text, flat, array.shape), array, flat, value };
}

// The uses whose gradients add up to one entry, for what arrives at a call and for what a layer returns.
function usesOf(model, uses, flat) {
  const terms = [];
  for (const use of uses) {
    const gradient = arrayOf(model, named(model.calls[use.call].gradients, use.gradient).value);
    const place = { call: use.call, what: "gradients", name: use.gradient };
    model.arrays.get(use.map).data.forEach((target, k) => {
      if (target === flat) terms.push({ ...place, flat: k, term: gradient.data[k] });
    });
  }
  return terms;
}

// The calls that added to a parameter's gradient: operations, and layers whose own code does.
export function usersOf(model, parameter) {
  return model.calls.filter((call) => call.added.some((addition) => addition.parameter === parameter));
}

function addedTo(model, parameter, flat) {
  return usersOf(model, parameter).map((call) => {
    const array = model.arrays.get(call.added.find((addition) => addition.parameter === parameter).array);
    return { term: array.data[flat], call: call.id, what: "added", name: parameter, flat };
  });
}

// The largest number of a sum, to which its rounding is relative.
export function scaleOf({ list, total }) {
  return Math.max(Math.abs(total), ...list.map((item) => Math.abs(item.term)), 1e-300);
}

export function sumOf(terms) {
  return terms.reduce((total, item) => total + item.term, 0);
}

export function witnessesOf(model, call, gradient, flat) {
  const kept = call.evidence[gradient];
  if (!kept) return null;
  const isOther = kept.only !== null && kept.only !== flat; // of a large array, one entry was asked
  if (isOther) return null;
  const at = (name) => (name === null ? null : model.arrays.get(name).data[kept.only === null ? flat : 0]);
  return { complex: at(kept.complex), central: at(kept.central) };
}
