// One entry: its value, the terms that add up to it, their sum, and what two numerical witnesses say.

import { apartText, brief, entryName, largest, long, short, signed } from "./arrays.js";
import { byId, h, link, quiet, replace } from "./dom.js";
import { labelsOf, tokensAt } from "./labels.js";
import { arrayOf, entriesOf, named, nameOf, parametersAt, scaleOf, sumOf, witnessesOf } from "./model.js";
import { isHidden, question, factorNumbers } from "./predict.js";

const MOST_BARS = 12;
const NOTHING_CHOSEN =
  "Point at a number, or move to it with Tab and the arrow keys: here stands what it is made of. Enter keeps it.";
const ORIGINS = {
  parameter: "gradient of a parameter: the sum over every call that used it",
  added: "what the layer's own code adds to the parameter's gradient with the bug, minus what it adds without",
  upstream: "arrives here: the sum over every use of this output",
  line: "made inside this operation",
};

export function showEntry(app, entry) {
  replace(byId("entry"), ...(entry ? aboutEntry(app, entry) : [quiet(NOTHING_CHOSEN)]));
}

function aboutEntry(app, entry) {
  const name = entryName(entry.name, entry.flat, entry.array.shape);
  if (isHidden(app, entry)) return question(app, entry, name);
  const call = app.model.calls[entry.call];
  const value = entry.array.data[entry.flat];
  const tokens = tokensAt(labelsOf(app.model, call, entry.name, entry.array), entry.flat, entry.array);
  return [
    h("h3", {}, app.bug ? "right: " : null, h("code", {}, name), " = ", h("span", { class: "number" }, long(value))),
    wrongAndRight(app, entry, value),
    tokens ? h("p", { class: "tokens" }, tokens) : null,
    h("p", { class: "what" }, ...originOf(app, entry, call)),
    ...madeOf(app, entry, call, value),
    ...(entry.what === "gradients" ? [witnessTable(app, call, entry, value), meaning(app, entry, call, value)] : []),
  ];
}

// With a bug that changes this number: what it is, and by how much.
function wrongAndRight(app, entry, value) {
  const difference = app.differenceOf(entry)?.data[entry.flat];
  if (difference === undefined) return null;
  const wrong = h("b", {}, long(value + difference, 6));
  return h("p", { class: "bugline" }, "wrong: ", wrong, `, difference (wrong − right): ${brief(difference)}`);
}

// Where an entry comes from.
function originOf(app, entry, call) {
  if (entry.what === "gradients") return [gradientText(app, entry, call)];
  if (entry.what in ORIGINS) return [ORIGINS[entry.what]];
  const moved = entry.what === "inputs" ? "came in" : "went out";
  const backward = backwardOf(app, entry, call);
  if (!backward) return [moved];
  const [place, number] = backward;
  return [`${moved}; its gradient is ${brief(number)}: `, link("see it in the backward pass", () => app.follow(place))];
}

function gradientText(app, entry, call) {
  const input = differentiatedBy(call, entry);
  const operand = named(entriesOf(app.model, call, "inputs"), input);
  const number = operand ? arrayOf(app.model, operand.value).data[entry.flat] : NaN; // or it is left out
  const value = Number.isNaN(number) ? "" : ` = ${short(number, "f")}`;
  const parameters = parametersAt(call, input, entry.flat % (entry.array.shape.at(-1) ?? 1));
  const where = parameters ? ` of ${parameters}` : "";
  return `gradient of ${entryName(input, entry.flat, entry.array.shape)}${where}${value}`;
}

// The input whose gradient this is.
function differentiatedBy(call, entry) {
  return named(call.gradients, entry.name).of;
}

// The gradient of a value that came in or went out: where it stands in the same call's backward, and the number.
function backwardOf(app, entry, call) {
  const isOutput = entry.what === "outputs";
  const at = call.outputs.findIndex((output) => output.name === entry.name);
  const gradient = isOutput ? call.upstream[at] : call.gradients.find(({ of }) => of === entry.name);
  const array = gradient && arrayOf(app.model, gradient.value);
  if (!array || Number.isNaN(array.data[entry.flat])) return null;
  const what = isOutput ? "upstream" : "gradients";
  return [{ call: call.id, what, name: gradient.name, flat: entry.flat }, array.data[entry.flat]];
}

// The terms of a sum as bars, and their sum.
function madeOf(app, entry, call, value) {
  const split = app.split(entry);
  const isMissing = !split && (entry.what === "line" || (entry.what === "gradients" && call.kind === "operation"));
  if (isMissing) return [h("p", { class: "quiet missing" }, whyNone(app))];
  return split ? termsOf(app, entry, split, value) : [];
}

function termsOf(app, entry, split, value) {
  const flowing = split.list.filter((item) => item.term !== 0).sort((a, b) => Math.abs(b.term) - Math.abs(a.term));
  const terms = flowing.length ? flowing : split.list; // of a 0 the terms that are 0, with the factor that is
  const count = terms.length > MOST_BARS + 1 ? MOST_BARS : terms.length;
  const most = Math.abs(terms[0]?.term) || 1;
  const zeros = split.list.length - (flowing.length || count);
  return [
    h("p", { class: "madeof" }, ...sumTitle(split, terms.length)),
    h("ul", { class: "bars" }, ...terms.slice(0, count).map((item) => bar(app, item, most, split.kind))),
    leftOut(flowing.slice(count), zeros),
    sumLine(split, wordFor(split, entry)),
    split.around ? h("p", { class: "sum" }, h("code", {}, split.around), ` = ${long(value)}`) : null,
  ];
}

// Why the terms of a number are not on the page, and what shows them.
function whyNone(app) {
  if (app.bug) return "Its terms are those of the right code: switch the bug off.";
  const { kind } = app.model.trace;
  const isExplained = kind === "model" || kind === "layer";
  return `Its terms are not on this page: they are many, or its line is of a form that is not taken apart.${
    isExplained ? " npformer explain … --at NAME[INDEX] shows those of one number." : ""
  } A smaller model, batch or text has fewer.`;
}

function sumTitle({ kind, line, code, around }, count) {
  if (kind === "uses") return [`is the sum over ${count} ${count === 1 ? "use" : "uses"}`];
  const of = `${count} ${count === 1 ? "term" : "terms"}`;
  const made = line ? [`, by line ${line}: `, h("code", {}, code)] : [": slope × dy"];
  return [around ? `is ${around}, of the sum of ${of}` : `is the sum of ${of}`, ...made];
}

function leftOut(rest, zeros) {
  const small = rest.length ? `${rest.length} smaller terms add ${brief(sumOf(rest))}. ` : "";
  const none = zeros ? `${zeros} ${zeros === 1 ? "term is" : "terms are"} exactly 0: nothing flows there. ` : "";
  return small || none ? quiet(small, none) : null;
}

function wordFor(split, entry) {
  if (split.around) return "argument";
  return ["gradients", "upstream", "parameter"].includes(entry.what) ? "gradient" : "number";
}

// Rounding is relative to scale, the largest numbers of the whole array.
function sumLine(split, what) {
  const [total, value, scale] = [sumOf(split.list), split.total, scaleOf(split)];
  const apart = Math.abs(total - value);
  const agrees = total === value || apart <= 1e-12 * scale;
  const close = total === value ? "to the last digit" : apartText(apart);
  return h(
    "p",
    { class: `sum ${agrees ? "agrees" : "differs"}`, "data-sum": total, "data-value": value, "data-scale": scale },
    "sum ",
    h("b", {}, long(total)),
    agrees ? ` ✓ the ${what}, ${close}` : ` ✗ not the ${what}`,
  );
}

// One term. most: the largest, whose bar fills its half.
function bar(app, item, most, kind) {
  const share = `${(50 * Math.abs(item.term)) / most}%`;
  const fill = h("i", { class: item.term > 0 ? "pos" : "neg", vars: { "--share": share } });
  return h(
    "li",
    { class: kind },
    item.factors ? factorsBox(app, item) : termButton(app, item),
    h("span", { class: "number" }, brief(item.term)),
    h("span", { class: "track", "aria-hidden": "true" }, fill),
  );
}

// The factors of a product by name, each a way to that number, and below them their numbers.
function factorsBox(app, { factors, sign }) {
  const names = factors.flatMap((factor, i) => [i ? " · " : sign < 0 ? "\u2212" : null, factorName(app, factor)]);
  return h("span", { class: "product" }, ...names, h("span", { class: "factors" }, factorNumbers(factors, sign)));
}

function factorName(app, factor) {
  if (!app.isOfTrace(factor.array)) return h("code", {}, factor.text);
  const onclick = () => app.followFactor(factor);
  return h("button", { type: "button", class: "term", title: "go to this number", onclick }, factor.text);
}

function termButton(app, item) {
  const call = app.model.calls[item.call];
  const name = item.what === "added" ? "" : termName(app, item, call);
  const properties = {
    type: "button",
    class: "term",
    title: "go to this number",
    onclick: () => app.follow(item),
    onpointerenter: () => app.mark(item),
    onpointerleave: () => app.mark(null),
  };
  return h("button", properties, `${nameOf(call)} ${name}`);
}

function termName(app, item, call) {
  const array = arrayOf(app.model, named(call[item.what], item.name).value);
  return entryName(item.name, item.flat, array ? array.shape : []);
}

function witnessTable(app, call, entry, value) {
  const witnesses = witnessesOf(app.model, call, entry.name, entry.flat);
  if (!witnesses) return null;
  const scale = Math.max(largest(entry.array), 1e-300);
  const body = h(
    "tbody",
    {},
    witnessRow("complex step", witnesses.complex, value, 1e-9 * scale),
    witnessRow("central difference", witnesses.central, value, 1e-6 * scale),
  );
  return h("table", { class: "witnesses", "aria-label": "numerical witnesses" }, body);
}

// most: how far the witness may be from the gradient.
function witnessRow(label, number, value, most) {
  const head = h("th", { scope: "row" }, label);
  if (number === null) return h("tr", {}, head, h("td", { colspan: "2" }, "cannot be asked here"));
  const apart = Math.abs(number - value);
  const agrees = apart <= most;
  const verdict = `${agrees ? "✓" : "✗"} ${apart === 0 ? "equal" : apartText(apart)}`;
  const cells = [h("td", { class: "number" }, signed(number, 9)), h("td", {}, verdict)];
  return h("tr", { class: agrees ? "agrees" : "differs" }, head, ...cells);
}

function meaning(app, entry, call, value) {
  if (typeof app.model.trace.loss !== "number" || value === 0) return null;
  const name = entryName(differentiatedBy(call, entry), entry.flat, entry.array.shape);
  const fall = long(Math.abs(0.01 * value), 3);
  const text = `${value > 0 ? "Lower" : "Raise"} ${name} by 0.01, and the loss falls by about ${fall}.`;
  return h("p", { class: "means" }, text);
}
