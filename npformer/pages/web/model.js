// The trace as the page uses it: calls by number, steps in time, terms and uses of each gradient.

import { largest, unpack } from "./arrays.js";
import { piecesOf, sidesOf } from "./labels.js";

export async function load(data, numbers) {
  const model = { ...data, arrays: await unpack(numbers, data.places), calls: data.trace.calls };
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

// The names of the parameters that an input of a call is made of; "" if it is none.
export function parametersAt(call, input) {
  return (call.params[input] || []).map((part) => part.parameter).join(", ");
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

// The sum that an entry is, if it is one: over entries of dy in an operation, over uses between operations.
export function splitOf(model, { call: id, what, name, flat }) {
  const call = model.calls[id];
  const terms = what === "gradients" && call.kind === "operation" ? termsOf(model, call, name, flat) : null;
  if (terms) return { list: terms, kind: "terms" };
  const isParameter = what === "parameter";
  const list = isParameter ? addedTo(model, name, flat) : usesOf(model, call.uses[`${what}.${name}`] || [], flat);
  return list.length || isParameter ? { list, kind: "uses" } : null;
}

// The terms of one entry of an operation's gradient: for each entry of dy, what it adds. Null if none were kept.
function termsOf(model, call, gradient, flat) {
  const kept = call.evidence[gradient];
  if (!kept || !kept.terms.length) return null;
  return kept.terms.flatMap((name, i) => termsBy(model, call, call.upstream[i], model.arrays.get(name).data, flat));
}

function termsBy(model, call, upstream, terms, flat) {
  const dy = arrayOf(model, upstream.value);
  const size = dy ? dy.data.length : 1;
  const place = { call: call.id, what: "upstream", name: upstream.name };
  const termOf = (term, k) => ({ ...place, flat: k, term, dy: dy ? dy.data[k] : Number(upstream.value) });
  return Array.from(terms.subarray(flat * size, (flat + 1) * size), termOf);
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

// The largest term of all entries of an entry's array, or the largest entry, where it is a sum over uses.
export function scaleOf(model, entry) {
  const kept = entry.what === "gradients" && model.calls[entry.call].evidence[entry.name];
  const terms = kept ? kept.terms.map((name) => largest(model.arrays.get(name))) : [];
  return Math.max(largest(entry.array), ...terms, 1e-300);
}

export function sumOf(terms) {
  return terms.reduce((total, item) => total + item.term, 0);
}

export function witnessesOf(model, call, gradient, flat) {
  const kept = call.evidence[gradient];
  if (!kept) return null;
  const at = (name) => (name === null ? null : model.arrays.get(name).data[flat]);
  return { complex: at(kept.complex), central: at(kept.central) };
}
