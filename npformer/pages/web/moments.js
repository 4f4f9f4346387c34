// The lines of a call in the order in which they ran, functions that they called included.

import { arraysIn, plain } from "./model.js";

// A frame: {function, lines: [{line, values: [[name, array]], notes: [[name, text]], inside: [frame], moment}]}.
// Moments are the lines one after the other, inner ones first; each knows its frame and the lines that called it.
export function runOf(model, event, names) {
  const moments = [];
  moments.seen = new Map();
  const frame = frameOf(model, event, [], moments, names);
  return { frame, moments };
}

function frameOf(model, given, callers, moments, names) {
  const times = moments.seen.get(given.function) || 0;
  moments.seen.set(given.function, times + 1);
  const frame = { name: given.function, key: `${given.function} ${times}`, lines: [], callers };
  for (const line of given.lines) {
    const made = { line: line.line, inside: [], values: [], notes: [], frame };
    for (const inner of line.inside || []) {
      if (makesNothing(model, inner)) made.inside.push({ name: inner.function, folded: true });
      else made.inside.push(frameOf(model, inner, [...callers, made], moments, null));
    }
    for (const [name, value] of Object.entries(line.values)) {
      const found = name === "return" ? returned(model, value, names) : arraysIn(model, name, value);
      made.values.push(...found);
      const text = found.length ? "" : plain(value);
      if (text) made.notes.push([name, text]);
    }
    const known = new Set(frame.lines.flatMap((each) => each.values.map(([, array]) => array.name)));
    if (!names) made.values = made.values.filter(([name, array]) => name !== "returned" || !known.has(array.name));
    made.number = moments.length;
    moments.push(made);
    frame.lines.push(made);
  }
  return frame;
}

// What a function returns, by the names of the gradients or outputs; of a cache nothing, it is shown elsewhere.
function returned(model, value, names) {
  const items = value !== null && typeof value === "object" && Array.isArray(value.items) && !value.names ? value.items : [value];
  return items.flatMap((item, i) =>
    item !== null && typeof item === "object" && item.names ? [] : arraysIn(model, (names && names[i]) || "returned", item),
  );
}

// Whether a function only hands on what it was given, as dropout does at inference.
function makesNothing(model, frame) {
  const given = new Set(Object.values(frame.arguments || {}).flatMap((value) => arraysIn(model, "", value).map(([, array]) => array.name)));
  const isOld = (lines) =>
    lines.every(
      (line) =>
        Object.values(line.values).every((value) => arraysIn(model, "", value).every(([, array]) => given.has(array.name))) &&
        (line.inside || []).every((inner) => isOld(inner.lines)),
    );
  const file = frame.function.split(".")[0];
  return isOld(frame.lines) && (file === "dropout" || frame.lines.length < 2);
}

export function sourceOf(sources, name) {
  const dot = name ? name.indexOf(".") : -1;
  const [file, own] = dot < 0 ? [] : [name.slice(0, dot), name.slice(dot + 1)];
  const found = sources[file];
  return found && found.functions[own] && found.functions[own].text ? { key: file, file: found.file, doc: found.doc, ...found.functions[own], name: own } : null;
}

// [number, text] of each line of a function, without its docstring.
export function codeLines(source) {
  const lines = source.text.replace(/\n$/, "").split("\n").map((text, i) => [source.first + i, text]);
  const start = lines.findIndex(([, text]) => /^\s*r?"""/.test(text));
  if (start < 0) return lines;
  const isOne = (lines[start][1].match(/"""/g) || []).length > 1;
  const end = isOne ? start : lines.findIndex(([, text], i) => i > start && text.includes('"""'));
  return [...lines.slice(0, start), ...lines.slice(end + 1)];
}
