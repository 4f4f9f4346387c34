// The page: an editor for each exercise, whose text stays in the browser, and the verdict of a worker that is made anew
// for each judgement and ended when it does not come back.

const find = id => document.getElementById(id);
const main = document.querySelector("main");
const bytes = async id => {
  const packed = Uint8Array.from(atob(find(id).textContent), letter => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
};
const text = async id => new TextDecoder().decode(await bytes(id));
/** Numbers of which all first bytes come first, then all second, … */
const numbersOf = packed => {
  const from = new Uint8Array(packed), to = new Uint8Array(from.length), count = from.length / 8;
  to.forEach((_, i) => (to[i] = from[(i % 8) * count + Math.floor(i / 8)]));
  return new Float64Array(to.buffer);
};
const made = (name, said, ...parts) => {
  const element = document.createElement(name);
  element.textContent = said;
  element.append(...parts);
  return element;
};

const exercises = JSON.parse(await text("exercises"));
const parts = {
  wasm: await bytes("wasm"), files: JSON.parse(await text("files")),
  numbers: numbersOf(await bytes("numbers")),
};
const script = URL.createObjectURL(new Blob([await text("worker")], {type: "text/javascript"}));

let worker, answer;
const listen = (event, wake) => {
  if (event.data.noted) answer.events.push(event.data.noted);
  else if (event.data.ready) wake();
  else answer.done(event.data);
};
const begin = () => {
  const started = new Worker(script);
  const ready = new Promise(wake => started.addEventListener("message", event => listen(event, wake)));
  started.addEventListener("error", event => answer?.done({broken: event.message}));
  started.postMessage(parts);
  return {started, ready};
};

/** What one worker says to a job; null if it did not come back in time. stopped: the events of one that was ended. */
const ask = async (stopped, seconds) => {
  const job = {exercise: exercise().name, text: find("code").value, seconds, stopped};
  await worker.ready;
  const events = [];
  const told = await new Promise(done => {
    answer = {done, events};
    worker.started.postMessage(job);
    if (!stopped) setTimeout(() => done(null), 1000 * seconds);
  });
  worker.started.terminate();
  worker = begin();
  return told ?? ask(events, seconds);
};

const exercise = () => exercises[find("exercise").selectedIndex];
const key = () => `npformer exercise ${exercise().name}`;

const open = () => {
  find("code").value = localStorage.getItem(key()) ?? exercise().text;
  find("code").scrollTop = find("code").scrollHeight; // the backward is at the end
  find("course").href = `course/${exercise().name}.html`;
  find("told").replaceChildren();
  say("Not judged yet.", "");
};
const say = (words, kind) => {
  find("verdict").textContent = words;
  find("verdict").className = kind;
};

const finding = ({ok, name, text: words, details}) => {
  const row = made("li", `${name}: ${words}`, ...(details.length ? [made("pre", details.join("\n"))] : []));
  row.className = ok ? "right" : "wrong";
  row.dataset.mark = ok ? "✓" : "✗";
  return row;
};
const hints = ({gradients, seen, hints: levels}) => [
  made("h2", gradients.length ? `Why: ${gradients.join(", ")}` : "Why"), made("p", seen),
  ...levels.map((hint, i) => made("details", "", made("summary", `Hint ${i + 1} of 3`), made("p", hint))),
];
const show = ({ok, verdict, findings, faults, printed}) => {
  say(verdict, ok ? "right" : "wrong");
  const lines = printed ? [made("h2", "Your code printed"), made("pre", printed)] : [];
  find("told").replaceChildren(made("ul", "", ...findings.map(finding)), ...faults.flatMap(hints), ...lines);
};

const judge = async () => {
  find("judge").disabled = true;
  say("Judging…", "");
  const told = await ask(null, Number(main.dataset.seconds));
  if (told.grade) show(told.grade);
  else say(`This page cannot judge it: npformer grade ${exercise().name}.py can. ${told.broken}`, "wrong");
  find("judge").disabled = false;
};
const reset = () => {
  if (find("code").value !== exercise().text && !confirm("Throw away what you wrote for this exercise?")) return;
  localStorage.removeItem(key());
  open();
};

let leaving = false;
const press = event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return find("judge").click();
  if (event.key === "Tab" && !leaving) {
    event.preventDefault();
    document.execCommand("insertText", false, "    ");
  }
  leaving = event.key === "Escape";
  return undefined;
};

find("exercise").append(...exercises.map(each => made("option", each.title)));
const asked = new URLSearchParams(location.search).get("exercise");
find("exercise").selectedIndex = Math.max(0, exercises.findIndex(each => each.name === asked));
find("exercise").addEventListener("change", open);
find("code").addEventListener("input", () => localStorage.setItem(key(), find("code").value));
find("code").addEventListener("keydown", press);
find("judge").addEventListener("click", judge);
find("reset").addEventListener("click", reset);
worker = begin();
open();
await worker.ready;
find("judge").disabled = false;
document.documentElement.dataset.ready = "yes";
