// A finding on a page: the verdict as a label, the plot, and the text. The data may come from any source.

import { html, sentence } from "./dom.js";
import { LEFT, plot } from "./plot.js";
import { keeping } from "./report.js";
import { coloured, described, legend, pieces, tally } from "./tokens.js";
import { pValue, spoken, whole, wording } from "./verdict.js";

/** The number of rows of the table with the data of the plot. */
const ROWS = 10;

/**
 * The area of a page that shows a finding or nothing. `empty` restores its original content: a finding is never shown
 * next to a text, a file or options that it does not apply to, nor next to an error.
 */
export class Place {
  #root;
  #blank;
  #finding = null;

  constructor(root) {
    this.#root = root;
    this.#blank = [...root.children];
  }

  /** The finding that is shown here, created on first use. */
  get finding() {
    return (this.#finding ??= new Finding(this.#root));
  }

  empty() {
    if (this.#finding) {
      this.#root.replaceChildren(...this.#blank);
      this.#finding = null;
    }
  }

  /** Calls `empty` whenever something in a form is changed. */
  follows(form) {
    for (const event of ["input", "change"]) {
      form.addEventListener(event, () => this.empty());
    }
  }
}

export class Finding {
  #found = null;
  #text = "";
  #pieces = new Map();
  #at = null;

  constructor(root) {
    this.kicker = html("p", { class: "kicker" });
    this.title = html("h2", {});
    this.words = html("div", { class: "words" });
    this.facts = html("dl", {});
    this.label = html("section", { class: "label", tabindex: -1, "aria-label": "The finding" }, this.kicker, this.title, this.words, this.facts);
    this.keeping = keeping(() => ({ found: this.#found, sections: [this.label, this.evidence, this.reading] }));
    this.label.append(this.keeping.element);

    this.picture = html("div", { class: "picture" });
    this.slider = html("input", { type: "range", id: "walk", min: 0, value: 0, step: 1 });
    this.here = html("p", { class: "here", "aria-hidden": "true" });
    this.walk = html("div", { class: "walk" }, this.slider, html("label", { for: "walk" }, "Walk through the tokens"), this.here);
    this.table = html("tbody", {});
    const head = html("tr", {}, html("th", { scope: "col" }, "tokens"), html("th", { scope: "col" }, "z"), html("th", { scope: "col" }, "p"));
    this.details = html(
      "details", {}, html("summary", {}, "The same as a table"), html("table", {}, html("thead", {}, head), this.table),
    );
    this.evidence = html(
      "section", { class: "evidence" }, html("h3", {}, "The evidence along the text"),
      html("p", { class: "note" }, "The p-value after each number of tokens. The line rises where the text agrees with the key more often than by chance."),
      this.picture, this.walk, this.details,
    );

    this.key = html("div", {});
    this.tally = html("p", { class: "note" });
    this.body = html("div", { class: "text", tabindex: 0, role: "region", "aria-label": "The text, token by token" });
    this.reading = html("section", { class: "reading" }, html("h3", {}, "The text, token by token"), this.tally, this.key, this.body);
    root.replaceChildren(this.label, this.evidence, this.reading);

    this.slider.addEventListener("input", () => this.#point(Number(this.slider.value)));
    this.body.addEventListener("click", (event) => {
      const token = event.target.dataset?.token;
      if (token !== undefined) {
        this.slider.value = token;
        this.#point(Number(token));
      }
    });
    new ResizeObserver(() => this.#draw()).observe(this.picture);
  }

  /**
   * Shows the finding for a text. `kicker` is the line above the verdict, `rest` is text that has not been tested yet,
   * and `keys` and `scheme` are those of `wording`. Returns the verdict as it is read aloud.
   */
  show(found, text, { kicker = "Finding", rest = "", ...about } = {}) {
    const words = wording(found, about);
    this.#found = found;
    this.#text = text;
    this.kicker.textContent = kicker;
    this.title.textContent = words.title;
    this.label.dataset.tone = words.tone;
    this.words.replaceChildren(
      html("p", { class: "lead" }, sentence(words.lead)),
      html("p", {}, sentence(words.chance)),
      words.caveat.length ? html("p", { class: "caveat" }, sentence(words.caveat)) : "",
      words.passages.length ? html("ol", { class: "passages" }, ...words.passages.map((passage) => this.#passage(passage))) : "",
      words.hint ? html("p", { class: "caveat" }, `A hint: ${words.hint}.`) : "",
    );
    this.facts.replaceChildren(
      ...words.facts.map(([name, parts]) => html("div", {}, html("dt", {}, name), html("dd", {}, sentence(parts)))),
    );
    this.keeping.update();
    this.#tokens(rest);
    this.#rows();
    this.#draw();
    return `${words.title}. ${spoken(words.lead)} ${spoken(words.chance)}`;
  }

  #passage(passage) {
    const bytes = new TextEncoder().encode(this.#text).slice(passage.start, passage.end);
    const inside = new TextDecoder().decode(bytes).trim().split(/\s+/);
    const words = inside.length > 9 ? [...inside.slice(0, 4), "…", ...inside.slice(-4)] : inside;
    const button = html("button", { type: "button", class: "link" }, `“${words.join(" ")}”`);
    button.addEventListener("click", () => {
      const token = this.#found.token_marks?.findIndex((mark) => mark.start >= passage.start) ?? -1;
      if (token >= 0) {
        this.slider.value = token;
        this.#point(token);
        this.slider.focus();
      }
    });
    return html("li", {}, button, ": ", sentence(passage.words));
  }

  #tokens(rest) {
    const { token_marks: marks, passages, colours } = this.#found;
    this.reading.hidden = this.walk.hidden = !marks;
    this.#at = null;
    this.here.textContent = "";
    this.#pieces.clear();
    if (!marks) {
      return;
    }
    const spans = coloured(pieces(this.#text, marks, passages));
    for (const span of spans.children) {
      if (span.dataset.token !== undefined) {
        this.#pieces.set(Number(span.dataset.token), span);
      }
    }
    this.body.replaceChildren(spans, rest ? html("span", { class: "t between" }, rest) : "");
    this.tally.textContent = tally(marks, colours);
    this.key.replaceChildren(legend(colours, Boolean(passages?.length)));
    this.walk.hidden = marks.length === 0;
    this.slider.max = Math.max(0, marks.length - 1);
    this.slider.value = this.slider.max;
    this.slider.setAttribute("aria-valuetext", "the end of the text");
  }

  /** Highlights a token in the text and in the plot, and describes it in words. */
  #point(at) {
    const { token_marks: marks, course, colours } = this.#found;
    const mark = marks[at];
    if (!mark) {
      return;
    }
    this.#pieces.get(this.#at)?.classList.remove("here");
    this.#at = at;
    const span = this.#pieces.get(at);
    span?.classList.add("here");
    if (span) {
      const [box, outer] = [span.getBoundingClientRect(), this.body.getBoundingClientRect()];
      if (box.top < outer.top || box.bottom > outer.bottom) {
        this.body.scrollTop += box.top - outer.top - outer.height / 3;
      }
    }
    const point = course?.findLast((point) => point.tokens <= at + 1);
    const parts = [
      `Token ${whole(at + 1)}, “${mark.text.trim() || "white space"}”: ${described(mark, colours)}`,
      ...(point ? ["; p so far ", pValue(point.log10_p)] : []),
      ".",
    ];
    this.here.replaceChildren(...parts.map((part) => (typeof part === "string" ? part : part.text)));
    this.slider.setAttribute("aria-valuetext", spoken(parts));
    this.#draw();
  }

  #rows() {
    const course = this.#found.course ?? [];
    const step = Math.ceil(course.length / ROWS);
    const rows = course.filter((_, i) => (i + 1) % step === 0 || i === course.length - 1);
    this.table.replaceChildren(
      ...rows.map((point) =>
        html("tr", {}, html("td", {}, whole(point.tokens)), html("td", {}, Number.isFinite(point.z) ? point.z.toFixed(1) : "–"),
          html("td", {}, sentence([pValue(point.log10_p)]))),
      ),
    );
    this.details.hidden = rows.length === 0;
  }

  #draw() {
    // Hidden elements have no width.
    this.evidence.hidden = !this.#found?.course?.length;
    const width = Math.floor(this.picture.clientWidth);
    if (this.evidence.hidden || width < LEFT * 2) {
      return;
    }
    const { course, tokens, level, passages = [], token_marks: marks } = this.#found;
    const place = (byte) => {
      const at = marks.findIndex((mark) => mark.start >= byte);
      return at < 0 ? marks.length : at;
    };
    const shades = marks ? passages.map((passage) => [place(passage.start), place(passage.end)]) : [];
    this.picture.replaceChildren(plot({ course, tokens, level, passages: shades, cursor: this.#at }, width));
  }

  /** Moves the focus to the verdict. */
  focus(options) {
    this.label.focus(options);
  }
}
