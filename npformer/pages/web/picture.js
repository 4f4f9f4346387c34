// A large array as a picture: a small square for each number, without the number in it.

import { entryName, short } from "./arrays.js";
import { h } from "./dom.js";

const WIDEST = 560;
const TILE = 6; // pixels of a number beside a line, one of them the gap

// One block of an array. Pointing at it, or moving with the arrow keys, chooses a number: it becomes the canvas's entry.
export function picture(spec, shown, block, name) {
  const size = Math.max(2, Math.min(16, Math.floor(WIDEST / block.columns)));
  const canvas = h("canvas", {
    class: "picture",
    width: block.columns * size,
    height: block.rows * size,
    tabindex: "0",
    role: "img",
    "aria-label": `${name}, ${block.rows} by ${block.columns} numbers; arrow keys move through them`,
  });
  const drawn = draw(spec, shown, block);
  canvas.choose = (flat, tells) => {
    const place = flat - block.start;
    canvas.entry = { call: spec.call, what: spec.what, name: spec.name, flat, array: spec.array };
    const [row, column] = [Math.floor(place / block.columns), place % block.columns];
    canvas.setAttribute("aria-label", `${entryName(spec.name, flat, spec.array.shape)} = ${short(shown.data[flat], shown.kind)}`);
    show(canvas, drawn, [column * size, row * size, size]);
    if (tells) canvas.dispatchEvent(new CustomEvent("look", { bubbles: true }));
  };
  canvas.holds = (flat) => flat >= block.start && flat < block.start + block.rows * block.columns;
  listenTo(canvas, block, size);
  show(canvas, drawn, null);
  return canvas;
}

function listenTo(canvas, block, size) {
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const scale = canvas.width / box.width / size;
    const column = Math.floor((event.clientX - box.left) * scale);
    const row = Math.floor((event.clientY - box.top) * scale);
    const isInside = column >= 0 && row >= 0 && column < block.columns && row < block.rows;
    return isInside ? block.start + row * block.columns + column : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const flat = at(event);
    if (flat !== null) canvas.choose(flat, event.pointerType !== "touch");
  });
  canvas.addEventListener("pointerdown", (event) => at(event) !== null && canvas.choose(at(event), false));
  canvas.addEventListener("focus", () => canvas.entry || canvas.choose(block.start, true));
  canvas.addEventListener("keydown", (event) => {
    const place = canvas.entry.flat - block.start;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: block.columns, ArrowUp: -block.columns };
    if (event.key === "Enter") canvas.click();
    else if (!(event.key in steps)) return;
    else if (canvas.holds(block.start + place + steps[event.key])) canvas.choose(canvas.entry.flat + steps[event.key], true);
    event.preventDefault();
    event.stopPropagation();
  });
}

// One pixel for each number.
function draw(spec, shown, block) {
  const image = document.createElement("canvas");
  [image.width, image.height] = [block.columns, block.rows];
  const brush = image.getContext("2d");
  const pixels = brush.createImageData(block.columns, block.rows);
  const { line } = themeColours();
  for (let place = 0; place < block.rows * block.columns; place++) {
    const flat = block.start + place;
    const isHidden = spec.hides && spec.hides(flat);
    pixels.data.set([...(isHidden ? line : colourOf(shown.data[flat], shown.most)), 255], 4 * place);
  }
  brush.putImageData(pixels, 0, 0);
  return image;
}

// The same array in a few pixels, its blocks side by side: beside the line that made it.
export function tiles(array, blocks, most) {
  const [{ rows, columns }] = blocks;
  const canvas = h("canvas", { class: "thumb", "aria-hidden": "true", width: TILE * blocks.length * columns + 1, height: TILE * rows + 1 });
  const brush = canvas.getContext("2d");
  brush.fillStyle = `rgb(${themeColours().line.join(",")})`;
  brush.fillRect(0, 0, canvas.width, canvas.height);
  blocks.forEach((block, i) => {
    for (let place = 0; place < rows * columns; place++) {
      brush.fillStyle = `rgb(${colourOf(array.data[block.start + place], most).join(",")})`;
      brush.fillRect(TILE * (i * columns + (place % columns)) + 1, TILE * Math.floor(place / columns) + 1, TILE - 1, TILE - 1);
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

function show(canvas, drawn, square) {
  const brush = canvas.getContext("2d");
  brush.imageSmoothingEnabled = false;
  brush.drawImage(drawn, 0, 0, canvas.width, canvas.height);
  if (!square) return;
  const [x, y, size] = square;
  brush.strokeStyle = `rgb(${themeColours().mark.join(",")})`;
  brush.lineWidth = 2;
  brush.strokeRect(x, y, size, size);
}

let known = null;

// After a change of the theme.
export function forgetColours() {
  known = null;
}

// The page's colours as the browser computes them, for the theme of now: three numbers each.
function themeColours() {
  if (known) return known;
  known = {};
  for (const name of ["pos", "neg", "zero", "mark", "line"]) {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    known[name] = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    probe.remove();
  }
  return known;
}
