// One entry: its value, the terms that add up to it, their sum, and what two numerical witnesses say.

import { arrayOf, entriesOf, nameOf, scaleOf, splitOf, sum, witnessesOf } from "./model.js";
import { brief, entryName, largest, long, signed, short } from "./arrays.js";
import { byId, h, replace } from "./dom.js";
import { isHidden, question } from "./predict.js";

const MOST_BARS = 12;

export function showEntry(app, entry) {
  const box = byId("entry");
  if (!entry) {
    replace(box, h("p", { class: "quiet" }, "Point at a number, or move to it with Tab and the arrow keys: here stands what it is made of. Enter keeps it."));
    return;
  }
  const call = app.model.calls[entry.call];
  const name = entryName(entry.name, entry.flat, entry.array.shape);
  const difference = app.differenceOf(entry);
  if (isHidden(app, entry)) {
    replace(box, ...question(app, entry, name));
    return;
  }
  const value = entry.array.data[entry.flat];
  const parts = [h("h3", {}, h("code", {}, name), " = ", h("span", { class: "number" }, long(value)))];
  if (difference) parts.push(wrongAndRight(value, difference.data[entry.flat]));
  const description = described(app, entry, call);
  if (description) parts.push(h("p", { class: "what" }, ...description));
  const terms = splitOf(app.model, entry);
  if (!terms && entry.what === "gradients" && call.kind === "operation") parts.push(h("p", { class: "quiet missing" }, whyNone(app, call)));
  if (terms) parts.push(...bars(app, terms.list, value, terms.kind, entry));
  if (entry.what === "gradients") parts.push(...witnesses(app, call, entry, value), ...meaning(app, entry, call, value));
  replace(box, ...parts);
}

// Why the terms and witnesses of an operation's gradient are not on the page, and what shows them.
function whyNone(app, call) {
  const { most_terms: most, trace } = app.model;
  const size = (what) => entriesOf(app.model, call, what).reduce((all, each) => all + arrayOf(app.model, each.value).data.length, 0);
  const [made, came] = [size("gradients"), size("upstream") || 1];
  const many = (number) => number.toLocaleString("en");
  const shows = trace.kind === "model" || trace.kind === "layer" ? " npformer explain … --at NAME[INDEX] shows those of one number." : "";
  if (made * came <= most) return `Its terms and witnesses were not kept with this trace.${shows}`;
  return `Its terms and witnesses are not on this page: this call has ${many(made)} gradients × ${many(came)} entries of dy = ${many(made * came)} terms, and a page keeps those of calls with at most ${many(most)}.${shows} A smaller model, batch or text has fewer.`;
}

function wrongAndRight(value, difference) {
  return h("p", { class: "bugline" }, "with the bug ", h("b", {}, long(value + difference, 6)), `, wrong − right ${brief(difference)}`);
}

function described(app, entry, call) {
  const value = (name, what) => {
    const found = entriesOf(app.model, call, what).find((each) => each.name === name);
    return found ? arrayOf(app.model, found.value).data[entry.flat] : undefined;
  };
  if (entry.what === "gradients") {
    const of = call.gradients.find((each) => each.name === entry.name).of;
    const forward = value(of, "inputs");
    const parameter = (call.params || {})[of];
    const where = parameter ? ` of ${parameter.map((part) => part.parameter).join(", ")}` : "";
    return [`gradient of ${entryName(of, entry.flat, entry.array.shape)}${where}`, forward === undefined ? "" : ` = ${short(forward, "f")}`];
  }
  if (entry.what === "parameter") return ["gradient of a parameter: the sum over every call that used it"];
  if (entry.what === "added") return ["what the layer's own code adds to the parameter's gradient with the bug, minus what it adds without"];
  if (entry.what === "upstream") return ["arrives here: the sum over every use of this output"];
  const there = backwardOf(app, entry, call);
  if (there) {
    const [place, number] = there;
    const go = h("button", { class: "link", type: "button", onclick: () => app.follow(place) }, "see it in the backward pass");
    return [`${entry.what === "inputs" ? "came in" : "went out"}; its gradient is ${brief(number)}: `, go];
  }
  if (entry.what === "line") return ["made by a line of this operation"];
  return entry.what === "inputs" ? ["came in"] : ["went out"];
}

// The gradient of a value that came in or went out: where it stands in the same call's backward, and the number.
function backwardOf(app, entry, call) {
  const at = call.outputs.findIndex((each) => each.name === entry.name);
  const what = entry.what === "outputs" ? "upstream" : "gradients";
  const found = entry.what === "outputs" ? call.upstream[at] : entry.what === "inputs" ? call.gradients.find((each) => each.of === entry.name) : null;
  const array = found && arrayOf(app.model, found.value);
  return array ? [{ call: call.id, what, name: found.name, flat: entry.flat }, array.data[entry.flat]] : null;
}

function bars(app, list, value, kind, entry) {
  const total = sum(list);
  const sorted = list.filter((each) => each.term !== 0).sort((a, b) => Math.abs(b.term) - Math.abs(a.term));
  const zeros = list.length - sorted.length;
  const shown = sorted.length > MOST_BARS + 1 ? sorted.slice(0, MOST_BARS) : sorted;
  const rest = sorted.slice(shown.length);
  const most = shown.length ? Math.abs(shown[0].term) : 1;
  const of = entry.what === "gradients" ? app.model.calls[entry.call].gradients.find((each) => each.name === entry.name).of : "";
  const title = kind === "terms" ? `is the sum of ${sorted.length} ${sorted.length === 1 ? "term" : "terms"}: dy × slope ∂y/∂${of}` : `is the sum over ${sorted.length} ${sorted.length === 1 ? "use" : "uses"}`;
  const rows = shown.map((each) => bar(app, each, most, kind));
  const after = [];
  if (rest.length) after.push(`${rest.length} smaller terms add ${brief(sum(rest))}. `);
  if (zeros) after.push(`${zeros} ${zeros === 1 ? "term is" : "terms are"} exactly 0: nothing flows there. `);
  const apart = Math.abs(total - value);
  const scale = scaleOf(app.model, entry); // rounding is relative to the largest numbers of the whole array
  const agrees = apart <= 1e-12 * scale;
  const sumLine = h("p", { class: `sum ${agrees ? "agrees" : "differs"}`, "data-sum": total, "data-value": value, "data-scale": scale }, "sum ", h("b", {}, long(total)), agrees ? apart === 0 ? " ✓ the gradient, to the last digit" : ` ✓ the gradient, ${apart.toExponential(0).replace("-", "−")} apart` : " ✗ not the gradient");
  return [h("p", { class: "madeof" }, title), h("ul", { class: "bars" }, ...rows), after.length ? h("p", { class: "quiet" }, ...after) : null, sumLine];
}

function bar(app, each, most, kind) {
  const array = upstreamArray(app, each);
  const name = each.what === "added" ? "" : entryName(each.name, each.flat, array.shape);
  const owner = kind === "uses" ? `${nameOf(app.model.calls[each.call])} ${name}` : name;
  const factor = kind === "terms" && each.dy !== 0 ? h("span", { class: "factors" }, `${short(each.dy, "f")} × ${short(each.term / each.dy, "f")}`) : null;
  const share = (50 * Math.abs(each.term)) / most;
  const fillBar = h("i", { class: each.term > 0 ? "pos" : "neg" });
  fillBar.style.setProperty("--share", `${share}%`);
  const follow = () => app.follow(each);
  return h(
    "li",
    { class: kind },
    h("button", { type: "button", class: "term", onclick: follow, title: "go to this number", onpointerenter: () => app.mark(each), onpointerleave: () => app.mark(null) }, owner),
    factor,
    h("span", { class: "number" }, brief(each.term)),
    h("span", { class: "track", "aria-hidden": "true" }, fillBar),
  );
}

function upstreamArray(app, each) {
  if (each.what === "added") return { shape: [] };
  const entry = app.model.calls[each.call][each.what].find((other) => other.name === each.name);
  return arrayOf(app.model, entry.value) || { shape: [] };
}

function witnesses(app, call, entry, value) {
  const found = witnessesOf(app.model, call, entry.name, entry.flat);
  if (!found) return [];
  const scale = Math.max(largest(entry.array), 1e-300);
  const row = (label, number, most) => {
    if (number === null) return h("tr", {}, h("th", { scope: "row" }, label), h("td", { colspan: "2" }, "cannot be asked here"));
    const apart = Math.abs(number - value);
    const agrees = apart <= most * scale;
    return h("tr", { class: agrees ? "agrees" : "differs" }, h("th", { scope: "row" }, label), h("td", { class: "number" }, signed(number, 9)), h("td", {}, `${agrees ? "✓" : "✗"} ${apart === 0 ? "equal" : `${apart.toExponential(0).replace("-", "−")} apart`}`));
  };
  return [h("table", { class: "witnesses", "aria-label": "numerical witnesses" }, h("tbody", {}, row("complex step", found.complex, 1e-9), row("central difference", found.central, 1e-6)))];
}

function meaning(app, entry, call, value) {
  if (typeof app.model.trace.loss !== "number" || value === 0) return [];
  const of = call.gradients.find((each) => each.name === entry.name).of;
  return [h("p", { class: "means" }, `Raise ${entryName(of, entry.flat, entry.array.shape)} by 0.01, and the loss changes by about ${brief(0.01 * value)}.`)];
}
