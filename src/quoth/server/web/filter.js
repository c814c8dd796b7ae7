// The filter: its field, what is wrong with it, and examples from this collection's metadata.

import { find, make, replace } from "./dom.js";
import { cutter, makeSafe } from "./text.js";

/** Show the filter, and perhaps go there. */
export function openFilter({ focus = true } = {}) {
  find("filter").hidden = false;
  find("filter-open").setAttribute("aria-expanded", "true");
  if (focus) find("where").focus();
  return true;
}

/** Put the filter away. */
export function closeFilter() {
  find("filter").hidden = true;
  find("filter-open").setAttribute("aria-expanded", "false");
}

/** Whether what the server says no to is the filter. */
export function isFilterError(error) {
  return error.kind === "FilterError";
}

/** Say what is wrong with the filter, and point at it. */
export function showFilterError(error) {
  openFilter({ focus: false });
  find("where").setAttribute("aria-invalid", "true");
  const [told, text, caret] = error.message.split(/\n(?: {2})?/); // lines below are indented
  const pointed = caret?.endsWith("^") ? point(text, caret.length - 1) : null;
  replace(find("where-error"), make("p", {}, makeSafe(pointed ? told : error.message)), pointed);
}

/** The text with a caret below; what stands before the caret is the text itself, unseen, so that
    the caret is in its place however wide the characters are. */
function point(text, column) {
  const before = make("span", { class: "before" }, makeSafe(cutter(text)(0, column)));
  return make("pre", {}, `${makeSafe(text)}\n`, before, make("b", { class: "caret" }, "^"));
}

/** Nothing is wrong with the filter any more. */
export function clearFilterError() {
  find("where").removeAttribute("aria-invalid");
  replace(find("where-error"));
}

/** Offer conditions on the metadata that the collection has; none where it has none. */
export function showExamples(filters, choose) {
  const conditions = Object.values(filters).map(({ condition }) => makeSafe(condition));
  find("where-hint").hidden = !conditions.length;
  find("where").placeholder = conditions.slice(0, 2).join(" and ");
  const buttons = conditions.map((condition) =>
    make(
      "button",
      { type: "button", class: "example", onclick: () => choose(condition) },
      condition,
    ),
  );
  replace(find("where-hint"), "For example ", ...buttons.flatMap((each) => [each, " "]));
}
