// How the server does: latencies per stage, queue, memory; looked at again every two seconds.

import { get } from "./api.js";
import { failure, find, make, message, replace } from "./dom.js";
import { makeTable } from "./report.js";
import { skeleton } from "./search.js";
import { duration, oneLine, size } from "./text.js";

const EVERY = 2000; // milliseconds
const QUANTILES = ["p50", "p95", "p99"];
let timer = null;
let isWatching = false;

/** Watch the figures for as long as they are shown. */
export async function showStats(page) {
  stopWatching();
  isWatching = true;
  page.tell("");
  const view = find("stats");
  if (!view.childElementCount) replace(view, skeleton());
  await look(view, page);
}

/** Stop looking. */
export function stopWatching() {
  isWatching = false;
  clearTimeout(timer);
}

async function look(view, page) {
  try {
    const stats = await get("stats");
    if (!isWatching) return;
    replace(view, makeCards(stats), makeStages(stats.stages));
  } catch (error) {
    if (!isWatching) return;
    replace(view, failure(error, () => showStats(page)));
    return;
  }
  timer = setTimeout(() => look(view, page), EVERY);
}

function makeCards(stats) {
  const write = (number) => number.toLocaleString("en");
  const card = (name, value, note = "") => {
    const told = make("dd", {}, value, make("small", {}, note));
    return make("div", { class: "card" }, make("dt", {}, name), told);
  };
  return make(
    "dl",
    { class: "cards" },
    card("Requests", write(stats.requests), `${write(stats.errors)} failed`),
    card("Waiting", write(stats.queue.length), `of ${write(stats.queue.capacity)} places`),
    card("Memory", size(stats.memory_bytes)),
    card("Up for", duration(stats.uptime_seconds)),
  );
}

function makeStages(stages) {
  const known = Object.entries(stages).filter(([, stage]) => stage.count > 0);
  if (!known.length) return message("No statistics yet", "They appear with the first search.");
  const longest = Math.max(...known.map(([, stage]) => stage.p99), 1e-9);
  const rows = known.map(([name, stage]) => [
    make("span", { class: "stage-name" }, oneLine(name, 40), drawSpread(stage, longest)),
    stage.count.toLocaleString("en"),
    duration(stage.p50),
    duration(stage.p95),
    duration(stage.p99),
  ]);
  const table = makeTable(["stage", "count", ...QUANTILES], rows);
  return make("section", {}, make("h2", {}, "Where the time goes"), table);
}

function drawSpread(stage, longest) {
  const bars = [...QUANTILES].reverse().map((name) => {
    return make("i", { class: name, share: stage[name] / longest });
  });
  return make("span", { class: "spread", "aria-hidden": "true" }, ...bars);
}
