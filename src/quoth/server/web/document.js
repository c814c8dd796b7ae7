// The whole of a document, in a dialog; the passage, or what is quoted from it, is marked.

import { get, remove } from "./api.js";
import { failure, find, foreign, make, marked, replace } from "./dom.js";
import { readPlace, writePlace } from "./place.js";
import { count, countCharacters, cutter, oneLine } from "./text.js";

const MOST_AT_ONCE = 20000;
let open = () => {};
let latest = null;

/** Say what is to be done where a document is to be opened; it gets that part of the state. */
export function onOpen(listener) {
  open = listener;
}

/** Say what is to be done once a document is removed; it gets the docid. */
export function onRemoved(listener) {
  const button = find("document-remove");
  let armed = "";
  button.addEventListener("blur", () => disarm());
  const disarm = () => {
    armed = "";
    replace(button, "Remove this document");
  };
  button.addEventListener("click", async () => {
    const { docid } = find("document").dataset;
    if (armed !== docid) {
      armed = docid;
      return replace(button, "Remove it permanently? Press again");
    }
    disarm();
    try {
      await remove(`documents?docid=${encodeURIComponent(docid)}`);
      listener(docid);
    } catch (error) {
      replace(find("document-body"), failure(error, null));
    }
  });
}

/** Open a document; the passage, or the spans in its field, are marked. */
export function openDocument(docid, passage = null, spans = null) {
  open({
    doc: docid,
    passage: passage && !spans ? writePlace(passage, [passage]) : "",
    quote: passage && spans ? writePlace(passage, spans) : "",
  });
}

/** Show the document that the state names, or none. */
export async function showDocument(state) {
  latest?.abort();
  const dialog = find("document");
  if (!state.doc) {
    dialog.close();
    return;
  }
  const control = (latest = new AbortController());
  const body = find("document-body");
  replace(find("document-title"), foreign(oneLine(state.doc, 140)));
  replace(body, make("p", { class: "quiet waiting" }, "Loading the document…"));
  dialog.dataset.docid = state.doc;
  if (!dialog.open) dialog.showModal();
  try {
    const path = `documents?docid=${encodeURIComponent(state.doc)}`;
    const found = await get(path, { signal: control.signal });
    if (latest === control) showFound(found, state);
  } catch (error) {
    if (latest !== control || error.name === "AbortError") return;
    replace(body, failure(error, () => showDocument(state)));
  }
}

function showFound(found, { passage, quote }) {
  const body = find("document-body");
  const title = [found.fields.title ?? found.fields.name ?? []].flat()[0];
  if (title) replace(find("document-title"), foreign(oneLine(title, 140)));
  replace(body, ...makeFields(found, readPlace(quote || passage), quote ? "" : "stretch"));
  body.scrollTop = 0;
  body.querySelector("mark")?.scrollIntoView({ block: "center" });
}

function makeFields(found, place, kind) {
  const facts = Object.entries(found.metadata ?? {}).map(([key, value]) => {
    const shown = `${oneLine(key, 40)} ${oneLine([value].flat().join(", "), 120)}`;
    return foreign(shown, "span", { class: "metadata" });
  });
  const fields = Object.entries(found.fields).flatMap(([name, value]) =>
    [value].flat().map((text, instance) => {
      const isIt = place?.field === name && place.instance === instance;
      return make(
        "section",
        {},
        make("h3", {}, foreign(oneLine(name, 60)), make("small", {}, length(text))),
        makeText(text, isIt ? place.spans : [], kind),
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
