// The page: its parts are built once, then pointer and keys change what they show.

import { goAddress } from "./address.js";
import { App } from "./app.js";
import { buildBugs, openBug } from "./bugs.js";
import { byId, h } from "./dom.js";
import { buildGraph } from "./graph.js";
import { onKey } from "./keys.js";
import { isLoss } from "./labels.js";
import { arrayOf, load } from "./model.js";
import { askFirst } from "./predict.js";
import { followTheme } from "./theme.js";
import { buildTimeline } from "./timeline.js";
import { buildTour } from "./tour.js";
import { buildTree } from "./tree.js";

const TOO_OLD = "This browser is too old: the page needs DecompressionStream, which all browsers have since 2023.";
const MOST_APART = 1e-9; // of a right gradient from its complex step, relative to its array

function listenToArrays(app) {
  const arrays = byId("arrays");
  const isPointing = (event) => event.pointerType !== "touch" && event.target.entry && !app.predict;
  arrays.addEventListener("pointerover", (event) => isPointing(event) && app.look(event.target));
  arrays.addEventListener("pointerleave", () => !app.predict && app.look(null));
  arrays.addEventListener("look", (event) => !app.predict && app.look(event.target));
  arrays.addEventListener("focusin", (event) => event.target.entry && app.look(event.target));
  arrays.addEventListener("click", (event) => event.target.entry && app.pin(event.target, true));
}

function listenToButtons(app) {
  const onClick = (id, action) => byId(id).addEventListener("click", action);
  onClick("previous", () => app.goBy(-1));
  onClick("next", () => app.goBy(1));
  onClick("toloss", () => app.go(app.model.half));
  onClick("play", () => app.play());
  onClick("close", () => app.unpin());
  onClick("helpbutton", () => byId("help").showModal());
  onClick("predict", () => switchPredict(app));
  onClick("operations", () => switchOperations(app));
  window.addEventListener("popstate", () => goAddress(app));
}

function switchOperations(app) {
  app.onlyOperations = !app.onlyOperations;
  byId("operations").setAttribute("aria-pressed", String(app.onlyOperations));
}

function switchPredict(app) {
  app.predict = !app.predict;
  byId("predict").setAttribute("aria-pressed", String(app.predict));
  byId("score").hidden = !app.predict;
  if (app.predict) askFirst(app);
  else app.redraw(null);
}

// Every gradient against its witnesses: the page's verdict on the whole trace.
function showVerdict({ model }) {
  const comparisons = model.calls.flatMap((call) => call.gradients.map((entry) => compared(model, call, entry)));
  const checked = comparisons.reduce((total, comparison) => total + comparison.count, 0);
  if (!checked) return;
  const worst = Math.max(...comparisons.map((comparison) => comparison.worst));
  const isRight = worst < MOST_APART;
  const box = byId("verdict");
  box.className = isRight ? "agrees" : "differs";
  box.textContent = isRight ? `✓ ${checked} gradients are right` : "✗ some gradients are wrong";
  const apart = worst.toExponential(1);
  box.title = `compared with their complex steps; largest difference, relative to each array: ${apart}`;
}

// How many entries of a gradient have a witness, and how far the worst of them is from it.
function compared(model, call, entry) {
  const kept = call.evidence[entry.name];
  const array = arrayOf(model, entry.value);
  if (!kept || !kept.complex || kept.only !== null || !array || array.leftOut) return { count: 0, worst: 0 };
  const witness = model.arrays.get(kept.complex).data;
  const largest = Math.max(...array.data.map(Math.abs), 1e-300);
  const apart = array.data.map((number, i) => Math.abs(number - witness[i]) / largest);
  return { count: apart.length, worst: Math.max(0, ...apart) };
}

async function start() {
  let app = null;
  followTheme(() => app && app.redraw(app.pinned));
  if (typeof DecompressionStream === "undefined") throw new Error(TOO_OLD);
  const read = (id) => JSON.parse(byId(id).textContent);
  app = new App(await load(read("data"), read("numbers")));
  build(app);
  openFirst(app);
  showVerdict(app);
  openBug(app);
  document.documentElement.dataset.ready = "yes";
  window.npformerPage = app;
}

function build(app) {
  byId("title").textContent = app.model.trace.title;
  byId("title").title = app.model.trace.title; // where it is cut
  const { "": home } = app.model.links;
  byId("home").hidden = !home || window.parent !== window; // within another page there is a way back already
  if (home) byId("home").href = home;
  document.documentElement.classList.toggle("single", app.model.calls.length === 1);
  buildTree(app);
  buildGraph(app);
  buildTimeline(app);
  buildBugs(app);
  buildTour(app);
  document.addEventListener("keydown", (event) => onKey(app, event));
  listenToArrays(app);
  listenToButtons(app);
}

// The page opens at what its address says, at the number that was asked for, at the loss, or at the first step.
function openFirst(app) {
  const { opens } = app.model;
  if (goAddress(app)) return;
  if (opens) app.open(opens);
  else app.go(app.model.calls.some(isLoss) ? app.model.half : 0);
}

start().catch((error) => {
  const problem = h("p", { class: "problem", role: "alert" }, `The page cannot be shown. ${error.message}`);
  byId("arrays").replaceChildren(problem);
  throw error;
});
