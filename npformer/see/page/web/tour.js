// The tour: from the loss through one gradient to one weight, what changing it does, and where to go on.

import { brief, long, unravel } from "./arrays.js";
import { byId, h, link, quiet, replace } from "./dom.js";
import { arrayOf, named } from "./model.js";

const FIRST = "Which letter was wrong, and by how much? In two minutes from the loss to one weight, and back.";

// Each: what is said, the number where it is shown, and what the button says that goes on from here.
function stopsOf(app, told) {
  return [
    { said: [FIRST], place: null, next: "show me" },
    { said: [lossStop(app, told)], place: told.loss, next: "next" },
    { said: [weightStop(told)], place: told.weight, next: "next" },
    { said: [predictStop(told)], place: told.weight, next: changeOf(told, "it") },
    { said: [measureStop(told, app.model.trace.loss)], place: told.weight, next: null },
  ];
}

function lossStop(app, { target, wrote, p, loss }) {
  const name = (id) => `“${app.model.pieces?.names[id] ?? id}”`;
  const end = name(target) === "“[EOS]”" ? ", the end of the text" : "";
  const most = `Of all targets that count, this one got the lowest probability: ${long(p, 3)}.`;
  const wrong = wrote === target ? "" : ` The model would have written ${name(wrote)}.`;
  const rises = "The marked number is the gradient of its logit: below 0, so the loss falls if this logit rises.";
  return `${readSoFar(app, loss)}the target is ${name(target)}${end}. ${most}${wrong} ${rises}`;
}

// What stands before the target, where the tokens' names are known.
function readSoFar({ model }, { call, flat }) {
  const logits = arrayOf(model, model.calls[call].inputs[0].value);
  const [batch, row] = unravel(flat, logits.shape);
  const tokens = model.trace.tokens?.target_in;
  if (!model.pieces || tokens?.[batch]?.length !== logits.shape[1]) return "Here ";
  const read = tokens[batch].slice(0, row + 1).join(" ");
  const rule = "A row is what the decoder has read so far, its target is what comes next.";
  return `${rule} Batch ${batch}, row ${row}: it has read “${read}”, `;
}

function weightStop({ parameter, gradient }) {
  const sum = "A linear map made the logits. Every token used each of its weights, so a weight's gradient is a sum";
  return `${sum} of x·dy: its terms stand with the number. That of ${parameter} is ${brief(gradient)}.`;
}

function changeOf({ step }, what) {
  return `${step > 0 ? "raise" : "lower"} ${what} by ${Math.abs(step)}`;
}

function predictStop(told) {
  const sum = `${long(told.step)} · ${brief(told.gradient)} = ${brief(told.predicted)}`;
  return `Now ${changeOf(told, told.parameter)}. The gradient predicts that the loss changes by ${sum}.`;
}

function measureStop({ predicted, measured }, loss) {
  const found =
    `Predicted ${brief(predicted)}, measured ${brief(measured)} by another forward with the changed weight.`;
  const change = `The loss ${measured < 0 ? "falls" : "rises"} from ${long(loss, 6)} to ${long(loss + measured, 6)}.`;
  return `${found} ${change} Training does this to every weight at once. Where to go on:`;
}

// What the page itself answers: a question, what is said of the number that is chosen, and that number.
function questionsOf({ model }) {
  const scale = "Each term of this number is a product with the factor scale = 1/√d_k.";
  const padding = "This row's target is padding: its factor counted is 0, so each of its gradients is exactly 0.";
  const twice = (token) => `${token} stands at several places: this gradient is the sum of what comes from each.`;
  return [
    answerOf(model, "attention", "dk", "why 1/√d_k?", (array) => [largestOf(array), scale]),
    answerOf(model, "cross_entropy", "dlogits", "why has padding no gradient?", (array) => [
      rowOfZeros(array),
      padding,
    ]),
    answerOf(model, "embedding", "dtable", "a token that occurs twice?", (array, call) => {
      const id = repeatedOf(model, call, array);
      return [id * array.shape[1], twice(model.pieces ? `“${model.pieces.names[id]}”` : "This token")];
    }),
  ].filter(Boolean);
}

// choose: the place of a number within a gradient, below 0 or NaN if there is none, and what is said of it.
function answerOf(model, type, name, asked, choose) {
  const call = model.calls.find((one) => one.type === type && one.backward);
  const entry = call && named(call.gradients, name);
  const array = entry && arrayOf(model, entry.value);
  if (!array || array.leftOut) return null;
  const [flat, said] = choose(array, call);
  return flat >= 0 ? { asked, said, place: { call: call.id, what: "gradients", name, flat } } : null;
}

function largestOf({ data }) {
  const sizes = [...data].map(Math.abs);
  return sizes.indexOf(Math.max(...sizes));
}

// The first number of the first row that is all 0.
function rowOfZeros({ data, shape }) {
  const width = shape.at(-1);
  return data.findIndex((_, i) => i % width === 0 && data.slice(i, i + width).every((number) => number === 0));
}

// The first token id that an embedding reads again, of those with a gradient.
function repeatedOf(model, call, { data, shape }) {
  const ids = call.inputs.map((entry) => arrayOf(model, entry.value)).find((array) => array?.kind === "i");
  const isAgain = (id, i) => data[id * shape[1]] !== 0 && ids.data.indexOf(id) < i;
  return ids && !ids.leftOut ? (ids.data.find(isAgain) ?? NaN) : NaN;
}

// Ways to them, and to the list of all.
function waysOn(app, stops) {
  const ways = questionsOf(app).map(({ asked, said, place }) =>
    link(asked, () => showStop(app, stops, { said: [`${asked} ${said} Where to go on:`], place, next: null })),
  );
  const { "": start } = app.model.links;
  const href = start && `${start}#questions`;
  const all = start ? h("a", { class: "link", href, target: "_top" }, "all six questions") : null;
  return h("span", {}, ...[...ways, all].flatMap((one) => [" ", one]));
}

export function buildTour(app) {
  const box = byId("tour");
  box.hidden = !app.model.tour;
  if (!app.model.tour) return;
  const stops = stopsOf(app, app.model.tour);
  showStop(app, stops, stops[0]);
}

// A stop that is none of the stops answers a question at their end.
function showStop(app, stops, stop) {
  const { said, place, next } = stop;
  const number = stops.indexOf(stop);
  const to = next ? stops[number + 1] : stops[0];
  const go = h("button", { type: "button", onclick: () => showStop(app, stops, to) }, next || "again");
  const close = { type: "button", "aria-label": "close the tour", onclick: () => (byId("tour").hidden = true) };
  byId("tour").classList.toggle("going", number !== 0); // then it stays in sight
  replace(
    byId("tour"),
    h("p", {}, ...said, next ? null : waysOn(app, stops)),
    h("p", {}, go, number > 0 ? quiet(`${number} of ${stops.length - 1}`) : null, h("button", close, "×")),
  );
  if (place) app.follow(place);
}
