// Arrays of the trace: float64 in one compressed block, and how their numbers are written.

// All arrays by name: {kind: "f" | "i" | "b", shape, data: Float64Array}.
// Of one that is left out, the numbers that are not on the page are NaN; leftOut: its shape, statistics and rows.
export async function unpack(text, places, leftOut) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const numbers = numbersOf(new Uint8Array(await new Response(stream).arrayBuffer()));
  const arrays = new Map();
  for (const [name, [kind, shape, start]] of Object.entries(places)) {
    const size = shape.reduce((product, length) => product * length, 1);
    arrays.set(name, { name, kind, shape, data: numbers.subarray(start, start + size) });
  }
  for (const [name, told] of Object.entries(leftOut)) {
    const data = new Float64Array(told.shape.reduce((product, length) => product * length, 1)).fill(NaN);
    for (const [start, row] of Object.entries(told.rows)) data.set(arrays.get(row).data, Number(start));
    arrays.set(name, { name, kind: "f", shape: told.shape, data, leftOut: told });
  }
  return arrays;
}

// Of little-endian numbers first all first bytes, then all second ones, and so on.
function numbersOf(bytes) {
  const count = bytes.length / 8;
  const view = new DataView(new ArrayBuffer(bytes.length));
  bytes.forEach((byte, i) => view.setUint8(8 * (i % count) + Math.floor(i / count), byte));
  return Float64Array.from({ length: count }, (_, i) => view.getFloat64(8 * i, true));
}

export function largest(array) {
  let most = 0;
  for (const number of array.data) if (Number.isFinite(number) && Math.abs(number) > most) most = Math.abs(number);
  return most;
}

// The index of an entry along each axis, from its flat index.
export function unravel(flat, shape) {
  const index = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index.unshift(flat % shape[axis]);
    flat = Math.floor(flat / shape[axis]);
  }
  return index;
}

export function entryName(name, flat, shape) {
  return shape.length ? `${name}[${unravel(flat, shape).join(",")}]` : name;
}

// One entry of an array on the page, whose spec is {call, what, name, array}.
export function entryAt({ call, what, name, array }, flat) {
  return { call, what, name, flat, array };
}

const MINUS = "\u2212";

// A number for a cell: about four characters, with its sign.
export function short(number, kind) {
  if (kind === "b") return number ? "yes" : "no";
  if (kind === "i") return String(number).replace("-", MINUS);
  if (number === 0) return "0";
  if (!Number.isFinite(number)) return String(number).replace("-", MINUS).replace("Infinity", "∞");
  return (number < 0 ? MINUS : "+") + shortSize(Math.abs(number));
}

function shortSize(size) {
  if (size < 0.0005 || size >= 9999.5) return size.toExponential(0).replace("e-", `e${MINUS}`).replace("e+", "e");
  const limits = [9.9995, 99.995, 999.95]; // below them there is room for three, two and one decimals
  return size.toFixed(limits.filter((limit) => size < limit).length);
}

// The power of ten, a multiple of three, by which an array's numbers are shown: 3 shows 0.0218 as 21.8.
export function powerOf(array) {
  const most = array.kind === "f" ? largest(array) : 0;
  if (most === 0 || (most >= 0.2 && most < 999.5)) return 0;
  return most < 0.2 ? 3 * Math.ceil((-Math.log10(most) - 0.69) / 3) : -3 * Math.floor(Math.log10(most) / 3);
}

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function powerText(power) {
  if (!power) return "";
  const digits = String(Math.abs(power)).replace(/\d/g, (digit) => RAISED[digit]);
  return `× 10${power > 0 ? "⁻" : ""}${digits}`;
}

// A number with all of its digits, or with so many significant ones.
export function long(number, digits) {
  if (!Number.isFinite(number)) return short(number, "f");
  const text = digits === undefined ? String(number) : number.toPrecision(digits);
  return text.replace(/-/g, MINUS);
}

export function signed(number, digits) {
  return (number > 0 ? "+" : "") + long(number, digits);
}

// Three digits and the sign.
export function brief(number) {
  const size = Math.abs(number);
  if (size === 0) return "0";
  const text = size >= 1e-3 && size < 1e4 ? number.toPrecision(3) : number.toExponential(2);
  return (number > 0 ? "+" : "") + text.replace("e+", "e").replace(/-/g, MINUS);
}

// The size of a difference.
export function apartText(size) {
  return `${size.toExponential(0).replace("-", MINUS)} apart`;
}
