// The page without a server: it takes a key, a tokenizer and a text, and shows the findings of its own detector.

import { Detector } from "./detector.js";
import { BadFile, takes, textOf } from "./files.js";
import { Place } from "./finding.js";
import { announce, fault, skips, submits, textToExamine } from "./forms.js";
import { whole } from "./verdict.js";

const byId = (id) => document.getElementById(id);
const OWN = "own";

/** The longest text and the largest tokenizer, in bytes. */
const MOST_TEXT = 16 << 20;
const MOST_TOKENIZER = 64 << 20;

/** The detector, once it is loaded. */
let detector = null;
/** The tokenizers that came with the page: `name`, `title`, `fingerprint` and, once loaded, `bytes`. */
let shipped = [];
const place = new Place(byId("finding"));
/** One task at a time: others wait. */
let turn = Promise.resolve();

async function loaded(name) {
  const response = await fetch(`./${name}`);
  if (!response.ok) {
    throw new Error(`${name} is missing next to this page: build the site again`);
  }
  return response;
}

/** Blocks all further requests, whatever this page or its workers do. */
function closed() {
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; script-src blob: 'wasm-unsafe-eval'; worker-src blob:; style-src 'self'";
  document.head.append(policy);
}

function busy(what) {
  byId("progress").hidden = !what;
  if (what) {
    announce(what);
    byId("state").textContent = what;
  } else {
    told();
  }
}

/** Shows the loaded tokenizer and key. */
function told() {
  const { tokenizer, key, version } = detector.about ?? {};
  if (!tokenizer) {
    return;
  }
  const used = shipped.find(({ name }) => name === detector.name);
  const held = key ? `key ${key.id}` : "no key yet";
  byId("state").textContent =
    `Tokenizer ${used?.title ?? detector.name}, ${whole(tokenizer.size)} tokens; ${held}. Version ${version}. ` +
    "Nothing leaves this page.";
  byId("key-held").textContent = key ? `${key.id}: ${key.scheme}` : "None yet.";
  byId("key-forget").hidden = !key;
  byId("key-area").classList.toggle("has", Boolean(key));
  byId("tokenizer-area").classList.toggle("has", true);
  const choices = shipped.map(({ name, title }) => new Option(title, name));
  if (!used) {
    choices.push(new Option(detector.name, OWN));
  }
  byId("tokenizer").replaceChildren(...choices);
  byId("tokenizer").value = used?.name ?? OWN;
}

/** Runs a task after the current one. */
function next(work) {
  turn = turn.then(async () => {
    fault(null);
    // The finding does not apply to another text, key or tokenizer.
    place.empty();
    try {
      await work();
    } catch (error) {
      fault(error);
    } finally {
      busy(null);
    }
  });
  return turn;
}

async function use(name, bytes, key) {
  busy(`Reading the tokenizer ${name}.`);
  await detector.use(name, bytes, key);
  announce(`The tokenizer ${name} is ready.`);
}

function choose() {
  const tokenizer = shipped.find(({ name }) => name === byId("tokenizer").value);
  if (tokenizer) {
    next(() => use(tokenizer.name, tokenizer.bytes));
  }
}

function openTokenizer(file) {
  next(async () => {
    if (file.size > MOST_TOKENIZER) {
      throw new BadFile(`${file.name} is larger than any tokenizer: choose the file tokenizer.json of the model`);
    }
    await use(file.name, new Uint8Array(await file.arrayBuffer()));
  });
}

function openKey(file) {
  next(async () => {
    try {
      await detector.key(file);
    } catch (error) {
      // The tokenizer that the key was made for may have come with the page.
      const its = error.code && shipped.find(({ fingerprint }) => fingerprint === error.fingerprint);
      if (!its) {
        throw error;
      }
      await use(its.name, its.bytes, file);
    }
    announce(`The key ${detector.about.key.id} is loaded.`);
  });
}

function openText(file) {
  next(async () => {
    byId("text").value = await textOf(file, MOST_TEXT);
    announce(`${file.name} is open.`);
    byId("text").focus();
  });
}

function examine() {
  const text = textToExamine();
  place.empty();
  if (text === null) {
    return;
  }
  const form = byId("examine-form");
  form.setAttribute("aria-busy", "true");
  announce("Examining.");
  next(async () => {
    const found = await detector.detect({ text, level: Number(byId("level").value), windows: byId("windows").checked });
    announce(place.finding.show(found, text, { kicker: "Finding", scheme: detector.about.key.scheme }));
    place.finding.focus({ preventScroll: window.innerWidth > 900 });
  }).finally(() => form.removeAttribute("aria-busy"));
}

async function begin() {
  try {
    const [script, module, list] = await Promise.all([
      loaded("worker.js").then((response) => response.text()),
      loaded("verdigris.wasm").then((response) => response.arrayBuffer()).then((bytes) => WebAssembly.compile(bytes)),
      loaded("tokenizers.json").then((response) => response.json()),
    ]);
    detector = new Detector(script, module);
    shipped = await Promise.all(
      list.map(async (one) => ({ ...one, bytes: new Uint8Array(await (await loaded(one.file)).arrayBuffer()) })),
    );
  } catch (error) {
    byId("state").textContent = "The detector could not be loaded.";
    fault(error);
    return;
  }
  closed();
  await next(() => use(shipped[0].name, shipped[0].bytes));
  byId("tokenizer").disabled = false;
  byId("examine-form").querySelector("button.main").disabled = false;
  document.documentElement.dataset.ready = "yes";
}

skips();
submits(byId("examine-form"), examine);
place.follows(byId("examine-form"));
takes(byId("text"), byId("file"), openText);
takes(byId("key-area"), byId("key-file"), openKey);
takes(byId("tokenizer-area"), byId("tokenizer-file"), openTokenizer);
byId("tokenizer").addEventListener("change", choose);
byId("key-forget").addEventListener("click", () => next(() => detector.forget()));
begin();
