// A finding in words that claim no more than it does. Data in, data out: no page, no server.

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

const REPAIRS = {
  invisible: "invisible characters",
  homoglyph: "look-alike letters",
  decorative: "decorative letters",
  space: "odd spaces",
  composition: "decomposed letters",
  "line-end": "carriage returns",
  "white-space": "runs of white space",
  "wrapped-line": "wrapped lines",
  "letter-case": "words in sentence case",
};

/** A whole number with thousands separators. */
export function whole(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** A power of ten, for display and to be read aloud. */
export function powerOfTen(exponent) {
  const raised = [...String(exponent)].map((digit) => SUPERSCRIPTS[digit]).join("");
  return { text: `10${raised}`, spoken: `10 to the power of ${exponent < 0 ? `minus ${-exponent}` : exponent}` };
}

/** A p-value from its logarithm to base 10, since the value itself may be too small for a number. */
export function pValue(log10) {
  if (log10 > -3) {
    const text = (10 ** log10).toFixed(log10 > -1 ? 2 : 4);
    return { text, spoken: text };
  }
  let exponent = Math.floor(log10);
  let mantissa = 10 ** (log10 - exponent);
  if (mantissa >= 9.95) {
    [mantissa, exponent] = [1, exponent + 1];
  }
  const power = powerOfTen(exponent);
  const first = mantissa.toFixed(1);
  return { text: `${first} × ${power.text}`, spoken: `${first} times ${power.spoken}` };
}

/** A whole number in superscript digits. */
function raised(number) {
  return String(number).replace(/[0-9]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
}

/** A p-value from its logarithm to base 10, as odds. */
export function odds(log10) {
  const p = 10 ** log10;
  if (p >= 0.095) {
    return p > 0.95 ? "nearly all of them" : `about ${Math.max(1, Math.round(p * 10))} in 10`;
  }
  const digits = -log10;
  if (digits >= 15) {
    return `less than 1 in 10${raised(Math.floor(digits))}`;
  }
  const names = [[12, "trillion"], [9, "billion"], [6, "million"]];
  const [power, name] = names.find(([power]) => digits >= power) ?? [0, ""];
  const scaled = 10 ** (digits - power);
  const rounded = Number(scaled.toPrecision(2));
  return `about one in ${whole(rounded)}${name && ` ${name}`}`;
}

function list(ids) {
  return ids.length < 2 ? ids.join("") : `${ids.slice(0, -1).join(", ")} and ${ids.at(-1)}`;
}

function facts(found, scheme) {
  const count = whole(found.tokens);
  const score = found.colours ? whole(found.score) : found.score.toFixed(1);
  const rows = [
    ["p-value", [pValue(found.log10_p)]],
    ["z", [Number.isFinite(found.z) ? found.z.toFixed(2).replace("-", "−") : "not known for this key"]],
    ["Tokens", [`${count}, of which ${whole(found.scored)} counted`]],
    [found.colours ? "Green" : "Score", [`${score}, by chance ${found.expected.toFixed(1)}`]],
    ["Key", [found.key_id]],
    ["Scheme", [scheme ?? found.dialect]],
  ];
  if (found.looks > 1) {
    rows.push(["Tests counted in the p-value", [whole(found.looks)]]);
  }
  if (found.repairs) {
    rows.push(["Repaired", [found.repairs.map(([what, times]) => `${times} ${REPAIRS[what] ?? what}`).join(", ")]]);
  }
  if (found.manifests) {
    const bytes = found.manifests.reduce((sum, [start, end]) => sum + end - start, 0);
    rows.push(["Left out", [`${whole(bytes)} bytes of a C2PA manifest`]]);
  }
  if (found.forced !== undefined) {
    rows.push(["Forced by the constraint", [`${whole(found.forced)} tokens, not counted`]]);
  }
  if (found.payload !== undefined) {
    rows.push(["Payload", [`0x${found.payload.toString(16)}`]]);
  }
  return rows;
}

function passages(found) {
  return (found.passages ?? []).map((passage) => ({
    start: passage.start,
    end: passage.end,
    words: [`z ${passage.z.toFixed(1)}, p `, pValue(passage.log10_p), `, key ${passage.key_id}`],
  }));
}

/**
 * The words for a finding in the format of `POST /detect` and `verdigris detect --json`.
 *
 * `keys` is the number of keys tested, `scheme` the description of the key's scheme. Returns `tone` (`marked`, `plain`
 * or `open`), `title`, `lead`, `chance` and `caveat` (lists of parts), `facts` (pairs of a name and parts), `passages`,
 * and `hint`.
 */
export function wording(found, { keys = 1, scheme } = {}) {
  const p = pValue(found.log10_p);
  const common = { facts: facts(found, scheme), passages: passages(found), hint: found.hint?.replace(/ \("[a-z_]+": true\)/, "") ?? null };
  switch (found.verdict) {
    case "marked":
      return {
        ...common,
        tone: "marked",
        title: "Marked",
        lead: [`This text carries the mark of the key ${found.key_id}.`],
        chance: [
          "A text written without that key would look as marked as this one with a probability of at most ", p,
          `: ${odds(found.log10_p)}.`,
        ],
        caveat: ["Anyone with the key can write such text, so this does not identify its author."],
      };
    case "marked in part": {
      const ids = [...new Set(common.passages.length ? found.passages.map((passage) => passage.key_id) : [found.key_id])];
      return {
        ...common,
        tone: "marked",
        title: "Marked in part",
        lead: [`Passages of this text carry the mark of the ${ids.length > 1 ? "keys" : "key"} ${list(ids)}.`],
        chance: [
          "In a text written without the key, any such passage would be found with a probability of at most ",
          pValue(Math.log10(found.level)), ".",
        ],
        caveat: ["Anyone with the key can write such text, so this does not identify its author."],
      };
    }
    case "forged":
      return {
        ...common,
        tone: "open",
        title: "Forged",
        lead: [`The same words carry the marks of ${whole(found.variants)} variants of the key ${found.key_id}.`],
        chance: ["The holder of the key uses one variant for each text, so this text is not the holder's."],
        caveat: ["Its author has learned the marks from other texts."],
      };
    case "too short":
      return {
        ...common,
        tone: "open",
        title: "Not enough evidence",
        lead: ["The text is too short to say anything."],
        chance: [
          `${whole(found.scored)} of its tokens can be counted`,
          found.needed ? `, and a verdict takes at least ${whole(found.needed)}` : "",
          ": even a completely marked text could not be distinguished from chance.",
        ],
        caveat: [],
      };
    case "not enough evidence":
      return {
        ...common,
        tone: "open",
        title: "Not enough evidence",
        lead: [`No mark of the key ${found.key_id} was found, and none could be expected.`],
        chance: ["The text left its writer so little choice that a mark could not be distinguished from chance."],
        caveat: [],
      };
    default:
      return {
        ...common,
        tone: "plain",
        title: keys > 1 ? "No mark of these keys" : "No mark of this key",
        lead: [keys > 1 ? `No mark of any of the ${whole(keys)} keys was found.` : `No mark of the key ${found.key_id} was found.`],
        chance: ["Texts without such a mark look as marked as this one with a probability of ", p, `: ${odds(found.log10_p)}.`],
        caveat: [
          "This does not identify the author. A text written with another key, or without one, has no such mark, and ",
          "heavy editing, paraphrase or a lack of choice can remove one.",
        ],
      };
  }
}

/** Parts of a sentence as they are read aloud. */
export function spoken(parts) {
  return parts.map((part) => (typeof part === "string" ? part : part.spoken)).join("");
}
