// What is shown, and how it changes: the step, the line, the number, the bug.

import { remember } from "./address.js";
import { lineDifference, showBug } from "./bugs.js";
import { byId, setClasses, uncover } from "./dom.js";
import { showEntry } from "./entry.js";
import { markGraph } from "./graph.js";
import { lightCards, showMiddle } from "./middle.js";
import { splitOf, stepOf } from "./model.js";
import { runOf } from "./moments.js";
import { lightLine, showSource } from "./source.js";
import { markTimeline } from "./timeline.js";
import { markTree } from "./tree.js";

const NOWHERE = { call: null, way: null };
const BACKWARD = ["gradients", "upstream", "added", "parameter"];
const STEP_TIME = 1100; // milliseconds, while the page plays

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
    this.onlyOperations = false;
    this.isFresh = true; // no line was chosen since the step began
  }

  sources() {
    const { sources } = this.model.trace;
    return this.isFirstPlace() ? { ...sources, ...this.bug.sources } : sources;
  }

  // The call and the way in which numbers differ first with the bug.
  get first() {
    return this.bug ? this.bug.first : NOWHERE;
  }

  // Whether the step shows the lines that the bug changed.
  isFirstPlace() {
    const { call, way } = this.step;
    return this.first.call === call.id && this.first.way === way && this.bug.lines.length > 0;
  }

  // How much a call's results differ with the bug, from 0 to 1: by powers of ten, from 1e-6 to 1.
  sizeOf(call, way) {
    const size = this.bug?.sizes[call]?.[way];
    if (size === null) return 1;
    return size ? Math.min(1, Math.max(0.15, 1 + Math.log10(size) / 6)) : 0;
  }

  differenceOf(place) {
    if (!this.bug || place.what === "line") return null;
    const arrayId = this.bug.calls[place.call]?.[place.what]?.[place.name];
    return arrayId ? this.model.arrays.get(arrayId) : null;
  }

  lineDifference(moment, name, array) {
    return lineDifference(this, moment, name, array);
  }

  go(number) {
    if (number < 0 || number >= this.model.steps.length) return;
    this.step = this.model.steps[number];
    byId("middle").scrollTop = byId("code").scrollTop = 0;
    this.redraw(null);
    const { top } = byId("middle").getBoundingClientRect();
    if (top < 0) window.scrollBy(0, top - 8); // a narrow page scrolls as a whole
    remember(this, this.timer === null);
  }

  // Step on, or back: to the next operation, if only these are asked for.
  goBy(by) {
    let number = this.step.number + by;
    const isPassed = (step) => step && this.onlyOperations && step.call.parts.length > 0;
    while (isPassed(this.model.steps[number])) number += by;
    this.go(number);
  }

  // Go to a call; to its forward, if it has no backward.
  goCall(id, way) {
    const step = stepOf(this.model, id, way) || stepOf(this.model, id, "forward");
    this.go(step.number);
  }

  redraw(entry) {
    this.readRun();
    this.moment = this.run.moments.length - 1;
    this.isFresh = true;
    this.setPinned(entry);
    showMiddle(this);
    showSource(this);
    showBug(this);
    showEntry(this, entry);
    markTimeline(this);
    markTree(this);
    markGraph(this);
    byId("previous").disabled = this.step.number === 0;
    byId("next").disabled = this.isAtEnd();
    if (entry) this.cellOf(entry)?.classList.add("pinned");
  }

  // The lines of this step, at the bug's first place with it; rightRun without it.
  readRun() {
    const { call, way } = this.step;
    const results = way === "backward" ? call.gradients : call.outputs;
    const run = (event) => runOf(this.model, event, results.map((result) => result.name));
    this.rightRun = call[way].function ? run(call[way]) : { moments: [] };
    this.run = this.isFirstPlace() ? run(this.bug) : this.rightRun;
  }

  setPinned(entry) {
    this.pinned = entry;
    document.documentElement.classList.toggle("haspin", Boolean(entry));
  }

  isAtEnd() {
    return this.step.number === this.model.steps.length - 1;
  }

  goMoment(number) {
    if (number < 0) return this.goBy(-1);
    if (number >= this.run.moments.length) return this.goBy(1);
    this.moment = number;
    this.isFresh = false;
    lightLine(this, true);
    lightCards(this);
  }

  // A line on: a step begins with its first, though all that it made is in sight.
  goDown() {
    this.goMoment(this.isFresh && this.run.moments.length > 1 ? 0 : this.moment + 1);
  }

  // Open the page at a number: its call, the line that makes it, and its terms.
  open(place) {
    this.go(stepFor(this.model, place).number);
    const cell = this.cellOf(place);
    if (!cell) return;
    const isMade = ([, array]) => array.name === cell.entry.array.name;
    const line = this.run.moments.findIndex((moment) => moment.values.some(isMade));
    if (line >= 0) this.goMoment(line);
    this.pin(cell, true);
  }

  // Go to the step that made a number, and keep that number in sight.
  follow(place) {
    const step = stepFor(this.model, place);
    if (step && step !== this.step) this.go(step.number);
    const cell = this.cellOf(place);
    if (cell) this.pin(cell, true);
  }

  // Go to a number that a line of a call read: in this step, or where the call's forward made or read it.
  followFactor({ array, flat }) {
    const { call } = this.step;
    if (!this.cellOfNumber(array, flat)) this.goCall(call.id, "forward");
    const cell = this.cellOfNumber(array, flat);
    if (cell) this.pin(cell, true);
  }

  cellOfNumber(array, flat) {
    const isIt = ({ entry }) => entry && entry.array.name === array.name && entry.flat === flat;
    return cells().find(isIt) || this.pictureOf((spec) => spec.array.name === array.name, flat);
  }

  cellOf(place) {
    const isIt = ({ entry }) => entry && isOfArray(entry, place) && entry.flat === place.flat;
    return cells().find(isIt) || this.pictureOf((spec) => isOfArray(spec, place), place.flat);
  }

  // A large array's picture, with the number chosen in it.
  pictureOf(isIt, flat) {
    const figures = [...byId("arrays").querySelectorAll("figure.card")];
    const figure = figures.find(({ spec }) => isIt(spec));
    const heatmap = figure && [...figure.querySelectorAll("canvas")].find((canvas) => canvas.holds(flat));
    if (heatmap) heatmap.choose(flat, false);
    return heatmap;
  }

  pin(cell, focuses) {
    byId("arrays").querySelector(".pinned")?.classList.remove("pinned");
    cell.classList.add("pinned");
    this.setPinned(cell.entry);
    this.look(null);
    remember(this, true);
    if (!focuses) return;
    cell.focus({ preventScroll: false });
    uncover(cell);
  }

  unpin() {
    byId("arrays").querySelector(".pinned")?.classList.remove("pinned");
    this.setPinned(null);
    this.look(null);
  }

  // Show a cell's number; without one, the number that is pinned.
  look(cell) {
    const entry = cell ? cell.entry : this.pinned;
    showEntry(this, entry);
    this.markTerms(entry);
  }

  // Outline the entries whose terms add up to this one, as far as they are in sight.
  markTerms(entry) {
    const split = entry && this.split(entry);
    const terms = split ? split.list.filter((item) => item.term !== 0) : [];
    const used = new Set(terms.flatMap((item) => (item.factors ? item.factors.map(numberKey) : [entryKey(item)])));
    const isUsed = ({ entry: one }) => Boolean(one) && (used.has(entryKey(one)) || used.has(numberKey(one)));
    for (const cell of cells()) setClasses(cell, { term: isUsed(cell) });
  }

  // Whether an array is one of the trace, not one that was made for its terms.
  isOfTrace({ name }) {
    return name.startsWith("a");
  }

  mark(place) {
    byId("arrays").querySelector(".pointed")?.classList.remove("pointed");
    if (place) this.cellOf(place)?.classList.add("pointed");
  }

  // The terms that add up to an entry, and their sum.
  split(entry) {
    return splitOf(this.model, entry, this.step.way);
  }

  score(isRight) {
    this.tried += 1;
    this.right += isRight ? 1 : 0;
    byId("score").textContent = `${this.right} right of ${this.tried}`;
  }

  // Play, or pause.
  play() {
    if (this.timer === null) this.startTimer();
    else this.stopTimer();
    const isOn = this.timer !== null;
    const button = byId("play");
    button.textContent = isOn ? "❚❚" : "▶";
    button.setAttribute("aria-label", isOn ? "pause" : "play");
    button.setAttribute("aria-pressed", String(isOn));
  }

  startTimer() {
    if (this.isAtEnd()) this.go(0);
    this.timer = setInterval(() => {
      this.goBy(1);
      if (this.isAtEnd()) this.play();
    }, STEP_TIME);
  }

  stopTimer() {
    clearInterval(this.timer);
    this.timer = null;
  }
}

// The step that shows a number.
function stepFor(model, place) {
  return stepOf(model, place.call, BACKWARD.includes(place.what) ? "backward" : "forward");
}

// The cells of all tables in sight.
function cells() {
  return [...byId("arrays").querySelectorAll("td")];
}

function isOfArray(entry, place) {
  return entry.call === place.call && entry.what === place.what && entry.name === place.name;
}

// The number of an array, wherever it is shown.
function numberKey({ array, flat }) {
  return `${array.name} ${flat}`;
}

function entryKey({ call, what, name, flat }) {
  return `${call}.${what}.${name}.${flat}`;
}
