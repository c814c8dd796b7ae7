// One hit as a card: title, snippet with its words marked, who found it, and why on demand.

import { makeCite } from "./cite.js";
import { openDocument } from "./document.js";
import { find, foreign, make, marked, replace } from "./dom.js";
import { showWhy } from "./explain.js";
import { makeAlso, makeOrigin } from "./origin.js";
import { oneLine, score } from "./text.js";

const LONGEST_SNIPPET = 600;
const BARE = /^(?!(?:and|or|not|in|exists|contains|true|false)$)[A-Za-z_][A-Za-z0-9_]*$/i;

export const NAMES = {
  auto: "auto: the best available",
  lexical: "lexical: by words",
  dense: "dense: by meaning",
  hybrid: "hybrid: words and meaning",
  generative: "generative: by identifiers",
};

/** Make the card of a hit. `onFilter` gets a condition when some metadata is chosen. */
export function makeHit(hit, { query, searcher, onFilter, beside = null }) {
  const why = make("div", { class: "why", hidden: true });
  const cite = makeCite(hit, (text) => replace(find("status"), text));
  const card = make(
    "li",
    { class: "hit", "data-docid": hit.docid, value: hit.rank },
    make("h3", {}, makeTitle(hit)),
    makeOrigin({ ...hit, ...hit.passage }, () => openAtMarks(hit)),
    makeSnippet(hit),
    makeAlso(hit.also),
    make(
      "div",
      { class: "facts" },
      ...makeFinders(hit, searcher),
      beside,
      ...makeMetadata(hit.metadata ?? {}, onFilter),
      makeWhyButton(why, () => showWhy(why, { hit, query, searcher })),
      cite.button,
    ),
    why,
    cite.panel,
  );
  return card;
}

function makeTitle(hit) {
  const title = oneLine(hit.title || hit.docid, 140);
  return foreign(title, "button", {
    type: "button",
    class: "title",
    onclick: () => openDocument(hit.docid, hit.passage),
  });
}

/** Open the document where the words of the snippet stand; without any, at the passage. */
function openAtMarks({ docid, passage, snippet }) {
  const marks = (snippet?.highlights ?? []).map(([start, end]) => ({
    start: snippet.start + start,
    end: snippet.start + end,
  }));
  openDocument(docid, passage, marks.length ? marks : null);
}

function makeSnippet(hit) {
  const snippet = hit.snippet ?? (hit.passage && { text: hit.passage.text, highlights: [] });
  if (!snippet?.text) return null;
  const spans = (snippet.highlights ?? []).map(([start, end]) => ({ start, end }));
  const text = snippet.text.slice(0, LONGEST_SNIPPET);
  const isCut = text !== snippet.text || snippet.end < hit.passage?.end;
  return make(
    "p",
    { class: "snippet", dir: "auto" },
    snippet.start > hit.passage?.start ? "… " : null,
    ...marked(text, spans),
    isCut ? " …" : null,
  );
}

function makeFinders(hit, searcher) {
  const found = Object.entries(hit.found_by ?? {});
  const all = found.length ? found : [[searcher, { rank: hit.rank, score: hit.score }]];
  return all.map(([name, standing]) =>
    make(
      "span",
      {
        class: "finder",
        title: `${name}: rank ${standing.rank}, score ${score(standing.score)}`,
      },
      `${oneLine(name, 40)} `,
      make("b", {}, found.length ? `#${standing.rank}` : score(standing.score)),
    ),
  );
}

function makeMetadata(metadata, onFilter) {
  return Object.entries(metadata)
    .slice(0, 6)
    .map(([key, value]) => {
      const single = Array.isArray(value) ? value[0] : value;
      const shown = `${oneLine(key, 24)} ${oneLine([value].flat().join(", "), 40)}`;
      return foreign(shown, "button", {
        type: "button",
        class: "metadata",
        title: "Only documents like this",
        onclick: () => onFilter(writeCondition(key, single)),
      });
    });
}

/** Write a condition that a document's own metadata meets. */
export function writeCondition(key, value) {
  const name = BARE.test(key) ? key : `\`${key.replace(/[`\\]/g, "\\$&")}\``;
  const literal =
    typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : String(value);
  return `${name} = ${literal}`;
}

function makeWhyButton(why, fill) {
  let isFilled = false;
  return make(
    "button",
    {
      type: "button",
      class: "plain why-open",
      "aria-expanded": "false",
      onclick: (event) => {
        why.hidden = !why.hidden;
        event.currentTarget.setAttribute("aria-expanded", String(!why.hidden));
        if (!isFilled) fill();
        isFilled = true;
      },
    },
    "Why?",
  );
}
