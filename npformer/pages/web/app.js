// What is shown, and how it changes: the step, the line, the number, the bug.

import { lineDifference, showBug } from "./bugs.js";
import { byId } from "./dom.js";
import { showEntry } from "./entry.js";
import { markGraph } from "./graph.js";
import { lightCards, showMiddle } from "./middle.js";
import { splitOf, stepOf } from "./model.js";
import { runOf } from "./moments.js";
import { lightLine, showSource } from "./source.js";
import { markTimeline } from "./timeline.js";
import { markTree } from "./tree.js";

export class App {
  constructor(model) {
    this.model = model;
    this.step = model.steps[0];
    this.moment = 0;
    this.run = { moments: [] };
    this.bug = null;
    this.pinned = null;
    this.predict = false;
    this.revealed = new Set();
    this.right = this.tried = 0;
    this.timer = null;
    model.goesTo = goesTo(model);
  }

  sources() {
    return this.isFirstPlace() ? { ...this.model.trace.sources, ...this.bug.sources } : this.model.trace.sources;
  }

  isFirstPlace() {
    return Boolean(this.bug) && this.bug.lines.length > 0 && this.bug.first.call === this.step.call.id && this.bug.first.way === this.step.way;
  }

  // How much a call's results differ with the bug, from 0 to 1: by powers of ten, from 1e-6 to 1.
  sizeOf(call, way) {
    const size = this.bug ? (this.bug.sizes[call] || {})[way] : 0;
    if (size === null) return 1;
    return size ? Math.min(1, Math.max(0.15, 1 + Math.log10(size) / 6)) : 0;
  }

  differenceOf(place) {
    if (!this.bug || place.what === "line") return null;
    const found = ((this.bug.calls[place.call] || {})[place.what] || {})[place.name];
    return found ? this.model.arrays.get(found) : null;
  }

  lineDifference(moment, name, array) {
    return lineDifference(this, moment, name, array);
  }

  go(number) {
    if (number < 0 || number >= this.model.steps.length) return;
    this.step = this.model.steps[number];
    byId("middle").scrollTop = byId("code").scrollTop = 0;
    this.redraw(null);
    const top = byId("middle").getBoundingClientRect().top;
    if (top < 0) window.scrollBy(0, top - 8); // a narrow page scrolls as a whole
    clearTimeout(this.address);
    this.address = setTimeout(() => setAddress(number + 1), 250);
  }

  redraw(entry) {
    const { call, way } = this.step;
    const names = way === "backward" ? call.gradients.map((each) => each.name) : call.outputs.map((each) => each.name);
    this.run = call[way].function ? runOf(this.model, call[way], names) : { moments: [] };
    this.rightRun = this.run;
    if (this.isFirstPlace()) this.run = runOf(this.model, { function: this.bug.function, lines: this.bug.lines }, names);
    this.moment = this.run.moments.length - 1;
    this.pinned = entry;
    document.documentElement.classList.toggle("haspin", Boolean(entry));
    showMiddle(this);
    showSource(this);
    showBug(this);
    showEntry(this, entry);
    markTimeline(this);
    markTree(this);
    markGraph(this);
    byId("previous").disabled = this.step.number === 0;
    byId("next").disabled = this.step.number === this.model.steps.length - 1;
    if (entry) this.cellOf(entry)?.classList.add("pinned");
  }

  goMoment(number) {
    if (number < 0) return this.go(this.step.number - 1);
    if (number >= this.run.moments.length) return this.go(this.step.number + 1);
    this.moment = number;
    lightLine(this, true);
    lightCards(this);
  }

  // Open the page at a number: its call, the line that makes it, and its terms.
  open(place) {
    this.go(stepFor(this.model, place).number);
    clearTimeout(this.address); // without a step in its address the page opens here again
    const cell = this.cellOf(place);
    const line = cell ? this.run.moments.findIndex((moment) => moment.values.some(([, array]) => array.name === cell.entry.array.name)) : -1;
    if (line >= 0) this.goMoment(line);
    if (cell) this.pin(cell, true);
  }

  // Go to the step that made a number, and keep that number in sight.
  follow(place) {
    const step = stepFor(this.model, place);
    if (step && step !== this.step) this.go(step.number);
    const cell = this.cellOf(place);
    if (cell) this.pin(cell, true);
  }

  cellOf(place) {
    const cell = [...byId("arrays").querySelectorAll("td")].find((each) => each.entry && isSame(each.entry, place));
    return cell || this.pictureOf(place);
  }

  // A large array's picture, with the number chosen in it.
  pictureOf(place) {
    const isOf = (figure) => figure.spec.call === place.call && figure.spec.what === place.what && figure.spec.name === place.name;
    const figure = [...byId("arrays").querySelectorAll("figure.card")].find(isOf);
    const found = figure && [...figure.querySelectorAll("canvas")].find((canvas) => canvas.holds(place.flat));
    if (found) found.choose(place.flat, false);
    return found;
  }

  pin(cell, focuses) {
    byId("arrays").querySelector(".pinned")?.classList.remove("pinned");
    cell.classList.add("pinned");
    this.pinned = cell.entry;
    document.documentElement.classList.add("haspin");
    showEntry(this, cell.entry);
    this.markTerms(cell.entry);
    if (focuses) cell.focus({ preventScroll: false });
  }

  unpin() {
    byId("arrays").querySelector(".pinned")?.classList.remove("pinned");
    this.pinned = null;
    document.documentElement.classList.remove("haspin");
    this.markTerms(null);
    showEntry(this, null);
  }

  look(cell) {
    showEntry(this, cell ? cell.entry : this.pinned);
    this.markTerms(cell ? cell.entry : this.pinned);
  }

  // Outline the entries whose terms add up to this one, as far as they are in sight.
  markTerms(entry) {
    for (const cell of byId("arrays").querySelectorAll("td.term")) cell.classList.remove("term");
    const split = entry && this.split(entry);
    if (!split) return;
    const used = new Set(split.list.filter((each) => each.term !== 0).map((each) => `${each.call}.${each.what}.${each.name}.${each.flat}`));
    for (const cell of byId("arrays").querySelectorAll("td")) {
      const own = cell.entry;
      if (own && used.has(`${own.call}.${own.what}.${own.name}.${own.flat}`)) cell.classList.add("term");
    }
  }

  mark(place) {
    byId("arrays").querySelector(".pointed")?.classList.remove("pointed");
    if (place) this.cellOf(place)?.classList.add("pointed");
  }

  // The terms that add up to an entry, and their sum.
  split(entry) {
    return splitOf(this.model, entry);
  }

  score(isRight) {
    this.tried += 1;
    this.right += isRight ? 1 : 0;
    byId("score").textContent = `${this.right} right of ${this.tried}`;
  }

  play() {
    const button = byId("play");
    if (this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    } else {
      if (this.step.number === this.model.steps.length - 1) this.go(0);
      this.timer = setInterval(() => {
        this.go(this.step.number + 1);
        if (this.step.number === this.model.steps.length - 1) this.play();
      }, 1100);
    }
    const isOn = this.timer !== null;
    button.textContent = isOn ? "❚❚" : "▶";
    button.setAttribute("aria-label", isOn ? "pause" : "play");
    button.setAttribute("aria-pressed", String(isOn));
  }
}

// The step that shows a number.
function stepFor(model, place) {
  const way = ["gradients", "upstream", "added", "parameter"].includes(place.what) ? "backward" : "forward";
  return stepOf(model, place.call, way);
}

// The step stands in the page's address, for a link to it.
function setAddress(number) {
  try {
    history.replaceState(null, "", `#${number}`);
  } catch {
    // a page inside another one may not have an address of its own
  }
}

function isSame(a, b) {
  return a.call === b.call && a.what === b.what && a.name === b.name && a.flat === b.flat;
}

// call.gradient -> the calls at which it arrives.
function goesTo(model) {
  const found = new Map();
  for (const [id, uses] of Object.entries(model.flows.fan_in)) {
    for (const [target, list] of Object.entries(uses)) {
      if (!target.startsWith("upstream.")) continue;
      for (const use of list) {
        const key = `${use.call}.${use.gradient}`;
        found.set(key, [...new Set([...(found.get(key) || []), Number(id)])]);
      }
    }
  }
  return found;
}
