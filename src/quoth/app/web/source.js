// Where something stands: a passage beside the answer, or the whole document, the span marked.

import { get } from "./api.js";
import { failure, find, foreign, make, marked, replace } from "./dom.js";
import { count, countCharacters, cutter, oneLine } from "./text.js";

const AROUND = 1200;
const MOST_AT_ONCE = 20000;

/** Show a passage beside the answer; `spans` are {start, end} in the field. */
export function openSource({ title, docid, passage, spans, colour, number }) {
  const aside = find("source");
  const body = find("source-body");
  aside.dataset.source = colour;
  replace(find("source-title"), `[${number}] `, foreign(oneLine(title || docid, 120)));
  replace(
    body,
    make(
      "p",
      { class: "origin" },
      foreign(oneLine(`${docid} · ${passage.field}`, 140)),
      make("span", { class: "span" }, `characters ${spans[0].start}–${spans[0].end}`),
    ),
    make("p", { class: "passage", dir: "auto" }, ...markedAround(passage, spans)),
    make(
      "button",
      { type: "button", class: "plain", onclick: () => openDocument(docid, passage, spans) },
      "Open the whole document",
    ),
  );
  aside.hidden = false;
  aside.classList.remove("waiting-for-choice");
  const mark = body.querySelector("mark");
  if (mark) body.scrollTop = mark.offsetTop - body.clientHeight / 3;
}

/** Say in the place of the passage how to choose one. */
export function inviteToChoose() {
  const aside = find("source");
  delete aside.dataset.source;
  replace(find("source-title"), "Where it stands");
  const how = "Point at a quotation, or walk to it with Tab, to see it in its passage.";
  replace(find("source-body"), make("p", { class: "quiet" }, how));
  aside.hidden = false;
  aside.classList.add("waiting-for-choice");
}

/** Take the passage away, but keep its place; true if there was one. */
export function closeSource() {
  const aside = find("source");
  if (aside.hidden || aside.classList.contains("waiting-for-choice")) return false;
  inviteToChoose();
  foldQuotations();
  return true;
}

/** No quotation is the open one any more. */
export function foldQuotations() {
  for (const each of document.querySelectorAll(".quotation[aria-expanded=true]")) {
    each.setAttribute("aria-expanded", "false");
  }
}

/** Take the passage and its place away. */
export function hideSource() {
  find("source").hidden = true;
}

function markedAround(passage, spans) {
  const inside = spans.map(({ start, end }) => ({
    start: start - passage.start,
    end: end - passage.start,
  }));
  const length = countCharacters(passage.text);
  const from = Math.max(0, inside[0].start - AROUND);
  const to = Math.min(length, inside[0].end + AROUND);
  const moved = inside.map(({ start, end }) => ({ start: start - from, end: end - from }));
  const text = cutter(passage.text)(from, to);
  return [from > 0 ? "… " : "", ...marked(text, moved), to < length ? " …" : ""];
}

/** Fetch a document and show all of it; the passage, or the spans in it, are marked. */
export async function openDocument(docid, passage = null, spans = null) {
  const dialog = find("document");
  const body = find("document-body");
  replace(find("document-title"), foreign(oneLine(docid, 140)));
  replace(body, make("p", { class: "quiet waiting" }, "Fetching the document…"));
  if (!dialog.open) dialog.showModal();
  try {
    const found = await get(`/documents?docid=${encodeURIComponent(docid)}`);
    const title = [found.fields.title ?? found.fields.name ?? []].flat()[0];
    if (title) replace(find("document-title"), foreign(oneLine(title, 140)));
    replace(body, ...makeFields(found, passage, spans));
    body.scrollTop = 0;
    body.querySelector("mark")?.scrollIntoView({ block: "center" });
  } catch (error) {
    replace(body, failure(error, () => openDocument(docid, passage, spans)));
  }
}

function makeFields(found, passage, spans) {
  const facts = Object.entries(found.metadata ?? {}).map(([key, value]) => {
    const shown = `${oneLine(key, 40)} ${oneLine([value].flat().join(", "), 120)}`;
    return foreign(shown, "span", { class: "metadata" });
  });
  const fields = Object.entries(found.fields).flatMap(([name, value]) =>
    [value].flat().map((text, instance) => {
      const isIt = passage && passage.field === name && (passage.instance ?? 0) === instance;
      return make(
        "section",
        {},
        make("h3", {}, foreign(oneLine(name, 60)), make("small", {}, length(text))),
        makeText(text, isIt ? (spans ?? [passage]) : [], spans ? "" : "stretch"),
      );
    }),
  );
  const origin = make("p", { class: "origin" }, foreign(oneLine(found.docid, 200)));
  return [origin, facts.length ? make("p", { class: "facts" }, ...facts) : null, ...fields];
}

function length(text) {
  return count(countCharacters(text), "character");
}

/** Show a text from a little before its marks; the rest follows on demand, part by part. */
function makeText(text, given, kind) {
  const length = countCharacters(text);
  const isAll = ({ start, end }) => kind === "stretch" && start === 0 && end === length;
  const spans = given.filter((span) => !isAll(span)); // a passage that is all of it needs no mark
  const cut = cutter(text);
  const show = (from, to) => {
    const moved = spans.map(({ start, end }) => ({ start: start - from, end: end - from }));
    return make("p", { class: "passage", dir: "auto" }, ...marked(cut(from, to), moved, kind));
  };
  const marksFrom = spans.length ? Math.min(...spans.map(({ start }) => start)) : 0;
  const from = length <= MOST_AT_ONCE ? 0 : Math.max(0, marksFrom - MOST_AT_ONCE / 2);
  const to = Math.min(length, from + MOST_AT_ONCE);
  const [before, after] = [makeRest(show, 0, from, "before"), makeRest(show, to, length, "after")];
  return make("div", {}, before, show(from, to), after);
}

function makeRest(show, from, to, side) {
  if (from >= to) return null;
  const isBefore = side === "before";
  const size = Math.min(MOST_AT_ONCE, to - from);
  const [start, end] = isBefore ? [to - size, to] : [from, from + size];
  const told = `${count(to - from, "character")} ${side}`;
  const button = make("button", { type: "button", class: "plain" }, told);
  button.addEventListener("click", () => {
    const text = show(start, end);
    const more = isBefore ? makeRest(show, from, start, side) : makeRest(show, end, to, side);
    button.replaceWith(...(isBefore ? [more, text] : [text, more]).filter(Boolean));
  });
  return button;
}
