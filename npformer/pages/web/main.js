// The page: its parts are built once, then pointer and keys change what they show.

import { App } from "./app.js";
import { buildBugs, openBug } from "./bugs.js";
import { byId, h } from "./dom.js";
import { buildGraph } from "./graph.js";
import { onKey } from "./keys.js";
import { arrayOf, load } from "./model.js";
import { followTheme } from "./theme.js";
import { buildTimeline } from "./timeline.js";
import { buildTree } from "./tree.js";

function listen(app) {
  const arrays = byId("arrays");
  document.addEventListener("keydown", (event) => onKey(app, event));
  arrays.addEventListener("pointerover", (event) => event.pointerType !== "touch" && event.target.entry && !app.predict && app.look(event.target));
  arrays.addEventListener("pointerleave", () => !app.predict && app.look(null));
  arrays.addEventListener("look", (event) => !app.predict && app.look(event.target));
  arrays.addEventListener("focusin", (event) => event.target.entry && app.look(event.target));
  arrays.addEventListener("click", (event) => event.target.entry && app.pin(event.target, true));
  byId("previous").addEventListener("click", () => app.go(app.step.number - 1));
  byId("next").addEventListener("click", () => app.go(app.step.number + 1));
  byId("toloss").addEventListener("click", () => app.go(app.model.half));
  byId("play").addEventListener("click", () => app.play());
  byId("close").addEventListener("click", () => app.unpin());
  byId("helpbutton").addEventListener("click", () => byId("help").showModal());
  byId("predict").addEventListener("click", () => {
    app.predict = !app.predict;
    byId("predict").setAttribute("aria-pressed", String(app.predict));
    byId("score").hidden = !app.predict;
    app.redraw(null);
  });
}

// Every gradient against its witnesses and its own terms: the page's verdict on the whole trace.
function verdict(app) {
  let checked = 0;
  let worst = 0;
  for (const call of app.model.calls) {
    for (const entry of call.gradients) {
      const kept = (app.model.evidence[call.id] || {})[entry.name];
      const array = arrayOf(app.model, entry.value);
      if (!kept || !kept.complex || !array) continue;
      const witness = app.model.arrays.get(kept.complex).data;
      const most = Math.max(...array.data.map(Math.abs), 1e-300);
      array.data.forEach((number, i) => (worst = Math.max(worst, Math.abs(number - witness[i]) / most)));
      checked += array.data.length;
    }
  }
  const box = byId("verdict");
  if (!checked) return;
  const isRight = worst < 1e-9;
  box.className = isRight ? "agrees" : "differs";
  box.textContent = isRight ? `✓ ${checked} gradients are right` : "✗ some gradients are wrong";
  box.title = `compared with their complex steps; largest difference, relative to each array: ${worst.toExponential(1)}`;
}

async function start() {
  let app = null;
  followTheme(() => app && app.redraw(app.pinned));
  const read = (id) => JSON.parse(byId(id).textContent);
  if (typeof DecompressionStream === "undefined") throw new Error("This browser is too old: the page needs DecompressionStream, which all browsers have since 2023.");
  const model = await load(read("data"), read("numbers"));
  app = new App(model);
  byId("title").textContent = app.model.trace.title;
  document.documentElement.classList.toggle("single", app.model.calls.length === 1);
  buildTree(app);
  buildGraph(app);
  buildTimeline(app);
  buildBugs(app);
  listen(app);
  const asked = Number(location.hash.slice(1));
  const { opens } = app.model;
  if (asked >= 1 && asked <= app.model.steps.length) app.go(asked - 1);
  else if (opens) app.open(opens);
  else app.go(0);
  verdict(app);
  openBug(app);
  document.documentElement.dataset.ready = "yes";
  window.npformerPage = app;
}

start().catch((error) => {
  byId("arrays").replaceChildren(h("p", { class: "problem", role: "alert" }, `The page cannot be shown. ${error.message}`));
  throw error;
});
