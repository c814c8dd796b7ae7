// Plots as SVG, drawn from values. Colours come from the style, by class.

import { draw } from "./dom.js";
import { duration, oneLine } from "./text.js";

const WIDTH = 420;
const RIGHT = 408;

/** Choose at most so many round ticks that hold all values. */
export function makeTicks(values, most = 5) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => span / each <= most);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  const places = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  return places.map((place) => Number((place * step).toPrecision(12)));
}

/** Write ticks with as many places as the finest of them needs. */
function write(ticks) {
  const places = Math.max(...ticks.map((tick) => (String(tick).split(".")[1] ?? "").length));
  return new Map(ticks.map((tick) => [tick, tick.toFixed(places)]));
}

function makeScale(ticks, start, end) {
  const low = ticks[0];
  const width = ticks[ticks.length - 1] - low || 1;
  return (value) => start + ((value - low) / width) * (end - start);
}

function frame(height, title, ...children) {
  return draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": title, class: "plot" },
    ...children,
  );
}

function word(x, y, text, attributes = {}) {
  return draw("text", { x, y, ...attributes }, text);
}

/** Each row of quality as two points with their intervals: hollow before, full after. */
export function plotQuality(rows) {
  const estimates = rows.flatMap((row) => [row.before, row.after]).filter(Boolean);
  const ticks = makeTicks(estimates.flatMap((each) => [each.low, each.high]));
  const at = makeScale(ticks, 12, RIGHT);
  const bottom = rows.length * 46 + 6;
  const grid = ticks.flatMap((tick) => [
    draw("line", { class: "grid", x1: at(tick), x2: at(tick), y1: 4, y2: bottom }),
    word(at(tick), bottom + 16, write(ticks).get(tick), { class: "tick", "text-anchor": "middle" }),
  ]);
  const drawn = rows.flatMap((row, place) => {
    const y = place * 46 + 18;
    return [
      word(12, y, `${oneLine(row.searcher, 20)}, ${oneLine(row.queries, 40)}`),
      ...(row.before ? point(row.before, at, y + 9, "before") : []),
      ...point(row.after, at, y + 18, "after"),
    ];
  });
  return frame(bottom + 24, "Quality before and after learning", ...grid, ...drawn);
}

function point(estimate, at, y, kind) {
  return [
    draw("line", {
      class: `interval ${kind}`,
      x1: at(estimate.low),
      x2: at(estimate.high),
      y1: y,
      y2: y,
    }),
    draw("circle", { class: `dot ${kind}`, cx: at(estimate.mean), cy: y, r: 4 }),
  ];
}

/** A held-out measure step by step; a ring around the step that was kept. */
export function plotCurve(stage) {
  const steps = stage.curve.map(([step]) => step);
  const rows = makeTicks(stage.curve.map(([, value]) => value));
  const columns = makeTicks([Math.min(...steps), Math.max(...steps)], 6);
  const x = makeScale(columns, 44, RIGHT);
  const y = makeScale(rows, 160, 12);
  const points = stage.curve.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
  const kept = stage.curve.find(([step]) => step === stage.best_step);
  return frame(
    188,
    `${oneLine(stage.name, 40)}: held-out quality by step`,
    ...rows.flatMap((tick) => [
      draw("line", { class: "grid", x1: 44, x2: RIGHT, y1: y(tick), y2: y(tick) }),
      word(38, y(tick) + 4, write(rows).get(tick), { class: "tick", "text-anchor": "end" }),
    ]),
    ...columns.map((tick) =>
      word(x(tick), 180, tick.toLocaleString("en"), { class: "tick", "text-anchor": "middle" }),
    ),
    draw("polyline", { class: "curve", points: points.join(" ") }),
    ...stage.curve.map(([step, value]) =>
      draw("circle", { class: "point", cx: x(step), cy: y(value), r: 2.5 }),
    ),
    kept ? draw("circle", { class: "best", cx: x(kept[0]), cy: y(kept[1]), r: 7 }) : null,
  );
}

/** Stages as bars, each as long as it took. */
export function plotTimes(stages) {
  const longest = Math.max(...stages.map((stage) => stage.seconds), 1e-9);
  const drawn = stages.flatMap((stage, place) => {
    const y = place * 34 + 14;
    const width = Math.max(2, (stage.seconds / longest) * (RIGHT - 12));
    return [
      word(12, y, oneLine(stage.name, 40)),
      word(RIGHT, y, duration(stage.seconds), { class: "tick", "text-anchor": "end" }),
      draw("rect", { class: "time", x: 12, y: y + 6, width, height: 7, rx: 3.5 }),
    ];
  });
  return frame(stages.length * 34 + 6, "Where the time went", ...drawn);
}
