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
const following = () => exercises[find("exercise").selectedIndex + 1];
const key = () => `npformer exercise ${exercise().name}`;

/** The lines' numbers beside the text, as the verdict cites them. */
const follow = () => { find("lines").scrollTop = find("code").scrollTop; };
const number = () => {
  find("lines").textContent = find("code").value.split("\n").map((_, i) => i + 1).join("\n");
  follow();
};
/** What is to be written comes into sight, below its forward. */
const bringBackwardIntoSight = () => {
  const lines = find("code").value.split("\n");
  const at = lines.findIndex(line => line.startsWith(`def ${exercise().name}_backward`));
  const {clientHeight} = find("code");
  find("code").scrollTop = at * parseFloat(getComputedStyle(find("code")).lineHeight) - clientHeight / 2;
};

const open = () => {
  find("code").value = localStorage.getItem(key()) ?? exercise().text;
  number();
  bringBackwardIntoSight();
  find("course").href = `course/${exercise().name}.html`;
  find("told").replaceChildren();
  find("next").hidden = true;
  history.replaceState(null, "", `?exercise=${exercise().name}`);
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
const hints = ({gradients, cause, seen, hints: levels}) => [
  made("h2", `${seen ? "Why" : "Hints"}: ${gradients.join(", ") || cause}`), ...(seen ? [made("p", seen)] : []),
  ...levels.map((hint, i) => made("details", "", made("summary", `Hint ${i + 1} of 3`), made("p", hint))),
];
const show = ({ok, verdict, findings, faults, printed}) => {
  say(verdict, ok ? "right" : "wrong");
  const lines = printed ? [made("h2", "Your code printed"), made("pre", printed)] : [];
  find("told").replaceChildren(made("ul", "", ...findings.map(finding)), ...faults.flatMap(hints), ...lines);
  find("next").hidden = !ok || !following();
  find("next").textContent = `Next: ${following()?.title ?? ""}`;
};
/** Beside the editor it is in sight; below it, on a phone, it is not. */
const bringIntoSight = () => {
  const {top} = find("report").getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) find("report").scrollIntoView();
};

const judge = async () => {
  find("judge").disabled = true;
  say("Judging…", "");
  const judged = exercise();
  const told = await ask(null, Number(main.dataset.seconds));
  find("judge").disabled = false;
  if (exercise() !== judged) return; // another one is open by now
  if (told.grade) show(told.grade);
  else say(`This page cannot judge it: npformer grade ${judged.name}.py can. ${told.broken}`, "wrong");
  bringIntoSight();
};
const reset = () => {
  if (find("code").value !== exercise().text && !confirm("Throw away what you wrote for this exercise?")) return;
  localStorage.removeItem(key());
  open();
};

const goOn = () => {
  find("exercise").selectedIndex += 1;
  open();
  scrollTo(0, 0);
  find("exercise").focus();
};

/** A new line as far in as the one above it, and a level further below a colon. */
const newLine = () => {
  const {value, selectionStart} = find("code");
  const line = value.slice(0, selectionStart).split("\n").at(-1);
  const deeper = /:\s*(#.*)?$/.test(line) ? "    " : "";
  return `\n${line.match(/^ */)[0]}${deeper}`;
};

let leaving = false;
/** What a key writes other than the browser would; "" for all other keys. */
const written = key => {
  if (key === "Enter") return newLine();
  return key === "Tab" && !leaving ? "    " : "";
};
const press = event => {
  if (event.isComposing) return undefined;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return find("judge").click();
  const words = written(event.key);
  if (words && document.execCommand("insertText", false, words)) event.preventDefault();
  leaving = event.key === "Escape";
  return undefined;
};

find("exercise").append(...exercises.map(each => made("option", each.title)));
const asked = new URLSearchParams(location.search).get("exercise");
find("exercise").selectedIndex = Math.max(0, exercises.findIndex(each => each.name === asked));
find("exercise").addEventListener("change", open);
find("code").addEventListener("input", () => localStorage.setItem(key(), find("code").value));
find("code").addEventListener("input", number);
find("code").addEventListener("scroll", follow);
find("code").addEventListener("keydown", press);
find("judge").addEventListener("click", judge);
find("reset").addEventListener("click", reset);
find("next").addEventListener("click", goOn);
worker = begin();
open();
await worker.ready;
find("judge").disabled = false;
document.documentElement.dataset.ready = "yes";
