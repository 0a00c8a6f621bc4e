// A text with the key's view of each token. Data in, data or elements out.

import { html } from "./dom.js";
import { whole } from "./verdict.js";

/** The number of bytes of a character in UTF-8. */
function bytes(code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

/** Maps byte positions of a text to UTF-16 positions; must be called in ascending order. */
function places(text) {
  let [byte, unit] = [0, 0];
  return (wanted) => {
    while (byte < wanted && unit < text.length) {
      const code = text.codePointAt(unit);
      byte += bytes(code);
      unit += code > 0xffff ? 2 : 1;
    }
    return unit;
  };
}

function kind({ mark, green }) {
  switch (mark) {
    case "counted":
      return green ? "green" : "red";
    case "repeated":
      return green ? "green again" : "red again";
    default:
      return mark;
  }
}

/**
 * The text in pieces: `{text, kind, token, passage}`. `marks` are `{start, end, mark, green}` in bytes, `passages`
 * `{start, end}`. A character that tokens share belongs to the first; pieces outside all tokens have no `token`.
 */
export function pieces(text, marks, passages = []) {
  const place = places(text);
  const all = [];
  let shown = 0;
  let unit = 0;
  const push = (end, kind, token, passage) => {
    const next = place(end);
    if (next > unit) {
      all.push({ text: text.slice(unit, next), kind, token, passage });
      unit = next;
    }
    shown = Math.max(shown, end);
  };
  marks.forEach((mark, token) => {
    const start = Math.max(mark.start, shown);
    if (mark.end <= start) {
      return;
    }
    if (start > shown) {
      push(start, "between", null, -1);
    }
    const passage = passages.findIndex((passage) => passage.start <= start && mark.end <= passage.end);
    push(mark.end, kind(mark), token, passage);
  });
  if (unit < text.length) {
    all.push({ text: text.slice(unit), kind: "between", token: null, passage: -1 });
  }
  return all;
}

/** The key's view of a token, in words. */
export function described({ mark, green }, colours = true) {
  const colour = colours ? (green ? "green" : "red") : green ? "favoured" : "not favoured";
  switch (mark) {
    case "counted":
      return `${colour}, counted`;
    case "repeated":
      return `${colour}, not counted again`;
    case "forced":
      return "not scored: the constraint left no choice";
    default:
      return "not scored: too few tokens before it";
  }
}

/** The number of tokens of each kind, in a sentence. */
export function tally(marks, colours = true) {
  const count = (test) => whole(marks.filter(test).length);
  const is = (mark, green) => (token) => token.mark === mark && token.green === green;
  const [yes, no] = colours ? ["green", "red"] : ["favoured", "not favoured"];
  const again = count((token) => token.mark === "repeated");
  const never = count((token) => token.mark === "unscored" || token.mark === "forced");
  return (
    `Of ${whole(marks.length)} tokens ${count(is("counted", true))} are ${yes}, ${count(is("counted", false))} ${no}, ` +
    `${again} not counted again, and ${never} not scored.`
  );
}

/** The pieces as elements, each with the index of its token in `data-token`. */
export function coloured(pieces) {
  const all = document.createDocumentFragment();
  for (const piece of pieces) {
    const passage = piece.passage >= 0 ? " passage" : "";
    all.append(html("span", { class: `t ${piece.kind}${passage}`, "data-token": piece.token }, piece.text));
  }
  return all;
}

/** The legend of the kinds of tokens. */
export function legend(colours = true, passages = false) {
  const entry = (kind, words) => html("li", {}, html("span", { class: `t ${kind}`, "aria-hidden": "true" }, "word"), ` ${words}`);
  return html(
    "ul",
    { class: "legend" },
    entry("green", colours ? "green: the key favours it" : "favoured by the key"),
    entry("red", colours ? "red: it does not" : "not favoured"),
    entry("green again", "not counted again"),
    entry("unscored", "not scored"),
    passages ? entry("green passage", "in a marked passage") : null,
  );
}
