// Predict: what a step makes is hidden, and the reader types a number before seeing it.

import { arrayOf, splitOf, sum } from "./model.js";
import { entryName, largest, long, powerOf, powerText, short } from "./arrays.js";
import { byId, h } from "./dom.js";

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
export function judge(typed, entry) {
  const value = entry.array.data[entry.flat];
  const most = largest(entry.array);
  const near = Math.max(0.02 * Math.abs(value), 0.005 * most);
  const isNear = (number) => Math.abs(typed - number) <= near;
  if (isNear(value)) return [true, `Right: ${long(value, 6)}.`];
  if (isNear(-value)) return [false, "The size is right, the sign is not."];
  const other = entry.array.data.findIndex((number, i) => i !== entry.flat && Math.abs(number) > 2 * near && Math.abs(typed - number) <= 0.01 * Math.abs(number));
  if (other >= 0) return [false, `Not here: this is ${entryName(entry.name, other, entry.array.shape)}.`];
  for (const factor of [2, 3, 4, 5, 8, 10]) {
    if (isNear(value * factor) || Math.abs(typed / factor - value) <= near / factor) return [false, `Too large by a factor of ${factor}.`];
    if (Math.abs(typed * factor - value) <= near) return [false, `Too small by a factor of ${factor}.`];
  }
  if (Math.sign(typed) !== Math.sign(value) && value !== 0) return [false, "The sign is not right."];
  return [false, Math.abs(typed) > Math.abs(value) ? "Too large." : "Too small."];
}

export function question(app, entry, name) {
  const answer = h("p", { class: "verdict", role: "status" });
  const input = h("input", { id: "guess", inputmode: "decimal", autocomplete: "off", size: "12" });
  const check = (event) => {
    event.preventDefault();
    const typed = Number(input.value.trim().replace(/[\u2212\u2013]/g, "-").replace(",", "."));
    if (input.value.trim() === "" || !Number.isFinite(typed)) {
      answer.textContent = "Type a number, such as -0.12.";
      return;
    }
    const [isRight, text] = judge(typed, entry);
    app.score(isRight);
    answer.textContent = text;
    answer.className = `verdict ${isRight ? "agrees" : "differs"}`;
    if (isRight) reveal(app, entry, [entry.flat], text);
  };
  const all = Array.from(entry.array.data.keys());
  const power = powerOf(entry.array);
  const hint = hintOf(app, entry);
  return [
    h("h3", {}, h("code", {}, name), " = ?"),
    h("form", { class: "guess", onsubmit: check }, h("label", { for: "guess" }, "Your prediction"), input, h("button", { type: "submit" }, "Check")),
    answer,
    h("p", { class: "quiet" }, "Right means: within 2 %, or within half a percent of the array's largest entry.", power ? ` The array is shown ${powerText(power)}; type the number itself, such as 2.1e-3.` : ""),
    hint,
    h("p", {}, h("button", { type: "button", onclick: () => reveal(app, entry, [entry.flat]) }, "Show it"), " ", h("button", { type: "button", onclick: () => reveal(app, entry, all) }, "Show the whole array")),
  ];
}

// The factors of each term, without their products.
function hintOf(app, entry) {
  const split = splitOf(app.model, entry);
  if (!split) return null;
  const rows = split.list
    .filter((each) => each.term !== 0)
    .slice(0, 12)
    .map((each) => {
      const array = arrayOf(app.model, app.model.calls[each.call][each.what].find((other) => other.name === each.name).value);
      const name = entryName(each.name, each.flat, array ? array.shape : []);
      const factors = split.kind === "terms" ? `${short(each.dy, "f")} × ${short(each.term / each.dy, "f")}` : short(each.term, "f");
      return h("li", {}, `${name}: ${factors}`);
    });
  const more = split.list.filter((each) => each.term !== 0).length - rows.length;
  if (more > 0) rows.push(h("li", {}, `and ${more} more, which add ${short(sum(split.list.filter((each) => each.term !== 0).slice(12)), "f")}`));
  return h("details", {}, h("summary", {}, "a hint: what to add up"), h("ul", { class: "hint" }, ...rows));
}

function reveal(app, entry, places, said) {
  places.forEach((flat) => app.revealed.add(keyOf(app, entry, flat)));
  app.redraw(entry);
  if (said) byId("entry").prepend(h("p", { class: "verdict agrees", role: "status" }, said));
}
