// The trace as the page uses it: calls by number, steps in time, terms and uses of each gradient.

import { largest, unpack } from "./arrays.js";
import { piecesOf, sidesOf } from "./labels.js";

export async function load(data, numbers) {
  const arrays = await unpack(numbers, data.places);
  const trace = data.trace;
  const model = { trace, arrays, evidence: data.evidence, derivations: data.derivations, flows: data.flows, bugs: data.bugs, opens: data.opens, most_terms: data.most_terms, calls: trace.calls };
  for (const call of model.calls) {
    call.parts = [];
    call.label = shortName(call, model.calls[call.parent]);
    call.depth = call.parent === null ? 0 : model.calls[call.parent].depth + 1;
    if (call.parent !== null) model.calls[call.parent].parts.push(call.id);
  }
  model.steps = stepsOf(model.calls);
  model.half = model.steps.filter((step) => step.way === "forward").length;
  model.sides = sidesOf(model);
  model.pieces = piecesOf(model);
  return model;
}

function shortName(call, parent) {
  const whole = call.name || call.type;
  const before = parent && parent.name ? `${parent.name}.` : "";
  const own = before && whole.startsWith(before) ? whole.slice(before.length) : whole;
  return call.use > 1 ? `${own} (${call.use})` : own;
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

// The last two parts of a call's name.
export function nameOf(call) {
  const name = (call.name || call.type).split(".").slice(-2).join(".");
  return call.use > 1 ? `${name} (${call.use})` : name;
}

export function stepOf(model, call, way) {
  return model.steps.find((step) => step.call.id === call && step.way === way);
}

export function arrayOf(model, value) {
  return typeof value === "string" ? model.arrays.get(value) : undefined;
}

export function entriesOf(model, call, what) {
  return (call[what] || []).filter((entry) => arrayOf(model, entry.value));
}

// The arrays in any value: [name, array] of a tuple's or cache's items, at any depth.
export function arraysIn(model, name, value) {
  const array = arrayOf(model, value);
  if (array) return [[name, array]];
  if (value === null || typeof value !== "object" || !Array.isArray(value.items)) return [];
  return value.items.flatMap((item, i) => {
    const field = value.names ? `${name ? `${name}.` : ""}${value.names[i]}` : `${name}[${i}]`;
    return arraysIn(model, field, item);
  });
}

// A value that is no array, in a few letters; "" for what says nothing (a module, a function).
export function plain(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return "";
  if ("number" in value) return value.number;
  if ("items" in value) {
    const inner = value.items.map((item) => (typeof item === "string" ? "…" : plain(item)));
    if (value.names) return `${value.type}(${value.names.map((name, i) => `${name}=${inner[i]}`).join(", ")})`;
    return value.type === "list" ? `[${inner.join(", ")}]` : `(${inner.join(", ")})`;
  }
  if ("type" in value) return "";
  return "text" in value ? `"${value.text}"` : "";
}

// The terms of one entry of an operation's gradient: for each entry of dy, what it adds. Null if none were kept.
function termsOf(model, call, gradient, flat) {
  const kept = (model.evidence[call.id] || {})[gradient];
  if (!kept || !kept.terms.length) return null;
  const found = [];
  kept.terms.forEach((name, i) => {
    const upstream = call.upstream[i];
    const dy = arrayOf(model, upstream.value);
    const size = dy ? dy.data.length : 1;
    const terms = model.arrays.get(name).data.subarray(flat * size, (flat + 1) * size);
    terms.forEach((term, k) =>
      found.push({ term, call: call.id, what: "upstream", name: upstream.name, flat: k, dy: dy ? dy.data[k] : Number(upstream.value) }),
    );
  });
  return found;
}

// The uses whose gradients add up to one entry, for what arrives at a call and for what a layer returns.
function usesOf(model, call, what, name, flat) {
  const uses = (model.flows.fan_in[call.id] || {})[`${what}.${name}`];
  if (!uses) return null;
  const found = [];
  for (const use of uses) {
    const user = model.calls[use.call];
    const gradient = arrayOf(model, user.gradients.find((entry) => entry.name === use.gradient).value);
    model.arrays.get(use.map).data.forEach((target, k) => {
      if (target === flat) found.push({ term: gradient.data[k], call: use.call, what: "gradients", name: use.gradient, flat: k });
    });
  }
  return found;
}

// The sum that an entry is, if it is one: over entries of dy in an operation, over uses between operations.
export function splitOf(model, entry) {
  const call = model.calls[entry.call];
  if (entry.what === "gradients" && call.kind === "operation") {
    const list = termsOf(model, call, entry.name, entry.flat);
    if (list) return { list, kind: "terms" };
  }
  if (entry.what === "parameter") return { list: addedTo(model, entry.name, entry.flat), kind: "uses" };
  if (entry.what === "gradients" || entry.what === "upstream") {
    const list = usesOf(model, call, entry.what, entry.name, entry.flat);
    if (list && list.length) return { list, kind: "uses" };
  }
  return null;
}

// The calls that added to a parameter's gradient: operations, and layers whose own code does.
export function usersOf(model, parameter) {
  return model.calls.filter((call) => call.added.some((each) => each.parameter === parameter));
}

function addedTo(model, parameter, flat) {
  return usersOf(model, parameter).map((call) => {
    const array = model.arrays.get(call.added.find((each) => each.parameter === parameter).array);
    return { term: array.data[flat], call: call.id, what: "added", name: parameter, flat };
  });
}

// The largest term of all entries of an entry's array, or the largest entry, where it is a sum over uses.
export function scaleOf(model, entry) {
  const kept = entry.what === "gradients" && (model.evidence[entry.call] || {})[entry.name];
  const terms = kept ? kept.terms.map((name) => largest(model.arrays.get(name))) : [];
  return Math.max(largest(entry.array), ...terms, 1e-300);
}

export function sum(terms) {
  return terms.reduce((total, each) => total + each.term, 0);
}

export function witnessesOf(model, call, gradient, flat) {
  const kept = (model.evidence[call.id] || {})[gradient];
  if (!kept) return null;
  const at = (name) => (name === null ? null : model.arrays.get(name).data[flat]);
  return { complex: at(kept.complex), central: at(kept.central) };
}
