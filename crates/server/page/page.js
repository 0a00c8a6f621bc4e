// The page of `verdigris serve`: sends input to the server, and shows the findings.

import { takes, textOf } from "./files.js";
import { Place } from "./finding.js";
import { announce, fault as tell, skips, submits, textToExamine } from "./forms.js";
import * as server from "./server.js";
import { pValue, spoken, whole } from "./verdict.js";

const byId = (id) => document.getElementById(id);

/** The time between announcements while a text is being written, in milliseconds. */
const TOLD_EVERY = 6000;

let about = null;
const place = new Place(byId("finding"));
/** The maximum number of pieces between two tests of a text that is being written: a faster stream waits. */
const PIECES = 8;

/** The running operation, so that it can be stopped. */
let doing = null;

function fault(error) {
  tell(error);
  if (error) {
    place.empty();
  }
  if (error?.status === 401) {
    wantKey();
  }
}

/** Shows a finding instead of the previous one. */
function shown(found, text, more) {
  const key = about?.keys.find((key) => key.id === found.key_id);
  const keys = byId("key").value ? 1 : about?.keys.length;
  return place.finding.show(found, text, { keys, scheme: key?.scheme, ...more });
}

function wantKey() {
  byId("access").hidden = false;
  byId("api-key").focus();
}

async function meet() {
  try {
    about = await server.about();
  } catch (error) {
    byId("server").textContent = error.status === 401 ? "This server requires an API key." : "The server does not answer.";
    if (error.status === 401) {
      wantKey();
    } else {
      fault(error);
    }
    return false;
  }
  byId("access").hidden = true;
  const { model, chat, keys, enforce_all: enforced, max_tokens: most, version } = about;
  const [key] = keys;
  const held = keys.length > 1 ? `${keys.length} keys` : key ? `key ${key.id}, ${key.scheme}` : "no key, so it can write, but not detect";
  byId("server").textContent = `Model ${model}; ${held}. Version ${version}.`;
  byId("prompt-label").textContent = chat ? "What to write" : "How the text begins";
  byId("plain-option").hidden = enforced || keys.length === 0;
  byId("key-option").hidden = keys.length < 2;
  byId("key").replaceChildren(new Option("all of them", ""), ...keys.map((key) => new Option(key.id, key.id)));
  for (const option of byId("length").options) {
    option.disabled = Number(option.value) > most;
  }
  byId("examine-form").querySelector("button.main").disabled = keys.length === 0;
  return true;
}

/** The detection options. */
function options() {
  const schema = byId("schema").value.trim();
  return {
    level: Number(byId("level").value),
    windows: byId("windows").checked,
    ...(byId("key").value && { key_id: byId("key").value }),
    ...(schema && { schema }),
  };
}

/** Requests a signed report with the finding, if the server signs reports. */
function signing() {
  return about?.reports ? { report: true } : {};
}

/** Starts an operation, and stops the running one. */
async function only(form, work) {
  doing?.abort();
  const mine = (doing = new AbortController());
  form.setAttribute("aria-busy", "true");
  fault(null);
  try {
    await work(mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") {
      fault(error);
    }
  } finally {
    form.removeAttribute("aria-busy");
    if (doing === mine) {
      doing = null;
    }
  }
}

function examine() {
  const text = textToExamine();
  place.empty();
  if (text === null) {
    return;
  }
  only(byId("examine-form"), async (signal) => {
    announce("Examining.");
    const found = await server.detect({ text, ...options(), ...signing() }, signal);
    announce(shown(found, text, { kicker: "Finding" }));
    place.finding.focus({ preventScroll: window.innerWidth > 900 });
  });
}

/** The announcement while a text is being written. */
function progress(found) {
  const p = spoken([pValue(found.log10_p)]);
  return `${whole(found.tokens)} tokens so far; p is ${p}.`;
}

function write() {
  const prompt = byId("prompt").value;
  if (prompt.trim() === "") {
    fault({ message: about?.chat ? "First enter what to write" : "First enter how the text begins" });
    byId("prompt").focus();
    return;
  }
  place.empty();
  only(byId("write-form"), async (signal) => {
    byId("stop").disabled = false;
    announce("Writing.");
    let [text, looked, told, since] = ["", "", Date.now(), 0];
    let looking = null;
    const looks = about?.keys.length > 0;
    const look = async (kicker, more) => {
      [looked, since] = [text, 0];
      const found = await server.detect({ text: looked, level: Number(byId("level").value), ...more }, signal);
      const words = shown(found, looked, { kicker, rest: text.slice(looked.length) });
      if (Date.now() - told > TOLD_EVERY) {
        told = Date.now();
        announce(progress(found));
      }
      return words;
    };
    try {
      for await (const piece of server.write(
        {
          chat: about?.chat, prompt, max_tokens: Number(byId("length").value), temperature: 0.8, ignore_eos: !about?.chat,
          ...(byId("plain").checked && !byId("plain-option").hidden && { watermarking: false }),
        },
        signal,
      )) {
        text += piece.text;
        since += 1;
        if (since >= PIECES) {
          await looking;
        }
        // One test at a time, of all text that has arrived when it begins.
        if (looks && !looking && text.trim() && text !== looked) {
          looking = look("While it is written").finally(() => (looking = null));
          looking.catch(() => {});
        }
      }
      await looking;
      announce(looks && text.trim() ? `Written. ${await look("Written just now", signing())}` : "Written.");
    } finally {
      byId("stop").disabled = true;
      if (signal.aborted) {
        announce("Stopped.");
      }
    }
  });
}

function tabs() {
  const all = [...document.querySelectorAll("[role=tab]")];
  const choose = (tab) => {
    for (const other of all) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      byId(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    fault(null);
  };
  for (const [at, tab] of all.entries()) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", ({ key }) => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[key];
      if (to !== undefined) {
        const next = all[(to + all.length) % all.length];
        choose(next);
        next.focus();
      }
    });
  }
}

/** Loads the text of a file. */
async function open(file) {
  fault(null);
  place.empty();
  try {
    byId("text").value = await textOf(file, (about?.max_body ?? 4 << 20) / 2);
  } catch (error) {
    fault(error);
    return;
  }
  announce(`${file.name} is open.`);
  byId("text").focus();
}

tabs();
skips();
takes(byId("text"), byId("file"), open);
submits(byId("examine-form"), examine);
place.follows(byId("examine-form"));
submits(byId("write-form"), write);
submits(byId("access-form"), async () => {
  server.use(byId("api-key").value);
  byId("api-key").value = "";
  fault(null);
  if (await meet()) {
    announce("The key is accepted.");
    byId("text").focus();
  } else {
    fault({ message: "The server does not accept this key" });
  }
});
byId("stop").addEventListener("click", () => doing?.abort());
meet();
