// The arrays of a step: what comes in, what each line makes, what goes on.

import { byId, h, keepInView, link, replace, setClasses } from "./dom.js";
import { card, thumbnail } from "./heatmap.js";
import { isLoss, labelsOf } from "./labels.js";
import { arrayOf, entriesOf, nameOf, named, parametersAt, plain, usersOf, wholeName } from "./model.js";
import { hides } from "./predict.js";
import { movedBy } from "./source.js";

export function showMiddle(app) {
  const { call, way } = app.step;
  replace(byId("heading"), ...heading(app, call, way));
  replace(byId("arrays"), ...(way === "forward" ? forwardSections(app, call) : backwardSections(app, call)));
}

function heading(app, call, way) {
  const path = wholeName(call).split(".");
  const last = path.pop();
  const before = path.length ? h("span", { class: "path" }, `${path.join(" › ")} › `) : null;
  const kind = call.kind === "operation" ? "operation" : `layer ${call.type}`;
  const sentences = way === "forward" ? [forwardSentence(app, call)] : backwardSentences(app, call);
  return [
    h("p", { class: `way ${way}` }, way, ` · ${kind}`),
    h("h2", {}, before, last, call.use > 1 ? ` (${call.use})` : ""),
    h("p", { class: "says" }, ...sentences),
  ];
}

function forwardSentence(app, call) {
  const names = (entries) => entries.map((entry) => entry.name).join(", ");
  return `reads ${names(entriesOf(app.model, call, "inputs")) || "no arrays"}, makes ${names(call.outputs)}.`;
}

// What happens in a step of the backward, in words, with ways to the neighbours.
function backwardSentences(app, call) {
  const isAdding = call.added.length && call.kind === "operation";
  return [
    ...entriesOf(app.model, call, "upstream").flatMap((entry) => arrival(app, call, entry.name)),
    ...entriesOf(app.model, call, "gradients").flatMap((entry) => departure(app, call, entry.name)),
    isAdding ? "The other gradients are added to parameters." : null,
  ];
}

function arrival(app, call, name) {
  const uses = call.uses[`upstream.${name}`] || [];
  const from = [...new Set(uses.map((use) => use.call))];
  const ways = from.flatMap((id, i) => [i ? " and " : " from ", linkTo(app, id)]);
  return [`${name} arrives`, ...ways, arrivalEnd(call, from.length)];
}

function arrivalEnd(call, count) {
  if (count > 1) return ": these gradients add. ";
  if (isLoss(call)) return ": it is 1, since this is the loss itself. ";
  return count ? ". " : " from outside: the trace was made with it. ";
}

function departure(app, call, name) {
  const goes = [...(app.model.goesTo.get(`${call.id}.${name}`) || [])];
  const to = goes.filter((id) => !app.model.calls[id].parts.length);
  if (!to.length) return [];
  return [`${name} goes on to `, ...to.flatMap((id, i) => [i ? ", " : null, linkTo(app, id)]), ". "];
}

// A link to a call's backward.
function linkTo(app, id) {
  return link(nameOf(app.model.calls[id]), () => app.goCall(id, "backward"));
}

function forwardSections(app, call) {
  const inputs = entriesOf(app.model, call, "inputs").map((entry) =>
    cardOf(app, call, "inputs", entry, parametersAt(call, entry.name)),
  );
  const outputs = entriesOf(app.model, call, "outputs").map((entry) => cardOf(app, call, "outputs", entry, ""));
  return [
    section("Comes in", inputs, optionsText(app, call)),
    insideSection(app, call),
    section("Goes on", outputs, keptText(app, call)),
  ];
}

function optionsText(app, call) {
  const options = call.inputs.filter((entry) => !arrayOf(app.model, entry.value) && plain(entry.value));
  return options.map((entry) => `${entry.name} = ${plain(entry.value)}`).join("  ·  ");
}

function keptText(app, call) {
  const kept = call.cache.filter(({ value }) => arrayOf(app.model, value) || (value && value.items));
  return kept.length ? `kept for the backward: ${kept.map((entry) => entry.name).join(", ")}` : "";
}

function backwardSections(app, call) {
  const isTrained = (entry) => call.kind === "operation" && call.params[entry.of];
  const gradients = entriesOf(app.model, call, "gradients");
  const pairOf = (entry) => gradientPair(app, call, entry, isTrained(entry) ? parametersAt(call, entry.of) : "came in");
  const below = gradients.filter((entry) => !isTrained(entry)).map(pairOf);
  return [
    section("Arrives from above", arrivedPairs(app, call), ""),
    insideSection(app, call),
    section("Goes on down", below, below.length ? "" : "nothing: tokens have no gradient"),
    section("Added to parameters", gradients.filter(isTrained).map(pairOf), ""),
    addedByBug(app, call),
    call.parent === null && call.parts.length ? parametersSection(app, call) : null,
  ];
}

function arrivedPairs(app, call) {
  const outputs = entriesOf(app.model, call, "outputs");
  return entriesOf(app.model, call, "upstream").map((entry, i) => {
    const value = outputs[i] && cardOf(app, call, "outputs", outputs[i], "went out");
    return pair(value, cardOf(app, call, "upstream", entry, "its gradient arrives"));
  });
}

function gradientPair(app, call, entry, note) {
  const input = named(entriesOf(app.model, call, "inputs"), entry.of);
  const value = input && cardOf(app, call, "inputs", input, note);
  return pair(value, cardOf(app, call, "gradients", entry, ""));
}

function pair(value, gradient) {
  return value ? h("div", { class: "pair" }, value, gradient) : gradient;
}

// With a bug: what a layer's own code, which has no lines here, adds to parameters beyond what it should.
function addedByBug(app, call) {
  const added = app.bug && app.bug.calls[call.id]?.added;
  const cards = Object.entries(added || {}).map(([name, place]) => {
    const array = app.model.arrays.get(place);
    const element = card({ call: call.id, what: "added", name, array, note: "wrong − right" });
    element.classList.add("differs");
    return element;
  });
  return section("Added to parameters by the layer itself", cards, "");
}

function section(title, cards, note) {
  if (!cards.length && !note) return null;
  const options = note ? h("p", { class: "options" }, note) : null;
  return part(title, options, h("div", { class: "cards" }, ...cards));
}

function part(title, ...children) {
  return h("section", { class: "part" }, h("h3", {}, title), ...children);
}

function cardOf(app, call, what, entry, note) {
  const place = { call: call.id, what, name: entry.name };
  return placeCard(app, place, arrayOf(app.model, entry.value), note, app.differenceOf(place));
}

// The card of an array of the current call; with a bug it says where nothing changed.
function placeCard(app, place, array, note, difference) {
  const isUnchanged = app.bug && !difference;
  const element = card({
    ...place,
    array,
    note: [note, isUnchanged ? "right, unchanged" : ""].filter(Boolean).join(" · "),
    labels: labelsOf(app.model, app.model.calls[place.call], place.name, array),
    difference,
    hides: hides(app, place, array),
  });
  if (isUnchanged) element.classList.add("unchanged");
  return element;
}

// What a layer's parts or an operation's lines do.
function insideSection(app, call) {
  return call.parts.length ? partsSection(app, call) : section("Made, line by line", lineCards(app, call), "");
}

// A card for each array that a line made and that has no other one.
function lineCards(app, call) {
  if (app.bug && !app.isFirstPlace()) return [];
  const seen = arraysBeside(app, call);
  const names = properNames(app.run.moments);
  const cards = [];
  for (const moment of app.run.moments) {
    for (const [name, array] of moment.values) {
      if (seen.has(array.name) || array.kind !== "f") continue;
      seen.add(array.name);
      cards.push(lineCard(app, moment, name, array, names));
    }
  }
  return cards;
}

// The names of the arrays that stand in other sections, or that the forward kept.
function arraysBeside(app, call) {
  const isForward = app.step.way === "forward";
  const kinds = isForward ? ["inputs", "outputs"] : ["outputs", "upstream", "inputs", "gradients", "cache"];
  return new Set(kinds.flatMap((what) => entriesOf(app.model, call, what)).map((entry) => entry.value));
}

// What an inner function returns has no name there; its caller gives it one.
function properNames(moments) {
  const names = new Map();
  for (const [name, array] of moments.flatMap((moment) => moment.values)) {
    if (name !== "returned" && !names.has(array.name)) names.set(array.name, name);
  }
  return names;
}

function lineCard(app, moment, name, array, names) {
  const place = {
    call: app.step.call.id,
    what: "line",
    name: name === "returned" ? names.get(array.name) || name : name,
  };
  const line = `line ${moment.line + movedBy(app, moment.frame.name)}`;
  const element = placeCard(app, place, array, line, app.lineDifference(moment, name, array));
  element.moment = moment.number;
  return element;
}

// A layer computes nothing itself: its parts do.
function partsSection(app, call) {
  const { way } = app.step;
  const ids = way === "forward" ? call.parts : [...call.parts].reverse();
  const rows = ids.map((id) => {
    const { label, kind, type } = app.model.calls[id];
    return h("li", {}, link(label, () => app.goCall(id, way)), ` ${kind === "layer" ? type : ""}`);
  });
  const title = `Its parts, in the order in which ${way === "forward" ? "they" : "their backward"} ran`;
  return part(title, h("ol", { class: "parts" }, ...rows));
}

// Every parameter's gradient, and the calls that added to it; of a parameter with several uses, the sum.
function parametersSection(app, call) {
  const { parameters } = app.model.trace;
  const titles = ["parameter", "value", "gradient", "added by"];
  const head = h("tr", {}, ...titles.map((title) => h("th", { scope: "col" }, title)));
  const rows = parameters.map((parameter) => parameterRow(app, parameter));
  return part(
    "Gradients of the parameters",
    h("div", { class: "cards" }, ...parameters.map((parameter) => parameterCard(app, call, parameter))),
    h("table", { class: "parameters" }, h("tbody", {}, head, ...rows)),
  );
}

function parameterRow(app, { name, value, gradient }) {
  const links = usersOf(app.model, name).flatMap((user, i) => [i ? ", " : null, linkTo(app, user.id)]);
  const pictures = [value, gradient].map((arrayId) => h("td", {}, thumbnail(app.model.arrays.get(arrayId))));
  return h("tr", {}, h("th", { scope: "row" }, name), ...pictures, h("td", {}, ...links));
}

// Of a parameter that several calls added to, or at which the page opens.
function parameterCard(app, call, { name, gradient }) {
  const { opens } = app.model;
  const uses = usersOf(app.model, name).length;
  const isAsked = opens && opens.what === "parameter" && opens.name === name;
  if (uses <= 1 && !isAsked) return null;
  const note = uses > 1 ? `the gradient: the sum over ${uses} calls` : "the gradient";
  return card({ call: call.id, what: "parameter", name, array: app.model.arrays.get(gradient), note });
}

// Cards of lines after the current one are dimmed, those of the current one are lit.
export function lightCards(app) {
  const isLast = app.moment === app.run.moments.length - 1;
  for (const figure of byId("arrays").querySelectorAll("figure.card")) {
    if (figure.moment === undefined) continue;
    const isNow = figure.moment === app.moment;
    setClasses(figure, { later: figure.moment > app.moment, now: isNow && !isLast });
    if (isNow) keepInView(figure, byId("middle"));
  }
}
