// What the collection taught: the learning report with its plots.

import { get } from "./api.js";
import { failure, find, foreign, make, message, replace } from "./dom.js";
import { plotCurve, plotQuality, plotTimes } from "./plots.js";
import { skeleton } from "./search.js";
import { count, duration, oneLine, size } from "./text.js";

const COLUMNS = ["search and queries", "queries", "before", "after", "difference"];

/** Fetch the report and show it. */
export async function showReport(page) {
  const view = find("learning");
  page.tell("");
  if (!view.querySelector(".report")) replace(view, skeleton());
  try {
    replace(view, makeReport(await get("report")));
  } catch (error) {
    const name = page.collection?.name ?? "COLLECTION";
    if (error.status !== 404) return replace(view, failure(error, () => showReport(page)));
    const command = make("p", {}, make("code", {}, `quoth learn ${oneLine(name, 80)}`));
    const told = "Quoth can learn to search these documents better, without a single label:";
    replace(view, message("Nothing learned yet", told, command));
  }
}

function makeReport(report) {
  const curves = report.stages.filter((stage) => stage.curve.length);
  return make(
    "div",
    { class: "report" },
    makeVerdict(report),
    report.quality.length ? makeQuality(report.quality) : null,
    curves.length ? makeCurves(curves) : null,
    report.stages.length
      ? section("Where the time went", make("figure", {}, plotTimes(report.stages)))
      : null,
    report.examples.length ? makeExamples(report.examples) : null,
    makeDetails(report),
  );
}

function makeVerdict(report) {
  const best = bestRow(report.quality);
  const used = report.installed || report.reranker_fitted;
  return make(
    "div",
    { class: used ? "verdict installed" : "verdict" },
    make("h2", {}, used ? "Search uses the learned model" : "Search is unchanged"),
    best ? make("p", { class: "gain" }, sayGain(best)) : null,
    report.reranker_reason ? foreign(report.reranker_reason, "p") : null,
    foreign(report.reason, "p"),
    foreign(report.supervision, "p", { class: "quiet" }),
  );
}

function bestRow(quality) {
  const compared = quality.filter((row) => row.difference && row.searcher !== "lexical");
  const seen = ["reranked", "hybrid"].map((name) => compared.find((row) => row.searcher === name));
  return seen.find(Boolean) ?? compared[0] ?? null;
}

function sayGain(row) {
  const { mean, low, high } = row.difference;
  const what = `${oneLine(row.searcher, 20)} search on ${oneLine(row.queries, 40)}`;
  const means = `${row.before.mean.toFixed(3)} before, ${row.after.mean.toFixed(3)} after`;
  const interval = `95% interval ${signed(low)} to ${signed(high)}, ${oneLine(row.measure, 20)}`;
  return `${what}: ${means} (${signed(mean)}; ${interval})`;
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}

function makeQuality(quality) {
  const rows = quality.map((row) => [
    `${oneLine(row.searcher, 20)}, ${oneLine(row.queries, 40)}`,
    row.num_queries.toLocaleString("en"),
    row.before ? row.before.mean.toFixed(3) : "–",
    row.after.mean.toFixed(3),
    row.difference ? signed(row.difference.mean) : "–",
  ]);
  return section(
    "Quality on held-out queries",
    make(
      "p",
      { class: "legend" },
      make("i", { class: "before" }),
      "before ",
      make("i", { class: "after" }),
      "after, with 95% intervals; further right is better",
    ),
    make("figure", {}, plotQuality(quality)),
    make("details", {}, make("summary", {}, "As a table"), makeTable(COLUMNS, rows)),
  );
}

function makeCurves(stages) {
  const told = "Quality on held-out queries by training step; the ring marks the step that was kept.";
  const figures = make("div", { class: "figures" }, ...stages.map(makeCurve));
  return section("Learning curves", make("p", { class: "quiet" }, told), figures);
}

function makeCurve(stage) {
  const stopped = stage.stopped_because ? `; stopped because ${stage.stopped_because}` : "";
  const [best, all] = [stage.best_step, stage.steps].map((each) => each.toLocaleString("en"));
  return make(
    "figure",
    {},
    make("figcaption", {}, foreign(oneLine(stage.name, 60))),
    plotCurve(stage),
    make("p", { class: "quiet" }, `Best at step ${best} of ${all}${oneLine(stopped, 200)}.`),
  );
}

function makeExamples(examples) {
  const quotes = examples.slice(0, 4).map(([passage, queries]) =>
    make(
      "blockquote",
      {},
      foreign(oneLine(passage, 400), "p"),
      make("ul", {}, ...queries.slice(0, 5).map((query) => foreign(oneLine(query, 160), "li"))),
    ),
  );
  return section("Queries it wrote for itself", ...quotes);
}

function makeDetails(report) {
  const facts = {
    Documents: count(report.num_documents, "document"),
    Passages: count(report.num_passages, "passage"),
    "Encoder before": report.encoder_before,
    "Encoder after": report.encoder_after,
    Reranker: report.reranker_fitted ? "fine-tuned on this collection" : "as it was",
    Time: duration(report.seconds),
    "Most memory": size(report.peak_megabytes * 1e6),
    Device: report.device,
    Seed: String(report.seed),
  };
  const pairs = Object.entries(facts).flatMap(([name, value]) => [
    make("dt", {}, name),
    foreign(oneLine(value, 120), "dd"),
  ]);
  return section("Details", make("dl", { class: "details" }, ...pairs));
}

/** A table whose first column is words, the others numbers. */
export function makeTable(columns, rows) {
  const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col" }, column)));
  const body = rows.map(([first, ...rest]) => {
    const cells = rest.map((cell) => make("td", {}, cell));
    return make("tr", {}, make("th", { scope: "row" }, first), ...cells);
  });
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll" }, table);
}

function section(title, ...content) {
  return make("section", {}, make("h2", {}, title), ...content);
}
