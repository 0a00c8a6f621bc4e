// Runs the built module in node, with the same bindings as in a browser:
//
//     node crates/wasm/tests/desk.cjs SITE about TOKENIZER
//     node crates/wasm/tests/desk.cjs SITE judge TOKENIZER KEY TEXTS.jsonl ANSWERS.jsonl
//
// `judge` writes for each line `{"text": ...}` one `{"ids": ..., "answer": ...}`, like the example `judge`, and prints
// the seconds for reading the tokenizer, tokenizing and judging.

const fs = require("node:fs");
const vm = require("node:vm");
const zlib = require("node:zlib");

const [site, what, tokenizer, key, texts, answers] = process.argv.slice(2);
const seconds = () => Number(process.hrtime.bigint()) / 1e9;

const script = fs.readFileSync(`${site}/worker.js`, "utf8");
globalThis.self = globalThis;
vm.runInThisContext(`${script}\nglobalThis.bindings = wasm_bindgen;`);
const module_ = new WebAssembly.Module(fs.readFileSync(`${site}/verdigris.wasm`));
bindings.initSync({ module: module_ });

const packed = fs.readFileSync(tokenizer);
const json = packed[0] === 0x1f ? zlib.gunzipSync(packed) : packed;
const began = seconds();
const detector = new bindings.Detector(json);
const read = seconds() - began;
if (what === "about") {
  console.log(detector.about());
} else {
  detector.take_key(fs.readFileSync(key));
  const lines = fs.readFileSync(texts, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line).text);
  const wanted = JSON.stringify({ level: 1e-5 });
  const at = seconds();
  const ids = lines.map((text) => detector.ids(text));
  const encoded = seconds() - at;
  const then = seconds();
  const judged = lines.map((text) => detector.judge(text, wanted));
  const spent = seconds() - then;
  fs.writeFileSync(answers, lines.map((_, i) => `{"ids":[${ids[i]}],"answer":${judged[i]}}\n`).join(""));
  console.log(JSON.stringify({ read, encode: encoded, judge: spent }));
}
