// Build elements. Text becomes text nodes: nothing here, or anywhere, reads a string as markup.

import { count, duration, makeSafe, partBySpans } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** Find an element of the page by its id. */
export function find(id) {
  return document.getElementById(id);
}

/** Make an element; `on…` attributes are listeners, null and false ones are left out. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "share") element.style.setProperty("--share", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

/** Show text of a document: safe, and its direction kept to itself. */
export function foreign(text, tag = "bdi", attributes = {}) {
  return make(tag, { dir: "auto", ...attributes }, makeSafe(text));
}

/** Show text with some stretches marked; spans are {start, end} in characters. */
export function marked(text, spans, kind = "") {
  return partBySpans(text, spans).map(([stretch, span]) =>
    span ? make("mark", { class: kind || null }, makeSafe(stretch)) : makeSafe(stretch),
  );
}

/** Put other children into an element. */
export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null));
}

/** A calm message where there is nothing else: a heading, a sentence, perhaps something to do. */
export function message(title, sentence, ...more) {
  return make("div", { class: "empty" }, make("h2", {}, title), make("p", {}, sentence), ...more);
}

/** A message that something went wrong, with a way to try again. */
export function failure(error, again, heading = "h2") {
  const { requestId, retrySeconds } = error;
  return make(
    "div",
    { class: "empty failed", role: "alert" },
    make(heading, {}, error.title ?? "That did not work"),
    foreign(error.message, "p"),
    typeof retrySeconds === "number" ? make("p", {}, sayRetry(retrySeconds)) : null,
    requestId ? make("p", { class: "quiet" }, `request ${makeSafe(requestId)}`) : null,
    again ? make("button", { type: "button", onclick: again }, "Try again") : null,
  );
}

function sayRetry(seconds) {
  if (seconds < 1) return "You can try again now.";
  return `You can try again in ${seconds < 90 ? count(seconds, "second") : duration(seconds)}.`;
}
