// Search as you type: the latest query wins, older answers are never shown.

import { post } from "./api.js";
import { failure, find, make, message, replace } from "./dom.js";
import { makeHit } from "./hits.js";
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
    const found = await post("/search", request(state, 0), { signal: control.signal });
    if (latest !== control) return;
    page.clearFilterError();
    showHits(view, found, { state, page });
  } catch (error) {
    if (latest !== control || error.name === "AbortError") return;
    page.tell("");
    if (page.isFilterError(error)) {
      page.showFilterError(error);
      view.firstElementChild?.classList.add("stale");
    } else replace(view, failure(error, () => showSearch(state, page)));
  }
  view.setAttribute("aria-busy", "false");
}

/** What is asked of /search. */
export function request(state, offset, searcher = state.searcher) {
  const where = state.where.trim() ? [state.where.trim()] : [];
  return { query: state.q, k: PAGE, offset, searcher, where, explain: false };
}

function showHits(view, found, { state, page }) {
  if (!found.hits.length) {
    replace(view, nothingYet(page) ?? nothing(state, page));
    page.tell(`Nothing found${outOfReach(found)}.`);
    return;
  }
  const list = make("ol", { class: "hits" });
  replace(view, list);
  append(list, found, { state, page });
  page.tell(
    `${count(found.hits.length, "hit")} by ${found.searcher} search` +
      `${found.seconds?.search === undefined ? "" : ` in ${duration(found.seconds.search)}`}` +
      outOfReach(found),
  );
}

/** Say how many documents could not be searched, if any could not. */
function outOfReach(found) {
  if (!found.unreachable?.length) return "";
  const documents = found.unreachable.reduce((sum, shard) => sum + shard.documents, 0);
  return `; ${count(documents, "document")} out of reach`;
}

function append(list, found, { state, page }) {
  const cards = found.hits.map((hit) =>
    makeHit(hit, { query: state.q, searcher: found.searcher, onFilter: page.addCondition }),
  );
  list.append(...cards);
  list.parentElement.querySelector(".more")?.remove();
  const next = found.offset + found.k;
  if (found.hits.length < found.k || next + PAGE > DEEPEST) return;
  const more = make("button", { type: "button", class: "plain more" }, "More hits");
  more.addEventListener("click", async () => {
    more.disabled = true;
    try {
      const control = latest;
      const following = await post("/search", request(state, next), { signal: control?.signal });
      if (latest !== control) return;
      append(list, following, { state, page });
      list.children[next]?.querySelector(".title").focus();
    } catch (error) {
      if (error.name !== "AbortError") more.replaceWith(failure(error, null));
    }
  });
  list.after(more);
}

/** Say that there is nothing to search yet, and what to do about it; null where there is. */
export function nothingYet(page) {
  if (page.collection?.documents !== 0) return null;
  const where = page.collection.name ? `${oneLine(page.collection.name, 60)} has` : "There are";
  const how = "Add some with quoth add, then look here again.";
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
    make("p", {}, `${size}. Begin to type; the hits follow.`),
    make(
      "ul",
      { class: "tips" },
      tip('"heap queue"', "these words side by side"),
      tip("+priority -thread", "must have, must not have"),
      tip("title:owls", "only in this field"),
      tip("?", "all shortcuts"),
    ),
  );
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
    `No document answers to “${query}”. Fewer words, or other ones, may find more.`,
    make("p", { class: "buttons" }, ...ways),
  );
}

/** Grey lines where hits will stand. */
export function skeleton() {
  const line = () => make("div", { class: "bone" }, make("i"), make("i"), make("i"));
  return make("div", { class: "skeleton", "aria-hidden": "true" }, line(), line(), line());
}
