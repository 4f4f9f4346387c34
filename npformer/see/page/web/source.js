// The formula and the source of the operation, with the line that runs lit and what each line made beside it.

import { short } from "./arrays.js";
import { byId, h, keepInView, link, quiet, replace, setClasses } from "./dom.js";
import { thumbnail } from "./heatmap.js";
import { nameOf } from "./model.js";
import { codeLines, sourceOf } from "./moments.js";

const NO_LINES = "The lines of this call are not recorded.";
const NOTHING_ITSELF =
  "A layer computes nothing itself: it hands arrays to its parts. The parts are listed in the middle.";

export function showSource(app) {
  const box = byId("source");
  if (app.run.moments.length) {
    replace(box, frameBox(app, app.run.frame, 0));
    lightLine(app, false);
  } else {
    replace(byId("formula"));
    replace(box, ...(app.step.call.parts.length ? aboutLayer(app) : [quiet(NO_LINES)]));
  }
}

// A layer hands arrays to its parts; the gradient of what it handed out twice is a sum.
function aboutLayer(app) {
  const { call, way } = app.step;
  if (way === "forward" || !call.gradients.length) return [quiet(NOTHING_ITSELF)];
  const sums = call.gradients.map(({ name }) => sumOfUses(app, name, call.uses[`gradients.${name}`] || []));
  return [quiet(NOTHING_ITSELF), ...sums, quiet("What several parts read has several gradients, and they add.")];
}

function sumOfUses(app, name, uses) {
  if (!uses.length) return null;
  const terms = uses.flatMap((use, i) => {
    const label = `${use.gradient} of ${nameOf(app.model.calls[use.call])}`;
    return [i ? "\n   + " : " = ", link(label, () => app.goCall(use.call, "backward"))];
  });
  return h("pre", { class: "maths" }, name, ...terms);
}

// A function changed by a bug is numbered from 1: how far its lines are from those of its file.
export function movedBy(app, name) {
  const source = sourceOf(app.sources(), name);
  const right = app.bug && sourceOf(app.model.trace.sources, name);
  return right && source && source.first === 1 ? right.first - 1 : 0;
}

// A function's lines, those of functions that it called inside.
function frameBox(app, frame, depth) {
  const source = sourceOf(app.sources(), frame.name);
  if (!source) return quiet(frame.name);
  const isChanged = changesIn(app, frame.name);
  const moved = movedBy(app, frame.name);
  const items = codeLines(source).flatMap(([number, text]) => {
    const ran = frame.lines.filter((line) => line.line === number);
    const row = lineRow(app, number + moved, text, ran);
    row.classList.toggle("changed", isChanged(text));
    return [row, ...ran.flatMap((line) => below(app, line, depth))];
  });
  const head = h("div", { class: "file" }, h("b", {}, source.name), ` ${source.file}`);
  return h("div", { class: `frame depth${Math.min(depth, 3)}` }, head, h("ol", { class: "code" }, ...items));
}

// A function that says whether a bug changed a line.
function changesIn(app, name) {
  const right = app.bug ? sourceOf(app.model.trace.sources, name) : null;
  const known = right && new Set(right.text.split("\n").map((text) => text.trim()));
  return (text) => Boolean(known) && !known.has(text.trim());
}

// A line of the source. ran: the moments at which it ran.
function lineRow(app, number, text, ran) {
  const row = h("li", { class: ran.length ? "ran" : "" }, h("span", { class: "number" }, number), codeText(text));
  if (!ran.length) return row;
  row.moments = ran.map((line) => line.number);
  row.addEventListener("click", () => app.goMoment(ran[0].number));
  row.setAttribute("title", "show what this line made");
  return row;
}

// Below a line that ran: the functions that it called, and what it made.
function below(app, line, depth) {
  const nested = line.inside.map((inner) => (inner.folded ? foldedText(inner) : frameBox(app, inner, depth + 1)));
  return [...nested.map((inner) => h("li", { class: "nested" }, inner)), madeBy(app, line)];
}

function codeText(text) {
  const at = text.search(/ {2}#/);
  const shown = at < 0 ? [text] : [text.slice(0, at), h("em", {}, text.slice(at))];
  return h("code", {}, ...shown);
}

function foldedText(inner) {
  return h("p", { class: "folded" }, `↳ ${inner.name.split(".")[1]} hands its argument on unchanged`);
}

// What a line made: names with small pictures, or the numbers themselves.
function madeBy(app, line) {
  const chips = [
    ...line.values.map(([name, array]) => chip(name, app.predict ? null : glimpse(array))),
    ...line.notes.map(([name, text]) => chip(`${name} = ${text}`)),
  ];
  if (!chips.length) return null;
  const row = h("li", { class: "made" }, ...chips);
  row.moment = line.number;
  return row;
}

function chip(...children) {
  return h("span", { class: "chip" }, ...children);
}

function glimpse(array) {
  return array.data.length === 1 ? ` ${short(array.data[0], array.kind)}` : thumbnail(array);
}

export function lightLine(app, follows) {
  const current = app.run.moments[app.moment];
  if (!current) return;
  const callers = current.frame.callers.map((line) => line.number);
  const rows = [...byId("source").querySelectorAll("li")];
  for (const row of rows) {
    if (row.moments) lightRow(row, app.moment, callers);
    if (row.moment !== undefined) row.classList.toggle("later", row.moment > app.moment);
  }
  const lit = rows.findLast((row) => row.classList.contains("lit"));
  if (lit && follows) keepInView(lit, byId("code"));
  showFormula(app, current);
}

function lightRow(row, moment, callers) {
  setClasses(row, {
    lit: row.moments.includes(moment),
    calling: row.moments.some((number) => callers.includes(number)),
  });
}

function showFormula(app, current) {
  const source = sourceOf(app.sources(), current.frame.name);
  if (!source || !source.doc) return replace(byId("formula"));
  const { title, forward, backward, letters } = app.model.derivations[source.key];
  const shown = app.step.way === "forward" || !backward.length ? forward : backward;
  const names = new Set(current.values.map(([name]) => letters[name] || name));
  const blocks = shown.map((block) => h("pre", { class: "maths" }, ...marked(block, names)));
  const derivation = h("details", {}, h("summary", {}, "derivation"), h("pre", { class: "doc" }, source.doc));
  replace(byId("formula"), h("p", { class: "title" }, title, " ", pageOf(app, source)), ...blocks, derivation);
}

// Where more is said of a file: its page, or a command; of a reader's own file nothing.
function pageOf(app, { file }) {
  const href = app.model.links[file];
  if (href) return h("a", { class: "link", href, target: "_top" }, "its page");
  const { kind, type } = app.step.call;
  const isExplained = kind === "operation" && file.startsWith("npformer/functional/");
  return isExplained ? h("code", {}, `npformer explain ${type}`) : null;
}

// A formula with the names that the current line makes marked.
function marked(block, names) {
  const parts = block.split(/([\p{L}_][\p{L}\p{M}\p{N}_]*)/u);
  return parts.map((part) => (names.has(part) ? h("mark", {}, part) : part));
}
