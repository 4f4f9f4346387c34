// A large array as a picture: a small square for each number, without the number in it.

import { entryAt, entryName, short } from "./arrays.js";
import { h } from "./dom.js";
import { tokensAt } from "./labels.js";

const WIDEST = 560;
const TILE = 6; // pixels of a number beside a line, one of them the gap

// One block of an array. Pointing at it, or moving with the arrow keys, chooses a number, which becomes the canvas's
// entry.
export function picture(spec, shown, block, name) {
  const canvas = emptyPicture(block, name);
  const pixels = pixelsOf(spec, shown, block);
  canvas.holds = (flat) => flat >= block.start && flat < block.start + block.rows * block.columns;
  canvas.choose = (flat, tells) => {
    canvas.entry = entryAt(spec, flat);
    const number = short(shown.data[flat], shown.kind);
    const tokens = spec.labels ? tokensAt(spec.labels, flat, spec.array) : "";
    canvas.setAttribute("aria-label", `${entryName(spec.name, flat, spec.array.shape)} = ${number} ${tokens}`.trim());
    drawChosen(canvas, pixels, flat - block.start);
    if (tells) canvas.dispatchEvent(new CustomEvent("look", { bubbles: true }));
  };
  listenTo(canvas, block);
  drawWhole(canvas, pixels);
  return canvas;
}

function emptyPicture({ rows, columns }, name) {
  const size = Math.max(2, Math.min(16, Math.floor(WIDEST / columns)));
  const label = `${name}, ${rows} by ${columns} numbers; arrow keys move through them`;
  const [width, height] = [columns * size, rows * size];
  return h("canvas", { class: "picture", width, height, tabindex: "0", role: "img", "aria-label": label });
}

function listenTo(canvas, block) {
  canvas.addEventListener("pointermove", (event) => {
    const flat = numberAt(canvas, block, event);
    if (flat !== null) canvas.choose(flat, event.pointerType !== "touch");
  });
  canvas.addEventListener("pointerdown", (event) => {
    const flat = numberAt(canvas, block, event);
    if (flat !== null) canvas.choose(flat, false);
  });
  canvas.addEventListener("focus", () => canvas.entry || canvas.choose(block.start, true));
  canvas.addEventListener("keydown", (event) => moveInPicture(canvas, block, event));
}

// The number under the pointer, by its flat index; null beside them.
function numberAt(canvas, block, event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) * block.columns) / box.width);
  const row = Math.floor(((event.clientY - box.top) * block.columns) / box.width);
  const isInside = column >= 0 && row >= 0 && column < block.columns && row < block.rows;
  return isInside ? block.start + row * block.columns + column : null;
}

function moveInPicture(canvas, block, event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: block.columns, ArrowUp: -block.columns };
  const next = canvas.entry.flat + steps[event.key];
  if (event.key === "Enter") canvas.click();
  else if (!(event.key in steps)) return;
  else if (canvas.holds(next)) canvas.choose(next, true);
  event.preventDefault();
  event.stopPropagation();
}

// One pixel for each number.
function pixelsOf(spec, shown, block) {
  const image = document.createElement("canvas");
  [image.width, image.height] = [block.columns, block.rows];
  const brush = image.getContext("2d");
  const pixels = brush.createImageData(block.columns, block.rows);
  for (let place = 0; place < block.rows * block.columns; place++) {
    const flat = block.start + place;
    const isHidden = spec.hides && spec.hides(flat);
    const colour = isHidden ? themeColours().line : colourOf(shown.data[flat], shown.most);
    pixels.data.set([...colour, 255], 4 * place);
  }
  brush.putImageData(pixels, 0, 0);
  return image;
}

// The same array in a few pixels, its blocks side by side: beside the line that made it.
export function tiles(array, blocks, most) {
  const [{ rows, columns }] = blocks;
  const [width, height] = [TILE * blocks.length * columns + 1, TILE * rows + 1];
  const canvas = h("canvas", { class: "thumb", "aria-hidden": "true", width, height });
  const brush = canvas.getContext("2d");
  brush.fillStyle = rgb(themeColours().line);
  brush.fillRect(0, 0, width, height);
  blocks.forEach((block, i) => {
    for (let place = 0; place < rows * columns; place++) {
      const [column, row] = [i * columns + (place % columns), Math.floor(place / columns)];
      brush.fillStyle = rgb(colourOf(array.data[block.start + place], most));
      brush.fillRect(TILE * column + 1, TILE * row + 1, TILE - 1, TILE - 1);
    }
  });
  return canvas;
}

// Red, green and blue: the theme's colour for 0, mixed with that of the number's sign.
function colourOf(number, most) {
  const { pos, neg, zero } = themeColours();
  const strength = most > 0 && Number.isFinite(number) ? Math.abs(number) / most : 1;
  const end = number > 0 ? pos : neg;
  return zero.map((from, i) => from + (end[i] - from) * strength);
}

function rgb(colour) {
  return `rgb(${colour.join(",")})`;
}

function drawWhole(canvas, pixels) {
  const brush = canvas.getContext("2d");
  brush.imageSmoothingEnabled = false;
  brush.drawImage(pixels, 0, 0, canvas.width, canvas.height);
  return brush;
}

// The picture with a square around one number.
function drawChosen(canvas, pixels, place) {
  const size = canvas.width / pixels.width;
  const brush = drawWhole(canvas, pixels);
  brush.strokeStyle = rgb(themeColours().mark);
  brush.lineWidth = 2;
  brush.strokeRect((place % pixels.width) * size, Math.floor(place / pixels.width) * size, size, size);
}

let knownColours = null;

// After a change of the theme.
export function forgetColours() {
  knownColours = null;
}

// The page's colours as the browser computes them, for the theme of now: three numbers each.
function themeColours() {
  if (!knownColours) {
    const names = ["pos", "neg", "zero", "mark", "line"];
    knownColours = Object.fromEntries(names.map((name) => [name, computedColour(name)]));
  }
  return knownColours;
}

function computedColour(name) {
  const probe = h("i", {});
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const numbers = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3);
  probe.remove();
  return numbers.map(Number);
}
