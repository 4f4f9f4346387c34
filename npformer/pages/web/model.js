// The trace as the page uses it: calls by number, steps in time, terms and uses of each gradient.

import { largest, unpack } from "./arrays.js";

export async function load(data, numbers) {
  const arrays = await unpack(numbers, data.places);
  const trace = data.trace;
  const model = { trace, arrays, evidence: data.evidence, flows: data.flows, bugs: data.bugs, calls: trace.calls };
  for (const call of model.calls) {
    call.parts = [];
    call.label = shortName(call, model.calls[call.parent]);
    call.depth = call.parent === null ? 0 : model.calls[call.parent].depth + 1;
    if (call.parent !== null) model.calls[call.parent].parts.push(call.id);
  }
  model.steps = stepsOf(model.calls);
  model.half = model.steps.filter((step) => step.way === "forward").length;
  model.sides = sidesOf(model);
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
  if (entry.what === "gradients" || entry.what === "upstream") {
    const list = usesOf(model, call, entry.what, entry.name, entry.flat);
    if (list && list.length) return { list, kind: "uses" };
  }
  return null;
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

// Whether the rows of a call's inputs and outputs are tokens of the source or of the target.
function sidesOf(model) {
  const tokens = model.trace.tokens;
  const sides = new Map();
  if (!tokens) return sides;
  const only = tokens.source ? (tokens.target_in ? null : "source") : "target_in";
  for (const call of model.calls) {
    if (only) sides.set(`${call.id}.`, only);
    else if (/^(src|source|encoder)/.test(call.name)) sides.set(`${call.id}.`, "source");
    else if (/^(tgt|target|decoder|generator|loss)/.test(call.name)) sides.set(`${call.id}.`, "target_in");
  }
  for (const [id, uses] of Object.entries(model.flows.fan_in)) {
    const side = sides.get(`${id}.`);
    if (side === undefined || model.calls[id].parts.length || !/^(src|source|encoder)/.test(model.calls[id].name)) continue;
    for (const use of Object.values(uses).flat()) sides.set(`${use.call}.${use.gradient.slice(1)}`, side);
  }
  spread(model, sides);
  for (const call of model.calls.filter((each) => each.parts.length)) {
    for (const [target, [use]] of Object.entries(model.flows.fan_in[call.id] || {})) {
      const side = use && (sides.get(`${use.call}.${use.gradient.slice(1)}`) || sides.get(`${use.call}.`));
      if (target.startsWith("gradients.") && side) sides.set(`${call.id}.${target.slice("gradients.d".length)}`, side);
    }
  }
  return sides;
}

// An operation that reads the memory alone makes keys and values of it, so its rows are tokens of the source, too.
function spread(model, sides) {
  for (const call of model.calls) {
    const own = entriesOf(model, call, "inputs").filter((entry) => !(call.params || {})[entry.name]);
    const side = own.length === 1 ? sides.get(`${call.id}.${own[0].name}`) : undefined;
    if (side === undefined) continue;
    sides.set(`${call.id}.`, side);
    for (const use of (model.flows.fan_in[call.id] || {})["upstream.dy"] || []) {
      sides.set(`${use.call}.${use.gradient.slice(1)}`, side);
    }
  }
}

// Labels of an array's rows and columns, where they are tokens: for each sequence of the batch a list, or null.
export function labelsOf(model, call, name, array) {
  const tokens = model.trace.tokens;
  if (!tokens || array.shape.length < 2) return { rows: null, columns: null };
  const bare = name.replace(/^d(?=.)/, "").split(/[.[]/)[0];
  const side = model.sides.get(`${call.id}.${bare}`) || model.sides.get(`${call.id}.`);
  const keys = model.sides.get(`${call.id}.k`) || model.sides.get(`${call.id}.`);
  const [rows, columns] = array.shape.slice(-2);
  const isScores = array.shape.length === 4 && /weight|score|drop|visible|shifted|power|^y$|^softmax/.test(bare);
  const of = (which, length) => {
    const found = which && tokens[which];
    return found && found[0].length === length ? found : null;
  };
  if (array.shape.length === 2) {
    const found = array.kind === "i" ? of(bare === "targets" ? "target_out" : side, columns) : null;
    return { rows: null, columns: null, cells: found && found.length === rows ? found.flat() : null };
  }
  return { rows: of(isScores ? model.sides.get(`${call.id}.q`) || side : side, rows), columns: isScores ? of(keys, columns) : null };
}
