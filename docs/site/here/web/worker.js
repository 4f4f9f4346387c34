// One grading: MicroPython with the grader's files, told what to grade, says what happened, and is then thrown away.

const store = (files, name, text) => {
  name.split("/").slice(0, -1).reduce((path, part) => {
    if (!files.analyzePath(`${path}/${part}`).exists) files.mkdir(`${path}/${part}`);
    return `${path}/${part}`;
  }, "/page");
  files.writeFile(`/page/${name}`, text);
};

const begin = async ({wasm, files, numbers}) => {
  globalThis.numbers = numbers;
  const stdout = line => globalThis.printed.push(line);
  const load = await micropython;
  const python = await load({heapsize: 64 * 1024 * 1024, wasmBinary: wasm, stdout});
  python.FS.mkdir("/page");
  for (const [name, text] of Object.entries(files)) store(python.FS, name, text);
  python.runPython("import sys\nsys.path.insert(0, '/page')\nimport here");
  return python;
};

let started;
globalThis.noted = event => globalThis.postMessage({noted: JSON.parse(event)});
globalThis.onmessage = async ({data}) => {
  if (data.wasm) {
    started = begin(data);
    await started;
    return globalThis.postMessage({ready: true});
  }
  globalThis.printed = [];
  const {exercise, text, seconds, stopped} = data;
  try {
    const told = (await started).globals.get("here").graded(exercise, text, seconds, JSON.stringify(stopped));
    return globalThis.postMessage({grade: JSON.parse(told)});
  } catch (error) {
    return globalThis.postMessage({broken: String(error)});
  }
};
