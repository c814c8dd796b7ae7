// Where something stands: a passage beside the answer, the span marked.

import { openDocument } from "./document.js";
import { find, foreign, make, marked, replace } from "./dom.js";
import { makeOrigin } from "./origin.js";
import { countCharacters, cutter, oneLine } from "./text.js";

const AROUND = 1200;

/** Show a passage beside the answer; `spans` are {start, end} in the field. */
export function openSource({ title, docid, passage, place, metadata, spans, colour, number }) {
  const aside = find("source");
  const body = find("source-body");
  const open = () => openDocument(docid, passage, spans);
  const origin = makeOrigin({ docid, field: passage.field, place, metadata }, open);
  const characters = `characters ${spans[0].start}–${spans[0].end}`;
  origin.append(make("span", { class: "span" }, characters));
  aside.dataset.source = colour;
  replace(find("source-title"), `[${number}] `, foreign(oneLine(title || docid, 120)));
  replace(
    body,
    origin,
    make("p", { class: "passage", dir: "auto" }, ...markedAround(passage, spans)),
    make("button", { type: "button", class: "plain", onclick: open }, "Open the whole document"),
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
  replace(find("source-title"), "Source");
  const how = "Point at a quotation, or move to it with Tab, to see it in its passage.";
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
