// The formula and the source of the operation, with the line that runs lit and what each line made beside it.

import { byId, h, replace } from "./dom.js";
import { thumbnail } from "./heatmap.js";
import { short } from "./arrays.js";
import { nameOf, stepOf } from "./model.js";
import { codeLines, sourceOf } from "./moments.js";

export function showSource(app) {
  const box = byId("source");
  if (!app.run.moments.length) {
    replace(byId("formula"));
    replace(box, ...(app.step.call.parts.length ? aboutLayer(app) : [h("p", { class: "quiet" }, "The lines of this call are not recorded.")]));
    return;
  }
  replace(box, frame(app, app.run.frame, 0));
  lightLine(app, false);
}

// A layer hands arrays to its parts; the gradient of what it handed out twice is a sum.
function aboutLayer(app) {
  const { call, way } = app.step;
  const said = [h("p", { class: "quiet" }, "A layer computes nothing itself: it hands arrays to its parts. The parts are listed in the middle.")];
  if (way === "forward") return said;
  for (const { name } of call.gradients) {
    const uses = (app.model.flows.fan_in[call.id] || {})[`gradients.${name}`] || [];
    if (!uses.length) continue;
    const terms = uses.flatMap((use, i) => {
      const go = () => app.go(stepOf(app.model, use.call, "backward").number);
      const label = `${use.gradient} of ${nameOf(app.model.calls[use.call])}`;
      return [i ? "\n   + " : " = ", h("button", { class: "link", type: "button", onclick: go }, label)];
    });
    said.push(h("pre", { class: "maths" }, name, ...terms));
  }
  if (call.gradients.length) said.push(h("p", { class: "quiet" }, "What several parts read has several gradients, and they add."));
  return said;
}

// A function changed by a bug is numbered from 1: how far its lines are from those of its file.
export function movedBy(app, name) {
  const source = sourceOf(app.sources(), name);
  const right = app.bug && sourceOf(app.model.trace.sources, name);
  return right && source && source.first === 1 ? right.first - 1 : 0;
}

function frame(app, given, depth) {
  const source = sourceOf(app.sources(), given.name);
  if (!source) return h("p", { class: "quiet" }, given.name);
  const right = app.bug ? sourceOf(app.model.trace.sources, given.name) : null;
  const moved = movedBy(app, given.name);
  const known = right ? new Set(right.text.split("\n").map((text) => text.trim())) : null;
  const rows = codeLines(source).map(([number, text]) => {
    const ran = given.lines.filter((line) => line.line === number);
    const row = h("li", { class: ran.length ? "ran" : "" }, h("span", { class: "number" }, number + moved), code(text));
    if (known && !known.has(text.trim())) row.classList.add("changed");
    return [row, ran];
  });
  const items = [];
  for (const [row, ran] of rows) {
    items.push(row);
    for (const line of ran) {
      for (const inner of line.inside) items.push(h("li", { class: "nested" }, inner.folded ? folded(inner) : frame(app, inner, depth + 1)));
      row.moments = [...(row.moments || []), line.number];
      const values = made(app, line);
      if (values) items.push(values);
    }
    if (ran.length) {
      const go = () => app.goMoment(ran[0].number);
      row.addEventListener("click", go);
      row.setAttribute("title", "show what this line made");
    }
  }
  const head = h("div", { class: "file" }, h("b", {}, source.name), ` ${source.file}`);
  return h("div", { class: `frame depth${Math.min(depth, 3)}` }, head, h("ol", { class: "code" }, ...items));
}

function code(text) {
  const at = text.search(/ {2}#/);
  const shown = at < 0 ? [text] : [text.slice(0, at), h("em", {}, text.slice(at))];
  return h("code", {}, ...shown);
}

function folded(inner) {
  return h("p", { class: "folded" }, `↳ ${inner.name.split(".")[1]} hands its argument on unchanged`);
}

// What a line made: names with small pictures, or the numbers themselves.
function made(app, line) {
  const chips = line.values.map(([name, array]) => {
    if (app.predict) return h("span", { class: "chip" }, name);
    const single = array.data.length === 1 ? ` ${short(array.data[0], array.kind)}` : "";
    return h("span", { class: "chip" }, name, single, single ? null : thumbnail(array));
  });
  line.notes.forEach(([name, text]) => chips.push(h("span", { class: "chip" }, `${name} = ${text}`)));
  if (!chips.length) return null;
  const row = h("li", { class: "made" }, ...chips);
  row.moment = line.number;
  return row;
}

export function lightLine(app, follows) {
  const current = app.run.moments[app.moment];
  if (!current) return;
  const callers = new Set(current.frame.callers.map((line) => line.number));
  let lit = null;
  for (const row of byId("source").querySelectorAll("li")) {
    if (row.moments) {
      const isLit = row.moments.includes(app.moment);
      row.classList.toggle("lit", isLit);
      row.classList.toggle("calling", row.moments.some((number) => callers.has(number)));
      if (isLit) lit = row;
    }
    if (row.moment !== undefined) row.classList.toggle("later", row.moment > app.moment);
  }
  if (lit && follows) keepInView(lit, byId("code"));
  showFormula(app, current);
}

// Scroll a box, and nothing around it, so that an element in it can be seen.
export function keepInView(element, box) {
  const inner = element.getBoundingClientRect();
  const outer = box.getBoundingClientRect();
  if (box.scrollHeight <= box.clientHeight) return;
  if (inner.top < outer.top + 20) box.scrollTop -= outer.top + 20 - inner.top;
  else if (inner.bottom > outer.bottom - 40) box.scrollTop += inner.bottom - outer.bottom + 40;
}

function showFormula(app, current) {
  const source = sourceOf(app.sources(), current.frame.name);
  if (!source || !source.doc) return replace(byId("formula"));
  const { title, forward, backward, letters } = app.model.derivations[source.key];
  const shown = app.step.way === "forward" || !backward.length ? forward : backward;
  const names = new Set(current.values.map(([name]) => letters[name] || name));
  const blocks = shown.map((block) => h("pre", { class: "maths" }, ...marked(block, names)));
  const whole = h("details", {}, h("summary", {}, "derivation"), h("pre", { class: "doc" }, source.doc));
  replace(byId("formula"), h("p", { class: "title" }, title), ...blocks, whole);
}

// A formula with the names that the current line makes marked.
function marked(block, names) {
  const parts = block.split(/([\p{L}_][\p{L}\p{M}\p{N}_]*)/u);
  return parts.map((part) => (names.has(part) ? h("mark", {}, part) : part));
}
