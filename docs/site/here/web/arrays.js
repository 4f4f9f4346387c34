// What the page's module numpy needs beside numpy-ts's own functions. An error comes back as a text: MicroPython is
// broken after an error of JavaScript that passed through it.

const flat = x => [x.toArray()].flat(Infinity).map(Number);
const product = sizes => sizes.reduce((a, b) => a * b, 1);
const listed = (...values) => values;

const filled = (numbers, shape, kind = Float64Array) =>
  numbers.length ? nts.reshape(nts.array(kind.from(numbers)), shape) : nts.zeros(shape);

/** Numbers in the order of rows as an array of this dtype: "float64", "int32" or "bool". */
const made = (numbers, shape, dtype) => {
  const x = filled(numbers, Array.from(shape), dtype === "int32" ? Int32Array : Float64Array);
  return dtype === "bool" ? nts.not_equal(x, nts.array(0)) : x;
};

/** The part of x, with its numbers, under a subscript without arrays: keys are "3", "1:5:2", "..." and "newaxis". */
const view = (x, keys) => {
  const given = keys.filter(key => key !== "..." && key !== "newaxis").length;
  if (given > x.shape.length) throw new Error(`too many indices: the array is ${x.shape.length}-dimensional`);
  const full = Array(x.shape.length - given).fill(":");
  const all = (keys.includes("...") ? keys : [...keys, "..."]).flatMap(key => (key === "..." ? full : [key]));
  const plain = all.filter(key => key !== "newaxis");
  const part = plain.every(key => key === ":") ? x : x.slice(...plain);
  if (!all.includes("newaxis")) return part;
  const left = all.filter(key => key === "newaxis" || key.includes(":"));
  return left.reduce((x, key, axis) => (key === "newaxis" ? nts.expand_dims(x, axis) : x), part);
};

/** One index array for each of the first axes: of a boolean array, where it is true. */
const coordinates = keys => {
  if (keys[0].dtype !== "bool") return keys;
  const found = nts.nonzero(keys[0]);
  return keys[0].shape.length ? found : [];
};

/** [places in the order of rows, shape] of what arrays of indices on the first axes pick. */
const places = (x, keys) => {
  const lists = coordinates(keys), sizes = [...x.shape], rest = sizes.slice(lists.length);
  const shape = nts.broadcast_shapes(...lists.map(list => [...list.shape]));
  const columns = lists.map(list => flat(nts.broadcast_to(list, shape)));
  columns.forEach((column, axis) => column.forEach(i => {
    const size = sizes[axis];
    if (i < -size || i >= size) throw new Error(`index ${i} is out of bounds for axis ${axis} with size ${size}`);
  }));
  const step = product(rest), at = [];
  for (let n = 0; n < product(shape); n++) {
    const row = columns.reduce((sum, column, axis) => sum * sizes[axis] + ((column[n] + sizes[axis]) % sizes[axis]), 0);
    for (let j = 0; j < step; j++) at.push(row * step + j);
  }
  return [at, [...shape, ...rest]];
};

const picked = (x, keys) => {
  const [at, shape] = places(x, keys), numbers = flat(x);
  return made(at.map(i => numbers[i]), shape, x.dtype);
};

/** Write values at the places, or add them where one place may come twice. */
const put = (x, keys, values, adds) => {
  const [at, shape] = places(x, keys), numbers = flat(nts.broadcast_to(values, shape));
  at.forEach((i, j) => x.iset(i, (adds ? Number(x.iget(i)) : 0) + numbers[j]));
};

const assign = (part, values) =>
  flat(nts.broadcast_to(values, [...part.shape])).forEach((number, i) => part.iset(i, number));
const mapped = (x, f) => filled(flat(x).map(number => f(number)), [...x.shape]);
const block = (start, shape, dtype) =>
  made(globalThis.numbers.subarray(start, start + product(Array.from(shape))), shape, dtype);

// What shares its array's numbers. All else gets copies of parts: numpy-ts 1.4.0 misreads some that have a stride or
// begin later than their array (reshape, astype, square, matmul).
const SHARING = new Set("view assign put permute_dims swapaxes moveaxis expand_dims squeeze flat".split(" "));
const whole = x => (x?.flags && (x.base || !x.flags.C_CONTIGUOUS || x._storage?._offset) ? x.copy() : x);

const guarded = (name, f) => (...values) => {
  try {
    return f(...(SHARING.has(name) ? values : values.map(whole)));
  } catch (error) {
    return String(error.message);
  }
};
globalThis.nts = Object.fromEntries(
  Object.entries({...nts, listed, made, view, picked, put, assign, mapped, block, flat})
    .filter(([, f]) => typeof f === "function").map(([name, f]) => [name, guarded(name, f)]),
);
