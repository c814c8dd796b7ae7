// Why a hit is where it is, as small pictures: bars that add up, attention, identifiers.

import { post } from "./api.js";
import { failure, foreign, make, replace } from "./dom.js";
import { oneLine, score } from "./text.js";

const IDENTIFIER = /^identifier "([\s\S]*?)"(.*)$/;
const PHRASE = /^phrase "([\s\S]*?)": (.*)$/;
const MOST_PARTS = 12;
const READERS = ["cross-encoder", "likelihood"]; // who reranks, and does not search
const HEADINGS = {
  lexical: "Words (BM25)",
  dense: "Meaning (vectors)",
  generative: "Generated identifiers",
};

/** Fetch the explanations of a hit, one per searcher that found it, and draw them. */
export async function showWhy(place, { hit, query, searcher }) {
  replace(place, make("p", { class: "quiet waiting" }, "Loading the explanation…"));
  const names = Object.keys(hit.found_by ?? {});
  const rerank = names.some((name) => READERS.includes(name));
  const finders = names.filter((name) => name !== searcher && !READERS.includes(name));
  try {
    const all = await Promise.all(
      [searcher, ...finders].map(async (name) => {
        const body = { query, docids: [hit.docid], searcher: name };
        if (name === searcher) body.rerank = rerank;
        return [name, (await post("explain", body)).explanations[0]];
      }),
    );
    const looks = all.findLast(([, found]) => found.attention)?.[0]; // one searcher, not the fusion
    replace(place, ...all.flatMap(([name, found]) => draw(name, found, name === looks)));
  } catch (error) {
    replace(place, failure(error, () => showWhy(place, { hit, query, searcher }), "h4"));
  }
}

function draw(searcher, { part, attention }, isLooking) {
  const heading = HEADINGS[searcher] ?? "How the searchers add up";
  const figures = [
    make(
      "figure",
      { class: "bars" },
      make("figcaption", {}, heading, make("b", {}, score(part.value))),
      drawParts(part, searcher === "dense" ? 1 : 0), // a cosine is at most 1
    ),
  ];
  if (isLooking) figures.push(drawAttention(attention));
  return figures;
}

function drawParts(part, least) {
  const parts = part.parts.length ? part.parts : [part];
  const shown = [...parts].sort((one, other) => other.value - one.value).slice(0, MOST_PARTS);
  const greatest = Math.max(...shown.map((each) => Math.abs(each.value)), least, 1e-12);
  const rest = parts.length - shown.length;
  return make(
    "ul",
    {},
    ...shown.map((each) => drawPart(each, greatest)),
    rest ? make("li", { class: "quiet" }, `and ${rest} more`) : null,
  );
}

function drawPart(part, greatest) {
  const { name, note } = readLabel(part.label);
  const leaves = part.parts.filter((leaf) => leaf.label !== part.label);
  return make(
    "li",
    {},
    make(
      "div",
      { class: "bar-row" },
      name,
      drawBar(leaves.length ? leaves : [part], greatest),
      make("span", { class: "value" }, score(part.value)),
    ),
    note ? foreign(note, "p", { class: "note" }) : null,
    leaves.length ? drawLeaves(leaves.slice(0, MOST_PARTS)) : null,
  );
}

/** One bar, in as many stretches as there are summands. */
function drawBar(parts, greatest) {
  const stretches = parts.map(({ value }) => make("i", { share: Math.abs(value) / greatest }));
  return make("span", { class: "bar", "aria-hidden": "true" }, ...stretches);
}

function drawLeaves(leaves) {
  const isPhrases = leaves.some((leaf) => PHRASE.test(leaf.label));
  return make("ul", { class: isPhrases ? "leaves phrases" : "leaves" }, ...leaves.map(drawLeaf));
}

function drawLeaf(leaf) {
  const phrase = PHRASE.exec(leaf.label);
  if (phrase) {
    return make(
      "li",
      { title: oneLine(phrase[2], 200) },
      foreign(oneLine(phrase[1], 60), "span", { class: "phrase" }),
      " ",
      make("span", { class: "value" }, score(leaf.value)),
    );
  }
  return make(
    "li",
    {},
    foreign(oneLine(leaf.label, 160)),
    " ",
    make("span", { class: "value" }, score(leaf.value)),
  );
}

/** A label in two: what is counted, and how it came about. */
function readLabel(label) {
  const identifier = IDENTIFIER.exec(label);
  if (identifier) {
    const name = foreign(oneLine(identifier[1], 60), "span", { class: "name identifier" });
    return { name, note: oneLine(identifier[2].replace(/^ scores/, "scores"), 240) };
  }
  const [, head, tail] = /^([^:]{1,40}): ([\s\S]*)$/.exec(label) ?? [null, label, ""];
  return {
    name: foreign(oneLine(head, 60), "span", { class: "name" }),
    note: oneLine(tail, 240),
  };
}

function drawAttention(attention) {
  const row = (title, words) =>
    make(
      "div",
      { class: "looked" },
      make("span", { class: "quiet" }, title),
      make("p", {}, ...words.slice(0, 16).flatMap((each) => [drawWord(each, words), " "])),
    );
  return make(
    "figure",
    { class: "attention" },
    make("figcaption", {}, "Words with the most attention"),
    row("in the query", attention.query),
    row("in the document", attention.document),
  );
}

function drawWord({ word, share }, words) {
  const greatest = Math.max(...words.map((each) => each.share), 1e-12);
  const percent = `${(share * 100).toFixed(share < 0.095 ? 1 : 0)} %`;
  return make(
    "span",
    { class: "word", share: share / greatest, title: percent },
    foreign(oneLine(word, 40)),
    make("small", {}, percent),
  );
}
