// Ask: the answer arrives piece by piece; what it quotes is coloured by source and can be opened.

import { readError, stream } from "./api.js";
import { openDocument } from "./document.js";
import { failure, find, foreign, make, marked, message, replace } from "./dom.js";
import { makeOrigin } from "./origin.js";
import { makeMeant, nothingYet } from "./search.js";
import { foldQuotations, hideSource, inviteToChoose, openSource } from "./source.js";
import { hasMark, markEntry } from "./state.js";
import {
  count,
  countCharacters,
  cutter,
  duration,
  makeSafe,
  oneLine,
  partBySpans,
} from "./text.js";

const COLOURS = 6;
const LONGEST_SENTENCE = 600;
const MOST_KEPT = 20;
const answers = new Map(); // those given so far, for the way back to them
let latest = null;
let shown = ""; // the request whose answer is shown

/** Give up what is under way; true if something was. */
export function stopAsking() {
  const wasAsking = latest !== null;
  latest?.abort();
  latest = null;
  return wasAsking;
}

/** Show the answer to the question of the state: as it was, or anew if it was asked here. */
export function showAsk(state, page) {
  const [view, wanted] = [find("ask"), JSON.stringify(request(state))];
  if (shown === wanted && view.childElementCount) {
    if (view.querySelector(".quotation")) inviteToChoose();
    return;
  }
  view.setAttribute("aria-busy", "false");
  if (answers.has(wanted)) {
    inviteToChoose();
    showAnswer(view, answers.get(wanted), { state, page });
    shown = wanted;
  } else if (hasMark("asked")) ask(state, page);
  else invite(view, page);
}

function invite(view, page) {
  shown = "";
  hideSource();
  const told =
    "Answers quote the documents. Each quotation leads to its source.";
  replace(view, message("Ask in your own words", told));
  page.tell("");
}

/** What is asked of /answer. */
function request({ q, k, searcher }) {
  return { question: q.trim(), k: Number(k), searcher, phrases: true, stream: true };
}

/** Ask, and show the answer while it is written. */
export async function ask(state, page) {
  stopAsking();
  const body = request(state);
  if (!body.question) return;
  markEntry({ asked: true });
  inviteToChoose();
  const view = find("ask");
  const text = make("p", { class: "answer writing", dir: "auto" });
  const control = (latest = new AbortController());
  shown = "";
  view.setAttribute("aria-busy", "true");
  replace(view, make("article", {}, text));
  page.showAsking(true);
  page.tell("Reading the documents…");
  try {
    const answer = await follow(stream("answer", body, { signal: control.signal }), text, page);
    if (latest !== control) return;
    keepAnswer(JSON.stringify(body), answer);
    showAnswer(view, answer, { state, page });
  } catch (error) {
    if (latest !== control) return;
    page.tell("");
    hideSource();
    if (error.name !== "AbortError") replace(view, failure(error, () => ask(state, page)));
  }
  shown = JSON.stringify(body);
  latest = null;
  view.setAttribute("aria-busy", "false");
  page.showAsking(false);
}

function keepAnswer(wanted, answer) {
  answers.set(wanted, answer);
  if (answers.size > MOST_KEPT) answers.delete(answers.keys().next().value);
}

/** Stop writing and keep what there is. */
export function stopWriting(page) {
  if (!stopAsking()) return false;
  find("ask").setAttribute("aria-busy", "false");
  find("ask").querySelector(".writing")?.classList.remove("writing");
  page.showAsking(false);
  page.tell("Stopped.");
  return true;
}

async function follow(events, text, page) {
  for await (const { event, data } of events) {
    if (event === "token") {
      if (!text.childNodes.length) page.tell("Writing…");
      text.append(makePiece(data));
    } else if (event === "answer") return data;
    else if (event === "error") throw readError(data);
  }
  throw readError({ error: { message: "The answer was cut off before it was complete. Try again." } });
}

function makePiece({ text, passage }) {
  if (passage === null) return makeSafe(text);
  return make("span", { class: "quotation", "data-source": passage % COLOURS }, makeSafe(text));
}

function showAnswer(view, answer, { state, page }) {
  const corrected = { ...state, q: answer.did_you_mean };
  const meant = makeMeant(corrected.q, { state, page, then: () => ask(corrected, page) });
  const notice = answer.notice ? foreign(answer.notice, "p", { class: "notice" }) : null;
  if (answer.abstained) {
    hideSource();
    const empty = nothingYet(page);
    replace(view, meant, notice, ...(empty ? [empty] : makeAbstention(answer)));
    page.tell("No answer in these documents.");
    return;
  }
  replace(
    view,
    meant,
    make("article", {}, notice, makeAnswer(answer), makeSupport(answer)),
    ...makeSources(answer),
  );
  if (!answer.citations.length) hideSource();
  const whole = answer.seconds?.total;
  const quotations = count(answer.citations.length, "quotation");
  page.tell(`Answered with ${quotations}${whole ? ` in ${duration(whole)}` : ""}.`);
}

function makeAnswer(answer) {
  const text = make("p", { class: "answer", dir: "auto" });
  const spans = answer.citations.map((citation) => ({
    start: citation.answer_start,
    end: citation.answer_end,
    citation,
  }));
  for (const [stretch, span] of partBySpans(answer.text, spans)) {
    text.append(span ? makeQuotation(stretch, span.citation, answer) : makeSafe(stretch));
  }
  return text;
}

function makeQuotation(stretch, citation, answer) {
  const open = () => {
    foldQuotations();
    quotation.setAttribute("aria-expanded", "true");
    openCitation(citation, answer);
  };
  const quotation = make(
    "span",
    {
      class: "quotation",
      "data-source": sourceOf(citation, answer) % COLOURS,
      role: "button",
      tabindex: "0",
      "aria-expanded": "false",
      "aria-controls": "source",
      onpointerenter: open,
      onfocus: open,
      onclick: open,
    },
    ...markShort(stretch, citation.answer_start, answer.short),
    make("sup", {}, make("span", { class: "unseen" }, ", source "), String(citation.number)),
  );
  return quotation;
}

/** Set the few words that answer in bold, where they stand in this stretch of the answer. */
function markShort(stretch, begin, short) {
  const [start, end] = [short?.answer_start - begin, short?.answer_end - begin];
  if (!(start >= 0 && end <= stretch.length)) return [makeSafe(stretch)];
  return partBySpans(stretch, [{ start, end }]).map(([part, span]) =>
    span ? make("strong", {}, makeSafe(part)) : makeSafe(part),
  );
}

function sourceOf(citation, answer) {
  const at = answer.passages.findIndex(
    ({ docid, passage }) =>
      docid === citation.docid &&
      passage?.field === citation.field &&
      passage.instance === citation.instance &&
      passage.start <= citation.start &&
      citation.end <= passage.end,
  );
  return at < 0 ? citation.number - 1 : at;
}

function openCitation(citation, answer) {
  const at = sourceOf(citation, answer);
  const hit = answer.passages[at];
  const span = spanOf(citation);
  const { field, instance, quoted, place } = citation;
  const alone = { field, instance, ...span, text: quoted };
  openSource({
    title: hit?.title,
    docid: citation.docid,
    passage: hit?.passage ?? alone,
    place,
    metadata: hit?.metadata,
    spans: [span],
    colour: at % COLOURS,
    number: citation.number,
  });
}

function makeSupport(answer) {
  if (typeof answer.support !== "number") return null;
  const percent = Math.round(answer.support * 100);
  const sure = answer.confidence === "not sure" ? "Not sure" : "Probably";
  const told = answer.disagrees ? `${sure}. The documents disagree.` : `${sure}.`;
  return make(
    "p",
    { class: "support", title: "Estimated probability that this answers the question" },
    make("span", { class: "bar", share: answer.support }, make("i")),
    `${told} ${percent}% likely to be right`,
  );
}

function makeSources(answer) {
  const numbers = [...new Set(answer.citations.map((citation) => citation.number))];
  const cards = numbers.map((number) => {
    const quoted = answer.citations.filter((citation) => citation.number === number);
    const { docid, field, place } = quoted[0];
    const at = sourceOf(quoted[0], answer);
    const hit = answer.passages[at];
    const open = () => openDocument(docid, hit?.passage ?? null, quoted.map(spanOf));
    return make(
      "li",
      { value: number, "data-source": at % COLOURS },
      make("span", { class: "number" }, `[${number}] `),
      foreign(oneLine(hit?.title || docid, 120), "button", {
        type: "button",
        class: "title",
        onclick: open,
      }),
      makeOrigin({ docid, field, place, metadata: hit?.metadata }, open),
      ...joinSentences(quoted).map(makeSentence),
    );
  });
  if (!cards.length) {
    const told = "Nothing here is quoted: these are the model's own words.";
    return [make("p", { class: "quiet" }, told)];
  }
  return [make("h2", {}, "Sources"), make("ol", { class: "sources" }, ...cards)];
}

/** Give each sentence that is quoted from once, with all that is quoted of it. */
function joinSentences(quoted) {
  const sentences = [];
  for (const each of [...quoted].sort((one, other) => one.sentence_start - other.sentence_start)) {
    const { sentence: text, sentence_start: start } = each;
    const last = sentences.at(-1);
    const shared = last ? last.start + countCharacters(last.text) - start : 0;
    if (shared <= 0) sentences.push({ text, start, spans: [spanOf(each)] });
    else {
      last.text += cutter(text)(shared, countCharacters(text));
      last.spans.push(spanOf(each));
    }
  }
  return sentences;
}

function makeSentence({ text, start, spans }) {
  const first = Math.min(...spans.map((span) => span.start)) - start;
  const from = first > LONGEST_SENTENCE / 2 ? first - LONGEST_SENTENCE / 4 : 0;
  const to = Math.min(countCharacters(text), from + LONGEST_SENTENCE);
  const moved = spans.map((span) => ({
    start: span.start - start - from,
    end: span.end - start - from,
  }));
  return make(
    "p",
    { class: "snippet", dir: "auto" },
    from > 0 ? "… " : null,
    ...marked(cutter(text)(from, to), moved),
    to < countCharacters(text) ? " …" : null,
  );
}

function spanOf(citation) {
  return { start: citation.start, end: citation.end };
}

function makeAbstention(answer) {
  const far = "Nothing in the collection comes near the question.";
  const said = message("No answer in these documents", makeSafe(answer.text || far));
  if (!answer.passages.length) return [said];
  const nearest = answer.passages.map((hit) =>
    make(
      "li",
      {},
      foreign(oneLine(hit.title || hit.docid, 120), "button", {
        type: "button",
        class: "title",
        onclick: () => openDocument(hit.docid, hit.passage),
      }),
      makeOrigin({ ...hit, ...hit.passage }, () => openDocument(hit.docid, hit.passage)),
      foreign(oneLine(hit.snippet?.text || hit.passage.text, 300), "p", { class: "snippet" }),
    ),
  );
  const title = make("h2", {}, "The nearest passages");
  return [said, title, make("ol", { class: "sources" }, ...nearest)];
}
