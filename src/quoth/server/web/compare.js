// Two searchers side by side for one query, and where each ranks what the other found.

import { post } from "./api.js";
import { failure, find, make, message, replace } from "./dom.js";
import { clearFilterError, isFilterError, showFilterError } from "./filter.js";
import { NAMES, makeHit } from "./hits.js";
import { makeMeant, request, setAside, skeleton } from "./search.js";
import { count, duration, oneLine } from "./text.js";

let latest = null;

/** Give up what is under way. */
export function stopComparing() {
  latest?.abort();
  latest = null;
}

/** Search twice and show both. */
export async function showCompare(state, page) {
  stopComparing();
  const view = find("compare");
  if (!state.q.trim()) {
    view.setAttribute("aria-busy", "false");
    const told = "Type a query to see what each of them finds, and where they differ.";
    replace(view, message("Two searchers, one query", told));
    page.tell("");
    return;
  }
  const control = (latest = new AbortController());
  view.setAttribute("aria-busy", "true");
  if (!view.querySelector(".columns")) replace(view, skeleton());
  const { signal } = control;
  const sides = await Promise.all(
    [state.searcher, state.other].map((searcher) =>
      post("search", request(state, 0, searcher), { signal }).catch((error) => ({ error })),
    ),
  );
  if (latest !== control) return;
  view.setAttribute("aria-busy", "false");
  const filterError = sides.find(({ error }) => error && isFilterError(error))?.error;
  if (filterError) {
    setAside(view);
    page.tell("");
    showFilterError(filterError);
    return;
  }
  clearFilterError();
  view.classList.remove("stale");
  const columns = sides.map((side, at) => makeColumn(side, at, { sides, state, page }));
  const corrected = sides.map((side) => side.did_you_mean).find(Boolean);
  const meant = makeMeant(corrected, { state, page });
  replace(view, meant, make("div", { class: "columns" }, ...columns));
  page.tell(summary(sides));
}

function makeColumn(side, at, { sides, state, page }) {
  const asked = [state.searcher, state.other][at];
  if (side.error) {
    const failed = failure(side.error, () => showCompare(state, page));
    return make("section", { "aria-label": NAMES[asked] }, heading(asked, null), failed);
  }
  const others = new Map((sides[1 - at].hits ?? []).map((hit) => [hit.docid, hit.rank]));
  const cards = side.hits.map((hit) =>
    makeHit(hit, {
      query: state.q,
      searcher: side.searcher,
      onFilter: page.addCondition,
      beside: sides[1 - at].error ? null : standing(hit, others),
    }),
  );
  const list = cards.length
    ? make("ol", { class: "hits" }, ...cards)
    : message("Nothing found", "This searcher found no documents.");
  const name = { "aria-label": NAMES[side.searcher] };
  return make("section", name, heading(side.searcher, side), list);
}

function heading(searcher, side) {
  const time = side?.seconds?.search === undefined ? "" : duration(side.seconds.search);
  return make("h2", { class: "side" }, oneLine(searcher, 40), make("small", {}, time));
}

function standing(hit, others) {
  const rank = others.get(hit.docid);
  if (rank === undefined) return make("span", { class: "beside alone" }, "only here");
  const told = rank === hit.rank ? "same rank" : `#${rank} in the other list`;
  return make("span", { class: "beside" }, told);
}

function summary([one, other]) {
  if (one.error || other.error) return "";
  const docids = new Set(one.hits.map((hit) => hit.docid));
  const shared = other.hits.filter((hit) => docids.has(hit.docid)).length;
  if (one.searcher === other.searcher) return `Both lists are ${one.searcher} search.`;
  const [left, right] = [one.hits.length, other.hits.length];
  return `${count(shared, "document")} in both lists, of ${left} and ${right}.`;
}
