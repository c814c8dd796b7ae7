// The page: one state, six views, an opened document. The address always says what is shown.

import { get, onEnter, onKeyNeeded } from "./api.js";
import { ask, showAsk, stopAsking, stopWriting } from "./ask.js";
import { showCompare, stopComparing } from "./compare.js";
import { onOpen, onRemoved, showDocument } from "./document.js";
import { find, make, replace } from "./dom.js";
import { closeFilter, openFilter, showExamples } from "./filter.js";
import { NAMES } from "./hits.js";
import { askForKey } from "./key.js";
import { focusQuery, listenToKeys, open } from "./keyboard.js";
import { listenToDrops, showManage, stopManaging } from "./manage.js";
import { showReport } from "./report.js";
import { nothingYet, showSearch, stopSearching } from "./search.js";
import { closeSource, hideSource } from "./source.js";
import {
  SEARCHERS,
  addressOf,
  hasMark,
  isSameView,
  longestQuery,
  markEntry,
  pushState,
  readState,
  replaceState,
  settle,
  withoutDocument,
  writeDraft,
} from "./state.js";
import { showStats, stopWatching } from "./stats.js";
import { count, makeSafe, oneLine } from "./text.js";

const PAUSE = 160; // milliseconds without a key before a search
const PROMPTS = {
  search: "Search these documents",
  ask: "Ask these documents a question",
  compare: "Search with both",
};

let state = readState();
let timer = null;
let returning = null; // a promise while the history steps back from a document that was closed

/** What views and keys may do to the page. */
const page = {
  collection: null,
  mayWrite: false,
  describe: describeCollection,
  tell: (text) => replace(find("status"), makeSafe(text)),
  go,
  setWhere: (where) => go({ where }),
  addCondition: (condition) => {
    openFilter();
    go({ where: state.where.trim() ? `${state.where.trim()} and ${condition}` : condition });
  },
  showAsking: (isAsking) => {
    document.body.classList.toggle("asking", isAsking);
    replace(find("submit"), isAsking ? "Stop" : "Ask");
  },
  openFilter,
  switchTheme,
  retreat,
};

/** Show what the state says. */
function show() {
  showFrame();
  if (state.mode !== "stats") stopWatching();
  if (state.mode !== "manage") stopManaging();
  if (state.mode !== "search") stopSearching();
  if (state.mode !== "compare") stopComparing();
  if (state.mode !== "ask") hideSource();
  ({
    search: () => showSearch(state, page),
    ask: () => showAsk(state, page),
    compare: () => showCompare(state, page),
    learning: () => showReport(page),
    manage: () => showManage(page),
    stats: () => showStats(page),
  })[state.mode]();
}

/** Show what stands around the view: its tab, its form, its title. */
function showFrame() {
  document.body.dataset.mode = state.mode;
  const named = state.doc || state.q;
  document.title = named ? `${oneLine(named, 60)} – Quoth` : "Quoth";
  for (const view of document.querySelectorAll(".view")) {
    view.hidden = view.dataset.view !== state.mode;
  }
  for (const link of document.querySelectorAll(".modes a")) {
    link.href = addressOf(withoutDocument(state), link.dataset.mode);
    if (link.dataset.mode === state.mode) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showTab();
  showForm();
}

/** Move the tabs sideways, where they do not fit, so that the current one is seen. */
function showTab() {
  const bar = document.querySelector(".modes");
  const [outer, inner] = [bar, bar.querySelector("[aria-current]")].map((each) =>
    each.getBoundingClientRect(),
  );
  if (inner.left < outer.left) bar.scrollLeft -= outer.left - inner.left + 4;
  if (inner.right > outer.right) bar.scrollLeft += inner.right - outer.right + 4;
}

function showForm() {
  const prompt = PROMPTS[state.mode] ?? "";
  find("form").hidden = !prompt;
  find("query").placeholder = prompt;
  replace(find("query-label"), prompt);
  find("query").maxLength = longestQuery(state.mode);
  const { q: query, where, searcher, other, k: depth } = state;
  for (const [id, value] of Object.entries({ query, where, searcher, other, depth })) {
    if (find(id).value !== value) find(id).value = value;
  }
  find("filter-open").classList.toggle("chosen", Boolean(state.where.trim()));
  if (state.where && find("filter").hidden) openFilter({ focus: false });
}

/** Go elsewhere: the way back leads here. */
function go(changes) {
  if (returning) return void returning.then(() => go(changes));
  keepTyped();
  if ("mode" in changes && changes.mode !== state.mode) stopAnswer();
  state = { ...withoutDocument(state), ...changes };
  state.q = state.q.slice(0, longestQuery(state.mode));
  pushState(state);
  show();
}

/** Choose a setting: it is shown at once, but a question is not asked anew. */
function choose(changes) {
  if (state.mode !== "ask") return go(changes);
  state = { ...state, ...changes };
  writeDraft(state);
}

function stopAnswer() {
  if (stopAsking()) page.showAsking(false);
}

/** Take over what is typed; a search waits for a pause. */
function type() {
  clearTimeout(timer);
  state = { ...state, q: find("query").value, where: find("where").value };
  timer = setTimeout(() => {
    keepTyped();
    if (state.mode !== "ask") show();
  }, PAUSE);
}

/** Let the address say what is typed, without a new entry of the history. */
function keepTyped() {
  clearTimeout(timer);
  writeDraft(state);
}

/** Search or ask now; what was typed becomes an entry of the history. */
function submit(event) {
  event.preventDefault();
  if (document.body.classList.contains("asking")) return stopWriting(page);
  state = { ...state, q: find("query").value, where: find("where").value };
  keepTyped();
  settle();
  if (state.mode !== "ask") return show();
  showFrame();
  return ask(state, page);
}

/** Open a document: it has an address of its own, and the way back closes it. */
function openInner(opened) {
  if (returning) return void returning.then(() => openInner(opened));
  keepTyped();
  state = { ...state, ...opened };
  pushState(state, { inner: true });
  showFrame();
  showDocument(state);
}

/** The document was closed here: step back to where it was opened, or stay if it was not here. */
function leaveDocument() {
  if (!state.doc || find("document").open) return;
  state = withoutDocument(state);
  if (hasMark("inner")) {
    returning = new Promise((resolve) => addEventListener("popstate", resolve, { once: true }));
    returning.then(() => (returning = null));
    history.back();
  } else replaceState(state);
  showDocument(state);
  showFrame();
}

/** Show the entry of the history that Back or Forward led to. */
function follow() {
  if (returning) return; // what it leads to is shown already
  clearTimeout(timer);
  const before = state;
  state = readState();
  if (isSameView(before, state)) showFrame();
  else {
    stopAnswer();
    show();
  }
  showDocument(state);
}

function toggleFilter() {
  if (find("filter").hidden) return openFilter();
  closeFilter();
  if (state.where) go({ where: "" });
  return true;
}

function switchTheme() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (isDark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  return true;
}

/** Esc, one step back: stop writing, close the source, leave the field or the hit. */
function retreat(target) {
  if (stopWriting(page)) return true;
  if (closeSource()) return true;
  if (target === find("query")) {
    target.blur();
    return true;
  }
  return find("form").hidden ? false : focusQuery();
}

async function describeCollection() {
  try {
    const status = await get("status");
    const name = String(status.collection).split(/[\\/]/).filter(Boolean).pop() ?? "";
    page.collection = { name, documents: status.documents, fields: status.fields };
    const sizes = [count(status.documents, "document"), count(status.passages, "passage")];
    replace(find("collection"), [oneLine(name, 60), ...sizes].join(" · "));
    if (status.indexes) nameMissing(Object.keys(status.indexes));
    showExamples(status.filters ?? {}, (where) => go({ where }));
  } catch (error) {
    if (error.kind === "NoCollection") {
      page.collection = { name: "", documents: 0 };
      describeAccess();
    }
    replace(find("collection"), oneLine(error.message, 120));
  }
  if (state.mode === "search" && (!state.q || nothingYet(page))) show();
}

/** Show what the server lets this client do, and its other collections. */
async function describeAccess() {
  let access = { writes: false, collections: [] };
  try {
    access = await get("access");
  } catch {
    return; // an older server, or no key: the page reads, and no more
  }
  page.mayWrite = access.writes;
  find("manage-tab").hidden = find("document-tools").hidden = !access.writes;
  find("collections-choice").hidden = access.collections.length < 2;
  const options = access.collections.map(({ name, address, current }) =>
    make("option", { value: address, selected: current }, oneLine(name, 40)),
  );
  replace(find("collections"), ...options);
  showTab();
}

/** Searchers whose index is not built cannot be chosen. */
function nameMissing(built) {
  const needs = { dense: ["dense"], hybrid: ["dense", "generative"], generative: ["generative"] };
  for (const option of document.querySelectorAll("#searcher option, #other option")) {
    const wanted = needs[option.value];
    option.disabled = Boolean(wanted) && !wanted.some((name) => built.includes(name));
    replace(option, option.disabled ? `${option.value}: not built` : NAMES[option.value]);
  }
}

/** Take a document that is gone off the page. */
function removeHit(docid) {
  for (const card of document.querySelectorAll(".hit")) {
    if (card.dataset.docid === docid) card.remove();
  }
}

function wire() {
  for (const [id, names] of [["searcher", SEARCHERS], ["other", SEARCHERS]]) {
    replace(find(id), ...names.map((name) => make("option", { value: name }, NAMES[name])));
  }
  find("form").addEventListener("submit", submit);
  find("query").addEventListener("input", type);
  find("where").addEventListener("input", type);
  find("searcher").addEventListener("change", (event) => choose({ searcher: event.target.value }));
  find("other").addEventListener("change", (event) => choose({ other: event.target.value }));
  find("depth").addEventListener("change", (event) => choose({ k: event.target.value }));
  find("filter-open").addEventListener("click", toggleFilter);
  find("theme").addEventListener("click", switchTheme);
  find("shortcuts-open").addEventListener("click", () => open("shortcuts"));
  find("source-close").addEventListener("click", closeSource);
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  find("document").addEventListener("close", leaveDocument);
  find("collections").addEventListener("change", (event) => {
    const kept = addressOf({ ...withoutDocument(state), where: "" });
    location.assign(event.target.value + (kept === "./" ? "" : kept));
  });
  for (const link of document.querySelectorAll(".modes a")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go({ mode: link.dataset.mode });
      if (!find("form").hidden) find("query").focus();
    });
  }
  addEventListener("popstate", follow);
  addEventListener("resize", showTab);
}

onKeyNeeded(askForKey);
onEnter(describeAccess);
onOpen(openInner);
onRemoved((docid) => {
  find("document").close();
  page.tell(`Removed ${oneLine(docid, 100)}.`);
  describeCollection();
  if (state.mode === "search") removeHit(docid);
});
wire();
listenToKeys(page);
listenToDrops(page);
replaceState(state); // as this page writes addresses, so that they can be compared
if (state.mode === "ask" && state.q.trim()) markEntry({ asked: true });
show();
showDocument(state);
describeCollection();
if (!find("form").hidden && matchMedia("(hover: hover)").matches) find("query").focus();
