// The plot of the evidence along a text. Data in, an element out.

import { svg } from "./dom.js";
import { pValue, powerOfTen, spoken, whole } from "./verdict.js";

const TOP = 24;
/** The margin right of the plot, for half of a number. */
const RIGHT = 14;
const BOTTOM = 34;
/** The margin left of the plot, for its numbers. */
export const LEFT = 46;

/** Round numbers from 0 to `most`, about three to seven of them. */
export function ticks(most, wanted = 6) {
  const rough = Math.max(most, 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((unit) => unit * power).find((step) => step >= rough));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/** A description of the plot in words. */
export function summary(course, level) {
  if (course.length === 0) {
    return "No token was counted, so there is no evidence to show.";
  }
  const digits = (point) => Math.max(0, -point.log10_p);
  const crossed = course.find((point) => digits(point) >= -Math.log10(level));
  const last = course.at(-1);
  const end = `After all ${whole(last.tokens)} tokens p is ${spoken([pValue(last.log10_p)])}.`;
  const level_ = spoken([pValue(Math.log10(level))]);
  return crossed
    ? `The evidence reaches the level of ${level_} after ${whole(crossed.tokens)} tokens. ${end}`
    : `The evidence does not reach the level of ${level_}. ${end}`;
}

/**
 * The plot, `width` pixels wide.
 *
 * `course` is a list of `{tokens, log10_p}`: p after that number of tokens. `tokens` is the number of all tokens,
 * `passages` has pairs of the first token of a marked passage and the one after it, and `cursor` is the highlighted
 * token, or null.
 */
export function plot({ course, tokens, level, passages = [], cursor = null }, width) {
  const height = Math.round(Math.min(280, Math.max(190, width * 0.42)));
  const digits = (log10) => Math.max(0, -log10);
  const needed = -Math.log10(level);
  const most = Math.max(needed * 1.5, ...course.map((point) => digits(point.log10_p) * 1.06));
  const [inner, tall] = [width - LEFT - RIGHT, height - TOP - BOTTOM];
  const end = Math.max(tokens, 1);
  const x = (token) => LEFT + (inner * token) / end;
  const y = (value) => TOP + tall * (1 - value / most);
  const points = [[0, 0], ...course.map((point) => [point.tokens, digits(point.log10_p)])];
  const path = points.map(([token, value], i) => `${i ? "L" : "M"}${x(token).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const last = points.at(-1);
  // If the line passes the level, the level's name is below it at the end; else above it at the beginning.
  const nameAt = last[1] > needed
    ? { x: width - RIGHT - 6, y: y(needed) + 16, "text-anchor": "end" }
    : { x: LEFT + 6, y: y(needed) - 7 };
  const picture = svg("svg", {
    class: "plot", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary(course, level),
  });
  for (const [from, to] of passages) {
    picture.append(svg("rect", { class: "shade", x: x(from), y: TOP, width: Math.max(1, x(to) - x(from)), height: tall }));
  }
  for (const tick of ticks(most, height / 40)) {
    const label = tick === 0 ? "1" : powerOfTen(-tick).text;
    picture.append(
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
      svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, label),
    );
  }
  for (const tick of ticks(end, width / 110)) {
    picture.append(
      svg("line", { class: "axis", x1: x(tick), x2: x(tick), y1: TOP + tall, y2: TOP + tall + 5 }),
      svg("text", { x: x(tick), y: TOP + tall + 18, "text-anchor": "middle" }, whole(tick)),
    );
  }
  picture.append(
    svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: TOP + tall, y2: TOP + tall }),
    svg("text", { class: "name", x: LEFT - 8, y: 10, "text-anchor": "end" }, "p"),
    svg("text", { class: "name", x: width - RIGHT, y: height - 3, "text-anchor": "end" }, "tokens"),
    svg("path", { class: "area", d: `${path}L${x(last[0]).toFixed(1)} ${y(0)}Z` }),
    svg("line", { class: "level", x1: LEFT, x2: width - RIGHT, y1: y(needed), y2: y(needed) }),
    svg("text", { class: "level-name", ...nameAt }, "called marked from here"),
    svg("path", { class: "curve", d: path }),
    svg("circle", { class: "end", cx: x(last[0]), cy: y(last[1]), r: 3.5 }),
  );
  if (cursor !== null) {
    picture.append(svg("line", { class: "cursor", x1: x(cursor + 0.5), x2: x(cursor + 0.5), y1: TOP, y2: TOP + tall }));
  }
  return picture;
}
