// Where a passage is from: its document, the place in it, and the other places that have the same.

import { openDocument } from "./document.js";
import { foreign, make } from "./dom.js";
import { count, oneLine } from "./text.js";

const MOST_NAMED = 3;
const PAGES = /^pp?\.\s*(\d{1,7})/;

/** Name the document of a hit and the place in it; `open` opens it there. */
export function makeOrigin({ docid, field, place, metadata }, open) {
  const parts = [foreign(oneLine(docid, 90))];
  if (place) parts.push(" · ", makePlace(oneLine(place, 90), open));
  else if (field) parts.push(" · ", foreign(oneLine(field, 40)));
  const address = addressAt(metadata ?? {}, place);
  if (address) parts.push(" · ", makeOutside(address));
  return make("p", { class: "origin" }, ...parts);
}

/** The place as a button. */
export function makePlace(place, open) {
  const attributes = { type: "button", class: "plain place", onclick: open };
  attributes["aria-label"] = `${place}, open the document there`;
  return foreign(place, "button", attributes);
}

function makeOutside(address) {
  const attributes = { class: "outside", href: address, target: "_blank" };
  return make("a", { ...attributes, rel: "noopener noreferrer" }, "PDF at this page");
}

/** The address of a PDF on the web, at the page of a passage; empty where there is none. */
export function addressAt(metadata, place) {
  const [, page] = PAGES.exec(place ?? "") ?? [];
  const given = [metadata.url ?? metadata.link ?? metadata.source_url].flat()[0];
  const isOnTheWeb = /^https?:\/\//i.test(given ?? "") && URL.canParse(given);
  if (!page || metadata.format !== "pdf" || !isOnTheWeb) return "";
  const address = new URL(given);
  address.hash = `page=${page}`;
  return address.href;
}

/** Say where near-identical documents are, the first few by name, the rest on demand. */
export function makeAlso(also) {
  if (!also?.length) return null;
  const line = make("p", { class: "also" }, "Also in ");
  const name = (docids) =>
    docids.flatMap((docid, at) => [at ? ", " : "", makeOther(docid)]).filter(Boolean);
  line.append(...name(also.slice(0, MOST_NAMED)));
  const rest = also.slice(MOST_NAMED);
  if (!rest.length) return line;
  const told = count(rest.length, "more place");
  const more = make("button", { type: "button", class: "plain" }, told);
  more.addEventListener("click", () => {
    const others = name(rest);
    before.replaceWith(", ");
    more.replaceWith(...others);
    others[0].focus();
  });
  const before = document.createTextNode(" and ");
  line.append(before, more);
  return line;
}

function makeOther(docid) {
  const attributes = { type: "button", class: "plain", onclick: () => openDocument(docid) };
  return foreign(oneLine(docid, 80), "button", attributes);
}
