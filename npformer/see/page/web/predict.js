// Predict: what a step makes is hidden, and the reader types a number before seeing it.

import { brief, entryName, largest, long, powerOf, powerText, short } from "./arrays.js";
import { byId, h, quiet } from "./dom.js";
import { arrayOf, named, sumOf } from "./model.js";

const MOST_HINTS = 12;

// Which arrays of a step are hidden: those that it makes. Those that come in stay in sight.
function isMade(app, place) {
  if (place.what === "line") return true;
  return place.what === (app.step.way === "forward" ? "outputs" : "gradients");
}

function keyOf(app, place, flat) {
  return `${app.step.number}.${place.what}.${place.name}.${flat}`;
}

// A function that says whether an entry of this array is hidden; null if none is.
export function hides(app, place, array) {
  if (!app.predict || place.call !== app.step.call.id || !isMade(app, place) || array.kind !== "f") return null;
  return (flat) => !app.revealed.has(keyOf(app, place, flat));
}

export function isHidden(app, entry) {
  const hidden = hides(app, entry, entry.array);
  return hidden !== null && hidden(entry.flat);
}

// Judge a number that was typed: [whether it is right, a sentence].
function judge(typed, entry) {
  const value = entry.array.data[entry.flat];
  const near = Math.max(0.02 * Math.abs(value), 0.005 * largest(entry.array));
  if (Math.abs(typed - value) <= near) return [true, `Right: ${long(value, 6)}.`];
  if (Math.abs(typed + value) <= near) return [false, "The size is right, the sign is not."];
  return [false, elsewhere(typed, entry, near) || wrongFactor(typed, value, near) || wrongWay(typed, value)];
}

// Another entry of the array has this value.
function elsewhere(typed, entry, near) {
  const isIt = (number) => Math.abs(number) > 2 * near && Math.abs(typed - number) <= 0.01 * Math.abs(number);
  const flat = entry.array.data.findIndex((number, i) => i !== entry.flat && isIt(number));
  return flat >= 0 ? `Not here: this is ${entryName(entry.name, flat, entry.array.shape)}.` : "";
}

function wrongFactor(typed, value, near) {
  for (const factor of [2, 3, 4, 5, 8, 10]) {
    if (Math.abs(typed - value * factor) <= near) return `Too large by a factor of ${factor}.`;
    if (Math.abs(typed * factor - value) <= near) return `Too small by a factor of ${factor}.`;
  }
  return "";
}

function wrongWay(typed, value) {
  if (Math.sign(typed) !== Math.sign(value) && value !== 0) return "The sign is not right.";
  return Math.abs(typed) > Math.abs(value) ? "Too large." : "Too small.";
}

export function question(app, entry, name) {
  const answer = h("p", { class: "verdict", role: "status" });
  const power = powerText(powerOf(entry.array));
  const scaled = power ? ` The array is shown ${power}; type the number itself, such as 2.1e-3.` : "";
  const all = Array.from(entry.array.data.keys());
  const show = (label, places) => h("button", { type: "button", onclick: () => reveal(app, entry, places) }, label);
  return [
    h("h3", {}, h("code", {}, name), " = ?"),
    quiet("This step's numbers are hidden. Work one out, type it, press Enter; or choose another ? above."),
    guessForm(app, entry, answer),
    answer,
    quiet("Right means: within 2 %, or within half a percent of the array's largest entry.", scaled),
    ...hintsOf(app, entry),
    h("p", {}, show("Show it", [entry.flat]), " ", show("Show the whole array", all)),
  ];
}

function guessForm(app, entry, answer) {
  const input = h("input", { id: "guess", inputmode: "decimal", autocomplete: "off", size: "12" });
  const check = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const typed = Number(text.replace(/[\u2212\u2013]/g, "-").replace(",", "."));
    if (text === "" || !Number.isFinite(typed)) answer.textContent = "Type a number, such as -0.12.";
    else respond(app, entry, answer, judge(typed, entry));
  };
  const label = h("label", { for: "guess" }, "Your prediction");
  return h("form", { class: "guess", onsubmit: check }, label, input, h("button", { type: "submit" }, "Check"));
}

function respond(app, entry, answer, [isRight, text]) {
  app.score(isRight);
  answer.textContent = text;
  answer.className = `verdict ${isRight ? "agrees" : "differs"}`;
  if (isRight) reveal(app, entry, [entry.flat], text);
}

// Three hints, each says more: the names of what is added up, their numbers, the sign and the size of the answer.
function hintsOf(app, entry) {
  const split = app.split(entry);
  const value = entry.array.data[entry.flat];
  const size = value === 0 ? "It is exactly 0." : `It is ${value > 0 ? "above" : "below"} 0, and ${sizeText(value)}.`;
  const last = hint("sign and size", quiet(size));
  if (!split) return [last];
  const terms = split.list.filter((item) => item.term !== 0);
  const rows = (text) => terms.slice(0, MOST_HINTS).map((item) => h("li", {}, text(item)));
  const rest = terms.slice(MOST_HINTS);
  const more = rest.length ? h("li", {}, `and ${rest.length} more, which add ${short(sumOf(rest), "f")}`) : null;
  const around = split.around ? quiet(`then ${split.around}`) : null;
  const list = (text) => h("ul", { class: "hint" }, ...rows(text), more);
  return [
    hint("what to add up", list((item) => nameText(app, item)), around),
    hint("with numbers", list((item) => hintText(app, item)), around),
    last,
  ];
}

function hint(title, ...children) {
  return h("details", {}, h("summary", {}, `a hint: ${title}`), ...children);
}

function sizeText(value) {
  const power = Math.floor(Math.log10(Math.abs(value)));
  return `its size is between 1e${power} and 1e${power + 1}`;
}

function nameText(app, item) {
  if (item.factors) return (item.sign < 0 ? "\u2212 " : "") + item.factors.map(({ text }) => text).join(" · ");
  return hintText(app, item).replace(/:[^:]*$/, "");
}

// Begin: at the first gradient that is asked, which is scrolled into sight.
export function askFirst(app) {
  if (app.step.way === "forward") app.go(app.model.half);
  else app.redraw(null);
  const cell = byId("arrays").querySelector("td.hidden");
  if (!cell) return;
  cell.scrollIntoView({ block: "center" });
  app.pin(cell, true);
  byId("guess").focus({ preventScroll: true });
}

function hintText(app, item) {
  if (item.factors) return `${nameText(app, item)} = ${factorNumbers(item.factors, item.sign)}`;
  const array = arrayOf(app.model, named(app.model.calls[item.call][item.what], item.name).value);
  const name = entryName(item.name, item.flat, array ? array.shape : []);
  return `${name}: ${short(item.term, "f")}`;
}

// The numbers of a product.
export function factorNumbers(factors, sign) {
  return (sign < 0 ? "\u2212 " : "") + factors.map(({ value }) => brief(value)).join(" × ");
}

function reveal(app, entry, places, sentence) {
  places.forEach((flat) => app.revealed.add(keyOf(app, entry, flat)));
  app.redraw(entry);
  if (sentence) byId("entry").prepend(h("p", { class: "verdict agrees", role: "status" }, sentence));
}
