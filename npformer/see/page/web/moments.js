// The lines of a call in the order in which they ran, functions that they called included.

import { arraysIn, plain } from "./model.js";

// A frame: {name, key, lines, callers}, callers being the lines that called it.
// A line: {line, number, frame, inside: [frame], values: [[name, array]], notes: [[name, text]]}.
// Moments are the lines one after the other, inner ones first; number is a line's place among them.
export function runOf(model, event, names) {
  const run = { moments: [], timesRun: new Map() };
  run.frame = frameOf(model, run, event, [], names);
  return run;
}

// names: of what the function returns; null for one that a line calls.
function frameOf(model, run, functionTrace, callers, names) {
  const times = run.timesRun.get(functionTrace.function) || 0;
  run.timesRun.set(functionTrace.function, times + 1);
  const frame = { name: functionTrace.function, key: `${functionTrace.function} ${times}`, lines: [], callers };
  for (const line of functionTrace.lines) {
    const moment = { line: line.line, frame, ...valuesOf(model, line, names) };
    moment.inside = (line.inside || []).map((inner) => innerFrame(model, run, inner, [...callers, moment]));
    if (!names) moment.values = withoutKnown(moment.values, frame.lines);
    moment.number = run.moments.length;
    run.moments.push(moment);
    frame.lines.push(moment);
  }
  return frame;
}

function innerFrame(model, run, inner, callers) {
  if (makesNothing(model, inner)) return { name: inner.function, folded: true };
  return frameOf(model, run, inner, callers, null);
}

// What a line made: arrays, and notes of all else.
function valuesOf(model, line, names) {
  const values = [];
  const notes = [];
  for (const [name, value] of Object.entries(line.values)) {
    const arrays = name === "return" ? returned(model, value, names || []) : arraysIn(model, name, value);
    values.push(...arrays);
    const text = arrays.length ? "" : plain(value);
    if (text) notes.push([name, text]);
  }
  return { values, notes };
}

// What a function returns, by the names of the gradients or outputs; of a cache nothing, it is shown elsewhere.
function returned(model, value, names) {
  const isObject = value !== null && typeof value === "object";
  const items = isObject && Array.isArray(value.items) && !value.names ? value.items : [value];
  const isCache = (item) => item !== null && typeof item === "object" && item.names;
  return items.flatMap((item, i) => (isCache(item) ? [] : arraysIn(model, names[i] || "returned", item)));
}

// What an inner function returns is not shown again, where one of its lines made it.
function withoutKnown(values, lines) {
  const known = new Set(lines.flatMap((line) => line.values.map(([, array]) => array.name)));
  return values.filter(([name, array]) => name !== "returned" || !known.has(array.name));
}

// Whether a function only hands on what it was given, as dropout does at inference.
function makesNothing(model, frame) {
  const arraysOf = (values) => Object.values(values).flatMap((value) => arraysIn(model, "", value));
  const namesIn = (values) => arraysOf(values).map(([, array]) => array.name);
  const passed = new Set(namesIn(frame.arguments || {}));
  const isOld = (line) => namesIn(line.values).every((name) => passed.has(name)) && (line.inside || []).every(areOld);
  const areOld = (inner) => inner.lines.every(isOld);
  const file = frame.function.split(".")[0];
  return areOld(frame) && (file === "dropout" || frame.lines.length < 2);
}

// The source of a function, named file.function; null if it is not known.
export function sourceOf(sources, name) {
  const [file, ...rest] = (name || "").split(".");
  const functionName = rest.join(".");
  const source = sources[file];
  const code = source && source.functions[functionName];
  return code && code.text ? { key: file, file: source.file, doc: source.doc, ...code, name: functionName } : null;
}

// [number, text] of each line of a function, without its docstring.
export function codeLines(source) {
  const texts = source.text.replace(/\n$/, "").split("\n");
  const lines = texts.map((text, i) => [source.first + i, text]);
  const start = texts.findIndex((text) => /^\s*r?"""/.test(text));
  if (start < 0) return lines;
  const isOne = texts[start].match(/"""/g).length > 1;
  const end = isOne ? start : texts.findIndex((text, i) => i > start && text.includes('"""'));
  return [...lines.slice(0, start), ...lines.slice(end + 1)];
}
