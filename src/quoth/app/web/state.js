// What the page shows, kept in its address, so that a link shows the same.

export const MODES = ["search", "ask", "compare", "learning", "stats"];
export const SEARCHERS = ["auto", "lexical", "dense", "hybrid", "generative"];

const USUAL = { mode: "search", q: "", searcher: "auto", other: "lexical", where: "", k: "3" };

/** How many characters the server takes: a question may be longer than a query. */
export function longestQuery(mode) {
  return mode === "ask" ? 4000 : 1000;
}

/** Read the state from the address; what is not known there is as usual. */
export function readState() {
  const given = new URLSearchParams(location.search);
  const state = { ...USUAL };
  for (const name of Object.keys(USUAL)) state[name] = given.get(name) ?? USUAL[name];
  if (!MODES.includes(state.mode)) state.mode = USUAL.mode;
  if (!SEARCHERS.includes(state.searcher)) state.searcher = USUAL.searcher;
  if (!SEARCHERS.includes(state.other)) state.other = USUAL.other;
  if (!["1", "3", "5", "10"].includes(state.k)) state.k = USUAL.k;
  state.q = state.q.slice(0, longestQuery(state.mode));
  return state;
}

/** Write the state into the address: a new entry of the history for a new mode, else in place. */
export function writeState(state, { isNew = false } = {}) {
  const address = addressOf(state, state.mode);
  if (address === location.pathname + location.search) return;
  history[isNew ? "pushState" : "replaceState"](null, "", address);
}

/** The address that shows a state in another mode. */
export function addressOf(state, mode) {
  const shown = new URLSearchParams();
  for (const [name, usual] of Object.entries(USUAL)) {
    const value = name === "mode" ? mode : state[name];
    if (value !== usual) shown.set(name, value);
  }
  return shown.size ? `/?${shown}` : "/";
}
