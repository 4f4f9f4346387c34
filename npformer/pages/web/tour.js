// The tour: from the loss through one gradient to one weight, and what changing it does.

import { brief, long } from "./arrays.js";
import { byId, h, link, quiet, replace } from "./dom.js";

const FIRST = "Which letter was wrong, and by how much? In two minutes from the loss to one weight, and back.";

// Each: [what is said, where it is shown].
function stopsOf(app, told) {
  return [
    [[FIRST], null],
    [[lossStop(app, told)], told.loss],
    [[weightStop(told)], told.weight],
    [[changeStop(told, app.model.trace.loss), questions(app)], told.weight],
  ];
}

function letterText(app, { target, wrote, p }) {
  const name = (id) => `“${app.model.pieces?.names[id] ?? id}”`;
  const wrong = wrote === target ? "the model was least sure of it" : `the model would have written ${name(wrote)}`;
  return `Here ${name(target)} should come; ${wrong}. It gave ${name(target)} a probability of ${brief(p)}. `;
}

function lossStop(app, told) {
  const rises = "The number in sight is the gradient of its logit: below 0, so the loss falls if this logit rises.";
  return letterText(app, told) + rises;
}

function weightStop({ parameter, gradient }) {
  const sum = "A linear map made the logits. Every token used each of its weights, so a weight's gradient is a sum";
  return `${sum} of x·dy: its terms stand with the number. That of ${parameter} is ${brief(gradient)}.`;
}

function changeStop({ parameter, step, predicted, measured }, loss) {
  const change = `Change it: ${step > 0 ? "raise" : "lower"} ${parameter} by ${Math.abs(step)}.`;
  const falls = `The loss falls from ${long(loss, 6)} to ${long(loss + measured, 6)}.`;
  const found = `Another forward measured ${brief(measured)}, the gradient predicts ${brief(predicted)}.`;
  return `${change} ${falls} ${found} Training does this to every weight at once. Where to go on:`;
}

// What the page itself answers.
function questions(app) {
  const places = [
    ["why 1/√d_k?", "attention", "backward"],
    ["why has padding no gradient?", "cross_entropy", "backward"],
    ["a token that occurs twice?", "embedding", "backward"],
  ];
  const known = places.map(([text, type, way]) => [text, app.model.calls.find((call) => call.type === type), way]);
  const shown = known.filter(([, call]) => call && call.backward);
  const { "": href } = app.model.links;
  const all = href ? h("a", { class: "link", href, target: "_top" }, "all six questions") : null;
  const links = shown.map(([text, call, way]) => link(text, () => app.goCall(call.id, way)));
  return h("span", {}, ...[...links, all].flatMap((one) => [" ", one]));
}

export function buildTour(app) {
  const box = byId("tour");
  box.hidden = !app.model.tour;
  if (app.model.tour) showStop(app, stopsOf(app, app.model.tour), 0, false);
}

function showStop(app, stops, number, goes) {
  const [said, place] = stops[number];
  const go = (to) => () => showStop(app, stops, to, true);
  const button = (label, to) => h("button", { type: "button", onclick: go(to) }, label);
  const isLast = number === stops.length - 1;
  byId("tour").classList.toggle("going", number > 0); // then it stays in sight
  replace(
    byId("tour"),
    h("p", {}, ...said),
    h(
      "p",
      {},
      isLast ? button("again", 0) : button(number ? "on" : "show me", number + 1),
      number ? quiet(`${number} of ${stops.length - 1}`) : null,
      h("button", { type: "button", "aria-label": "close the tour", onclick: () => (byId("tour").hidden = true) }, "×"),
    ),
  );
  if (goes && place) app.follow(place);
}
