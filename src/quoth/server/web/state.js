// What the page shows, kept in its address, so that a link shows the same; Back and Forward too.
//
// Typing changes the address in place. The entry of the history remembers what it showed before,
// so that a query that is submitted, or left for something else, gets an entry of its own.

export const MODES = ["search", "ask", "compare", "learning", "manage", "stats"];
export const SEARCHERS = ["auto", "lexical", "dense", "hybrid", "generative"];

const NO_DOCUMENT = { doc: "", passage: "", quote: "" };
const USUAL = {
  mode: "search",
  q: "",
  searcher: "auto",
  other: "lexical",
  where: "",
  k: "5",
  ...NO_DOCUMENT,
};

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

/** The address that shows a state, perhaps in another mode: relative, for proxies with a prefix. */
export function addressOf(state, mode = state.mode) {
  const shown = new URLSearchParams();
  for (const [name, usual] of Object.entries(USUAL)) {
    const value = name === "mode" ? mode : state[name];
    if (value !== usual) shown.set(name, value);
  }
  return shown.size ? `?${shown}` : "./";
}

/** The state without its opened document. */
export function withoutDocument(state) {
  return { ...state, ...NO_DOCUMENT };
}

/** Whether two states show the same below an opened document. */
export function isSameView(one, other) {
  return addressOf(withoutDocument(one)) === addressOf(withoutDocument(other));
}

/** Change the address in place: something is being typed. */
export function writeDraft(state) {
  const [address, now] = [addressOf(state), shownAddress()];
  if (address === now) return;
  const before = history.state?.before ?? { address: now, marks: history.state };
  history.replaceState({ before }, "", address);
}

/** Give what was typed an entry of its own; the entry it was typed in shows its own again. */
export function settle() {
  const { before, ...marks } = history.state ?? {};
  if (!before) return;
  const address = shownAddress();
  history.replaceState(before.marks, "", before.address);
  if (address !== before.address) history.pushState(marks, "", address);
}

/** Add an entry for a new state; `marks` stay with it. */
export function pushState(state, marks = null) {
  settle();
  const address = addressOf(state);
  if (address !== shownAddress()) history.pushState(marks, "", address);
}

/** Let the entry show another state. */
export function replaceState(state) {
  history.replaceState(history.state, "", addressOf(state));
}

/** Keep a mark with the entry, such as that its question was asked. */
export function markEntry(marks) {
  history.replaceState({ ...history.state, ...marks }, "");
}

/** Whether the entry has a mark. */
export function hasMark(name) {
  return Boolean(history.state?.[name]);
}

function shownAddress() {
  return location.search || "./";
}
