// The arrays of a step: what comes in, what each line makes, what goes on.

import { arrayOf, entriesOf, nameOf, plain, stepOf, usersOf } from "./model.js";
import { byId, h, replace } from "./dom.js";
import { card, thumbnail } from "./heatmap.js";
import { labelsOf } from "./labels.js";
import { hides } from "./predict.js";
import { keepInView, movedBy } from "./source.js";

export function showMiddle(app) {
  const { step } = app;
  replace(byId("heading"), ...heading(app, step));
  const seen = new Set();
  const parts = step.way === "forward" ? forwardParts(app, step.call, seen) : backwardParts(app, step.call, seen);
  replace(byId("arrays"), ...parts.filter(Boolean));
}

function heading(app, step) {
  const { call } = step;
  const path = (call.name || call.type).split(".");
  const last = path.pop();
  const kind = call.kind === "operation" ? "operation" : `layer ${call.type}`;
  return [
    h("p", { class: `way ${step.way}` }, step.way, ` · ${kind}`),
    h("h2", {}, path.length ? h("span", { class: "path" }, path.join(" › ") + " › ") : null, last, call.use > 1 ? ` (${call.use})` : ""),
    h("p", { class: "says" }, ...sentence(app, step)),
  ];
}

// What happens in this step, in words, with ways to the neighbours.
function sentence(app, step) {
  const { call } = step;
  const link = (id, way) => {
    const other = stepOf(app.model, id, way);
    const label = app.model.calls[id];
    return h("button", { class: "link", type: "button", onclick: () => other && app.go(other.number) }, nameOf(label));
  };
  if (step.way === "forward") {
    const names = call.inputs.filter((entry) => arrayOf(app.model, entry.value)).map((entry) => entry.name);
    return [`reads ${names.join(", ") || "no arrays"}, makes ${call.outputs.map((entry) => entry.name).join(", ")}.`];
  }
  const made = [];
  for (const entry of entriesOf(app.model, call, "upstream")) {
    const from = sources(app.model, call, entry.name);
    made.push(`${entry.name} arrives`);
    from.forEach((id, i) => made.push(i ? " and " : " from ", link(id, "backward")));
    const isLoss = call.type === "cross_entropy" && call.parent === null;
    made.push(from.length > 1 ? ": these gradients add. " : isLoss ? ": it is 1, since this is the loss itself. " : from.length ? ". " : " from outside: the trace was made with it. ");
  }
  for (const entry of entriesOf(app.model, call, "gradients")) {
    const to = (app.model.goesTo.get(`${call.id}.${entry.name}`) || []).filter((id) => !app.model.calls[id].parts.length);
    if (to.length) made.push(`${entry.name} goes on to `, ...to.flatMap((id, i) => (i ? [", ", link(id, "backward")] : [link(id, "backward")])), ". ");
  }
  if (call.added.length && call.kind === "operation") made.push("The other gradients are added to parameters.");
  return made;
}

function sources(model, call, name) {
  const uses = (model.flows.fan_in[call.id] || {})[`upstream.${name}`] || [];
  return [...new Set(uses.map((use) => use.call))];
}

function forwardParts(app, call, seen) {
  const inputs = entriesOf(app.model, call, "inputs");
  const options = call.inputs.filter((entry) => !arrayOf(app.model, entry.value) && plain(entry.value));
  const taken = inputs.map((entry) => make(app, call, "inputs", entry, seen, parameter(call, entry.name)));
  const outputs = entriesOf(app.model, call, "outputs");
  const last = outputs.map((entry) => make(app, call, "outputs", entry, seen, ""));
  const kept = call.cache.filter((entry) => arrayOf(app.model, entry.value) || (entry.value && entry.value.items));
  return [
    section("Comes in", taken, options.map((entry) => `${entry.name} = ${plain(entry.value)}`).join("  ·  ")),
    parts(app, call) || section("Made, line by line", lineCards(app, call, seen), ""),
    section("Goes on", last, kept.length ? `kept for the backward: ${kept.map((entry) => entry.name).join(", ")}` : ""),
  ];
}

function backwardParts(app, call, seen) {
  const outputs = entriesOf(app.model, call, "outputs");
  const arrived = entriesOf(app.model, call, "upstream").map((entry, i) => {
    const value = outputs[i] && make(app, call, "outputs", outputs[i], seen, "went out");
    return pair(value, make(app, call, "upstream", entry, seen, "its gradient arrives"));
  });
  const isParameter = (entry) => call.kind === "operation" && (call.params || {})[entry.of];
  const below = [];
  const trained = [];
  for (const entry of entriesOf(app.model, call, "gradients")) {
    const input = call.inputs.find((each) => each.name === entry.of);
    const value = input && arrayOf(app.model, input.value) ? make(app, call, "inputs", input, seen, isParameter(entry) ? parameter(call, entry.of) : "came in") : null;
    (isParameter(entry) ? trained : below).push(pair(value, make(app, call, "gradients", entry, seen, "")));
  }
  return [
    section("Arrives from above", arrived, ""),
    parts(app, call) || section("Made, line by line", lineCards(app, call, seen), ""),
    section("Goes on down", below, below.length ? "" : "nothing: tokens have no gradient"),
    section("Added to parameters", trained, ""),
    addedByBug(app, call),
    call.parent === null && call.parts.length ? parameters(app, call) : null,
  ];
}

// With a bug: what a layer's own code, which has no lines here, adds to parameters beyond what it should.
function addedByBug(app, call) {
  const found = Object.entries((app.bug && (app.bug.calls[call.id] || {}).added) || {});
  const cards = found.map(([name, place]) => card({ call: call.id, what: "added", name, array: app.model.arrays.get(place), note: "wrong − right" }));
  cards.forEach((each) => each.classList.add("differs"));
  return section("Added to parameters by the layer itself", cards, "");
}

function parameter(call, name) {
  const found = (call.params || {})[name];
  return found ? found.map((part) => part.parameter).join(", ") : "";
}

function section(title, cards, note) {
  if (!cards.length && !note) return null;
  return h("section", { class: "part" }, h("h3", {}, title), note ? h("p", { class: "options" }, note) : null, h("div", { class: "cards" }, ...cards));
}

function pair(value, gradient) {
  return value ? h("div", { class: "pair" }, value, gradient) : gradient;
}

function make(app, call, what, entry, seen, note) {
  const array = arrayOf(app.model, entry.value);
  seen.add(array.name);
  const place = { call: call.id, what, name: entry.name };
  const difference = app.differenceOf(place);
  const isUnchanged = app.bug && !difference;
  const made = card({
    ...place,
    array,
    note: [note, isUnchanged ? "unchanged" : ""].filter(Boolean).join(" · "),
    labels: labelsOf(app.model, call, entry.name, array),
    difference,
    hides: hides(app, place, array),
  });
  if (isUnchanged) made.classList.add("unchanged");
  return made;
}

// A card for each array that a line made and that is neither an input nor shown before; results are shown below.
function lineCards(app, call, seen) {
  if (app.bug && !app.isFirstPlace()) return [];
  const results = new Set(entriesOf(app.model, call, app.step.way === "forward" ? "outputs" : "gradients").map((entry) => entry.value));
  entriesOf(app.model, call, "cache").forEach((entry) => app.step.way === "backward" && seen.add(entry.value));
  entriesOf(app.model, call, "inputs").forEach((entry) => seen.add(entry.value));
  const cards = [];
  const names = properNames(app.run.moments);
  for (const moment of app.run.moments) {
    for (const [first, array] of moment.values) {
      const name = first === "returned" ? names.get(array.name) || first : first;
      if (seen.has(array.name) || results.has(array.name) || array.kind !== "f") continue;
      seen.add(array.name);
      const place = { call: call.id, what: "line", name };
      const difference = app.lineDifference(moment, first, array);
      const made = card({
        ...place,
        array,
        note: `line ${moment.line + movedBy(app, moment.frame.name)}${app.bug && !difference ? " · unchanged" : ""}`,
        labels: labelsOf(app.model, call, name, array),
        difference,
        hides: hides(app, place, array),
      });
      made.moment = moment.number;
      if (app.bug && !difference) made.classList.add("unchanged");
      cards.push(made);
    }
  }
  return cards;
}

// What an inner function returns has no name there; its caller gives it one.
function properNames(moments) {
  const names = new Map();
  for (const [name, array] of moments.flatMap((moment) => moment.values)) {
    if (name !== "returned" && !names.has(array.name)) names.set(array.name, name);
  }
  return names;
}

// A layer computes nothing itself: its parts do.
function parts(app, call) {
  if (!call.parts.length) return null;
  const order = app.step.way === "forward" ? call.parts : [...call.parts].reverse();
  const buttons = order.map((id) => {
    const other = stepOf(app.model, id, app.step.way);
    const go = () => other && app.go(other.number);
    return h("li", {}, h("button", { class: "link", type: "button", onclick: go }, app.model.calls[id].label), ` ${app.model.calls[id].kind === "layer" ? app.model.calls[id].type : ""}`);
  });
  const text = app.step.way === "forward" ? "Its parts, in the order in which they ran" : "Its parts, in the order in which their backward ran";
  return h("section", { class: "part" }, h("h3", {}, text), h("ol", { class: "parts" }, ...buttons));
}

// Every parameter's gradient, and the calls that added to it; of a parameter with several uses, the sum.
function parameters(app, call) {
  const shared = [];
  const rows = app.model.trace.parameters.map(({ name, value, gradient }) => {
    const users = usersOf(app.model, name);
    const links = users.flatMap((user, i) => {
      const go = () => app.go(stepOf(app.model, user.id, "backward").number);
      return [i ? ", " : "", h("button", { class: "link", type: "button", onclick: go }, nameOf(user))];
    });
    const array = app.model.arrays.get(gradient);
    const isAsked = app.model.opens && app.model.opens.what === "parameter" && app.model.opens.name === name;
    if (users.length > 1 || isAsked) shared.push(card({ call: call.id, what: "parameter", name, array, note: users.length > 1 ? `the gradient: the sum over ${users.length} calls` : "the gradient" }));
    const small = [value, gradient].map((each) => h("td", {}, thumbnail(app.model.arrays.get(each))));
    return h("tr", {}, h("th", { scope: "row" }, name), ...small, h("td", {}, ...links));
  });
  const head = h("tr", {}, ...["parameter", "value", "gradient", "added by"].map((title) => h("th", { scope: "col" }, title)));
  return h("section", { class: "part" }, h("h3", {}, "Gradients of the parameters"), h("div", { class: "cards" }, ...shared), h("table", { class: "parameters" }, h("tbody", {}, head, ...rows)));
}

// Cards of lines after the current one are dimmed, those of the current one are lit.
export function lightCards(app) {
  for (const figure of byId("arrays").querySelectorAll("figure.card")) {
    if (figure.moment === undefined) continue;
    figure.classList.toggle("later", figure.moment > app.moment);
    const isNow = figure.moment === app.moment;
    figure.classList.toggle("now", isNow && app.moment < app.run.moments.length - 1);
    if (isNow) keepInView(figure, byId("middle"));
  }
}
