// Search as you type: the latest query wins, older answers are never shown.

import { post } from "./api.js";
import { failure, find, foreign, make, message, replace } from "./dom.js";
import { clearFilterError, isFilterError, showFilterError } from "./filter.js";
import { makeHit } from "./hits.js";
import { addressOf } from "./state.js";
import { count, duration, oneLine } from "./text.js";

const PAGE = 10;
const DEEPEST = 1000;
let latest = null;

/** Give up what is under way. */
export function stopSearching() {
  latest?.abort();
  latest = null;
}

/** Search and show the hits; `page` holds what the views share. */
export async function showSearch(state, page) {
  stopSearching();
  const view = find("search");
  if (!state.q.trim()) {
    view.setAttribute("aria-busy", "false");
    replace(view, nothingYet(page) ?? welcome(page));
    page.tell("");
    return;
  }
  const control = (latest = new AbortController());
  view.setAttribute("aria-busy", "true");
  if (!view.querySelector(".hits")) replace(view, skeleton());
  try {
    const found = await post("search", request(state, 0), { signal: control.signal });
    if (latest !== control) return;
    clearFilterError();
    view.classList.remove("stale");
    showHits(view, found, { state, page });
  } catch (error) {
    if (latest !== control || error.name === "AbortError") return;
    showFailure(view, error, { state, page });
  }
  view.setAttribute("aria-busy", "false");
}

function showFailure(view, error, { state, page }) {
  page.tell("");
  if (isFilterError(error)) {
    setAside(view);
    showFilterError(error);
    return;
  }
  view.classList.remove("stale");
  replace(view, failure(error, () => showSearch(state, page)));
}

/** Fade what an earlier filter found; where nothing was found yet, say why nothing follows. */
export function setAside(view) {
  view.classList.add("stale");
  if (view.querySelector(".hits")) return;
  view.classList.remove("stale");
  const told = "Correct it above; the message below the field shows where it is wrong.";
  replace(view, message("Invalid filter", told));
}

/** What is asked of /search. */
export function request(state, offset, searcher = state.searcher) {
  const where = state.where.trim() ? [state.where.trim()] : [];
  return { query: state.q, k: PAGE, offset, searcher, where, explain: false };
}

function showHits(view, found, { state, page }) {
  const meant = makeMeant(found.did_you_mean, { state, page });
  if (!found.hits.length) {
    replace(view, meant, nothingYet(page) ?? nothing(state, page));
    page.tell(`Nothing found${outOfReach(found)}.`);
    return;
  }
  const list = make("ol", { class: "hits" });
  replace(view, meant, make("h2", { class: "unseen" }, "Hits"), list);
  append(list, found, { state, page, seconds: 0 });
}

/** Offer the query with its misspelt words corrected, as a link that searches or asks for it. */
export function makeMeant(query, { state, page, then = null }) {
  if (!query || query === state.q) return null;
  const link = foreign(oneLine(query, 200), "a", {
    class: "correction",
    href: addressOf({ ...state, q: query }),
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      page.go({ q: query });
      then?.();
      if (matchMedia("(hover: hover)").matches) find("query").focus();
    },
  });
  return make("p", { class: "meant" }, "Did you mean ", link, "?");
}

function sayFound(list, found, seconds) {
  const time = seconds === null ? "" : ` in ${duration(seconds)}`;
  const number = count(list.childElementCount, "hit");
  const covered = found.incomplete ? `; ${found.incomplete}` : "";
  return `${number} by ${found.searcher} search${time}${outOfReach(found)}${covered}`;
}

/** Say how many documents could not be searched, if any could not. */
function outOfReach(found) {
  if (!found.unreachable?.length) return "";
  const documents = found.unreachable.reduce((sum, shard) => sum + shard.documents, 0);
  return `; ${count(documents, "document")} unreachable`;
}

/** Add hits to the list and say how many it has; `seconds` is what the hits before them took. */
function append(list, found, { state, page, seconds }) {
  const cards = found.hits.map((hit) =>
    makeHit(hit, { query: state.q, searcher: found.searcher, onFilter: page.addCondition }),
  );
  list.append(...cards);
  const taken = found.seconds?.search;
  const total = taken === undefined || seconds === null ? null : seconds + taken;
  page.tell(sayFound(list, found, total));
  const next = found.offset + found.k;
  if (found.hits.length < found.k || next + PAGE > DEEPEST) return;
  list.after(makeMore(list, next, { state, page, seconds: total }));
}

function makeMore(list, next, shared) {
  const more = make("button", { type: "button", class: "plain more" }, "More hits");
  more.addEventListener("click", async () => {
    const control = latest;
    more.disabled = true;
    list.parentElement.querySelector(":scope > .failed")?.remove();
    try {
      const body = request(shared.state, next);
      const following = await post("search", body, { signal: control?.signal });
      if (latest !== control) return;
      more.remove();
      append(list, following, shared);
      list.children[next]?.querySelector(".title").focus();
    } catch (error) {
      if (latest !== control || error.name === "AbortError") return;
      more.disabled = false;
      more.before(failure(error, null));
    }
  });
  return more;
}

/** Say that there is nothing to search yet, and what to do about it; null where there is. */
export function nothingYet(page) {
  if (page.collection?.documents !== 0) return null;
  const where = page.collection.name ? `${oneLine(page.collection.name, 60)} has` : "There are";
  const how = "Add some with quoth add, then reload this page.";
  return message("Nothing here yet", `${where} no documents. ${how}`);
}

function welcome(page) {
  const size = page.collection
    ? `${count(page.collection.documents, "document")} in ${oneLine(page.collection.name, 60)}`
    : "Your own documents";
  const tip = (label, text) => make("li", {}, make("b", {}, label), ` ${text}`);
  return make(
    "div",
    { class: "empty welcome" },
    make("h2", {}, "What are you looking for?"),
    make("p", {}, `${size}. Start typing to search.`),
    make(
      "ul",
      { class: "tips" },
      tip('"heap queue"', "exact phrase"),
      tip("+priority -thread", "required, excluded"),
      ...fieldsOf(page).map((field) => tip(`${field}:owls`, "only in this field")),
      tip("?", "all shortcuts"),
    ),
  );
}

/** One field that can be named in a query: a title, if documents have one. */
function fieldsOf(page) {
  const fields = (page.collection?.fields ?? []).filter((field) => /^\w{1,20}$/.test(field));
  return [...fields.filter((field) => field === "title"), ...fields].slice(0, 1);
}

function nothing(state, page) {
  const ways = [];
  if (state.where.trim()) {
    const drop = () => page.setWhere("");
    ways.push(make("button", { type: "button", onclick: drop }, "Search without the filter"));
  }
  const ask = { type: "button", class: "plain", onclick: () => page.go({ mode: "ask" }) };
  ways.push(make("button", ask, "Ask it as a question"));
  const query = oneLine(state.q, 80);
  return message(
    "Nothing found",
    `No document matches “${query}”. Try fewer or different words.`,
    make("p", { class: "buttons" }, ...ways),
  );
}

/** Grey lines where hits will stand. */
export function skeleton() {
  const line = () => make("div", { class: "bone" }, make("i"), make("i"), make("i"));
  return make("div", { class: "skeleton", "aria-hidden": "true" }, line(), line(), line());
}
