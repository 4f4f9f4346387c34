// Which tokens an array's rows and columns are.

// Whether the rows of a call's inputs and outputs are tokens of the source or of the target.
export function sidesOf(model) {
  const tokens = model.trace.tokens;
  const sides = new Map();
  if (!tokens) return sides;
  const only = tokens.source ? (tokens.target_in ? null : "source") : "target_in";
  for (const call of model.calls) {
    if (only) sides.set(`${call.id}.`, only);
    else if (/^(src|source|encoder)/.test(call.name)) sides.set(`${call.id}.`, "source");
    else if (/^(tgt|target|decoder|generator|loss)/.test(call.name)) sides.set(`${call.id}.`, "target_in");
  }
  for (const [id, uses] of Object.entries(model.flows.fan_in)) {
    const side = sides.get(`${id}.`);
    if (side === undefined || model.calls[id].parts.length || !/^(src|source|encoder)/.test(model.calls[id].name)) continue;
    for (const use of Object.values(uses).flat()) sides.set(`${use.call}.${use.gradient.slice(1)}`, side);
  }
  spread(model, sides);
  for (const call of model.calls.filter((each) => each.parts.length)) {
    for (const [target, [use]] of Object.entries(model.flows.fan_in[call.id] || {})) {
      const side = use && (sides.get(`${use.call}.${use.gradient.slice(1)}`) || sides.get(`${use.call}.`));
      if (target.startsWith("gradients.") && side) sides.set(`${call.id}.${target.slice("gradients.d".length)}`, side);
    }
  }
  return sides;
}

// An operation that reads the memory alone makes keys and values of it, so its rows are tokens of the source, too.
function spread(model, sides) {
  for (const call of model.calls) {
    const own = call.inputs.filter((entry) => model.arrays.has(entry.value)).filter((entry) => !(call.params || {})[entry.name]);
    const side = own.length === 1 ? sides.get(`${call.id}.${own[0].name}`) : undefined;
    if (side === undefined) continue;
    sides.set(`${call.id}.`, side);
    for (const use of (model.flows.fan_in[call.id] || {})["upstream.dy"] || []) {
      sides.set(`${use.call}.${use.gradient.slice(1)}`, side);
    }
  }
}

// What each id of the targets is called, as far as the tokens of this trace tell; and the arrays with a column for each.
export function piecesOf(model) {
  const loss = model.calls.find((call) => call.type === "cross_entropy" && call.parent === null);
  const targets = loss && model.arrays.get(loss.inputs[1].value);
  const labels = model.trace.tokens && model.trace.tokens.target_out;
  const logits = loss && model.arrays.get(loss.inputs[0].value);
  if (!targets || !labels || labels.flat().length !== targets.data.length || logits.shape.length !== 3) return null;
  const names = Array.from({ length: logits.shape[2] }, (_, id) => String(id));
  labels.flat().forEach((label, k) => (names[targets.data[k]] = label));
  const given = (model.trace.tokens.target_in || []).flat();
  for (const call of model.calls.filter((each) => each.type === "embedding" && model.sides.get(`${each.id}.`) === "target_in")) {
    const ids = model.arrays.get(call.inputs[0].value);
    if (ids && ids.data.length === given.length) given.forEach((label, k) => (names[ids.data[k]] = label));
  }
  const arrays = new Set([logits.name, ...loss.gradients.map((entry) => entry.value)]);
  return { names, arrays, rows: model.trace.tokens.target_in || model.trace.tokens.source || null, loss: loss.id };
}

// Logits, and what else has a column for each class.
function classesOf(model, call, array) {
  const { pieces } = model;
  const isOne = pieces && array.shape.length === 3 && array.shape[2] === pieces.names.length;
  if (!isOne || !(pieces.arrays.has(array.name) || call.id === pieces.loss)) return null;
  const columns = Array.from({ length: array.shape[0] }, () => pieces.names);
  const rows = pieces.rows && pieces.rows[0].length === array.shape[1] ? pieces.rows : null;
  return { rows, columns };
}

// Labels of an array's rows and columns, where they are tokens: for each sequence of the batch a list, or null.
export function labelsOf(model, call, name, array) {
  const tokens = model.trace.tokens;
  if (!tokens || array.shape.length < 2) return { rows: null, columns: null };
  const classes = classesOf(model, call, array);
  if (classes) return classes;
  const bare = name.replace(/^d(?=.)/, "").split(/[.[]/)[0];
  const side = model.sides.get(`${call.id}.${bare}`) || model.sides.get(`${call.id}.`);
  const keys = model.sides.get(`${call.id}.k`) || model.sides.get(`${call.id}.`);
  const [rows, columns] = array.shape.slice(-2);
  const isScores = array.shape.length === 4 && /weight|score|drop|visible|shifted|power|^y$|^softmax/.test(bare);
  const of = (which, length) => {
    const found = which && tokens[which];
    return found && found[0].length === length ? found : null;
  };
  if (array.shape.length === 2) {
    const found = array.kind === "i" ? of(bare === "targets" ? "target_out" : side, columns) : null;
    return { rows: null, columns: null, cells: found && found.length === rows ? found.flat() : null };
  }
  return { rows: of(isScores ? model.sides.get(`${call.id}.q`) || side : side, rows), columns: isScores ? of(keys, columns) : null };
}
