// node judge.mjs FOLDER: what the worker of the page answers to the jobs in FOLDER/jobs.json, as FOLDER/answers.json.
import fs from "node:fs";
import process from "node:process";

const folder = process.argv[2];
const read = name => fs.readFileSync(`${folder}/${name}`);
const answers = [];
let wake;
globalThis.postMessage = said => (said.noted ? undefined : wake(said));
const asked = data => new Promise(done => {
  wake = done;
  globalThis.onmessage({data}).catch(error => done({broken: String(error)}));
});

await import(`${folder}/worker.mjs`);
const numbers = new Float64Array(new Uint8Array(read("numbers")).buffer);
const begun = await asked({wasm: read("micropython.wasm"), files: JSON.parse(read("files.json")), numbers});
if (begun.broken) throw new Error(begun.broken);
for (const job of JSON.parse(read("jobs.json"))) answers.push(await asked({seconds: 10, stopped: null, ...job}));
fs.writeFileSync(`${folder}/answers.json`, JSON.stringify(answers));
process.exit(0);
