// The page: one state, five views. Typing searches; the address always says what is shown.

import { get, onKeyNeeded, useKey } from "./api.js";
import { ask, showAsk, stopAsking, stopWriting } from "./ask.js";
import { showCompare, stopComparing } from "./compare.js";
import { find, make, replace } from "./dom.js";
import { NAMES } from "./hits.js";
import { focusQuery, listenToKeys, open } from "./keyboard.js";
import { showReport } from "./report.js";
import { nothingYet, showSearch, stopSearching } from "./search.js";
import { closeSource, hideSource } from "./source.js";
import { SEARCHERS, addressOf, longestQuery, readState, writeState } from "./state.js";
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
let keyAsked = null;

/** What views and keys may do to the page. */
const page = {
  collection: null,
  tell: (text) => replace(find("status"), makeSafe(text)),
  go,
  setWhere: (where) => change({ where }),
  addCondition: (condition) => {
    openFilter();
    change({ where: state.where.trim() ? `${state.where.trim()} and ${condition}` : condition });
  },
  isFilterError: (error) => error.kind === "FilterError",
  showFilterError: (error) => {
    openFilter({ focus: false });
    find("where").setAttribute("aria-invalid", "true");
    replace(find("where-error"), makeSafe(error.message));
  },
  clearFilterError: () => {
    find("where").removeAttribute("aria-invalid");
    replace(find("where-error"));
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
  document.body.dataset.mode = state.mode;
  document.title = state.q ? `${oneLine(state.q, 60)} – Quoth` : "Quoth";
  for (const view of document.querySelectorAll(".view")) {
    view.hidden = view.dataset.view !== state.mode;
  }
  for (const link of document.querySelectorAll(".modes a")) {
    link.href = addressOf(state, link.dataset.mode);
    if (link.dataset.mode === state.mode) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showForm();
  if (state.mode !== "stats") stopWatching();
  if (state.mode !== "search") stopSearching();
  if (state.mode !== "compare") stopComparing();
  if (state.mode !== "ask") hideSource();
  ({
    search: () => showSearch(state, page),
    ask: () => showAsk(state, page),
    compare: () => showCompare(state, page),
    learning: () => showReport(page),
    stats: () => showStats(page),
  })[state.mode]();
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

/** Change the state and show it at once. */
function change(changes) {
  clearTimeout(timer);
  state = { ...state, ...changes };
  writeState(state);
  show();
}

/** Go elsewhere: the way back leads here. */
function go(changes) {
  clearTimeout(timer);
  if (changes.mode !== state.mode) stopAnswer();
  state = { ...state, ...changes };
  state.q = state.q.slice(0, longestQuery(state.mode));
  writeState(state, { isNew: true });
  show();
}

function stopAnswer() {
  if (stopAsking()) page.showAsking(false);
}

/** Take over what is typed; a search waits for a pause. */
function type() {
  state = { ...state, q: find("query").value, where: find("where").value };
  clearTimeout(timer);
  timer = setTimeout(() => (state.mode === "ask" ? writeState(state) : change({})), PAUSE);
}

function submit(event) {
  event.preventDefault();
  if (state.mode !== "ask") return change({ q: find("query").value });
  if (document.body.classList.contains("asking")) return stopWriting(page);
  change({ q: find("query").value });
  return ask(state, page);
}

function openFilter({ focus = true } = {}) {
  find("filter").hidden = false;
  find("filter-open").setAttribute("aria-expanded", "true");
  if (focus) find("where").focus();
  return true;
}

function toggleFilter() {
  if (find("filter").hidden) return openFilter();
  find("filter").hidden = true;
  find("filter-open").setAttribute("aria-expanded", "false");
  if (state.where) change({ where: "" });
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
    const status = await get("/status");
    const name = String(status.collection).split(/[\\/]/).filter(Boolean).pop() ?? "";
    page.collection = { name, documents: status.documents };
    const sizes = [count(status.documents, "document"), count(status.passages, "passage")];
    replace(find("collection"), [oneLine(name, 60), ...sizes].join(" · "));
    if (status.indexes) nameMissing(Object.keys(status.indexes));
  } catch (error) {
    if (error.kind === "NoCollection") page.collection = { name: "", documents: 0 };
    replace(find("collection"), oneLine(error.message, 120));
  }
  if (state.mode === "search" && (!state.q || nothingYet(page))) show();
}

/** Searchers whose index is not built cannot be chosen. */
function nameMissing(built) {
  const needs = { dense: ["dense"], hybrid: ["dense", "generative"], generative: ["generative"] };
  for (const option of document.querySelectorAll("#searcher option, #other option")) {
    const wanted = needs[option.value];
    if (!wanted || wanted.some((name) => built.includes(name))) continue;
    option.disabled = true;
    replace(option, `${option.value}: not built`);
  }
}

/** Ask for a key, once for all requests that wait for it; true when one was given. */
function askForKey() {
  keyAsked ??= new Promise((resolve) => {
    const dialog = find("key");
    const field = find("key-field");
    const end = () => {
      const key = field.value.trim();
      const isGiven = dialog.returnValue === "given" && key !== "";
      if (isGiven) useKey(key);
      field.value = "";
      keyAsked = null;
      resolve(isGiven);
    };
    dialog.returnValue = "";
    dialog.addEventListener("close", end, { once: true });
    dialog.showModal();
  });
  return keyAsked;
}

function wire() {
  for (const [id, names] of [["searcher", SEARCHERS], ["other", SEARCHERS]]) {
    replace(find(id), ...names.map((name) => make("option", { value: name }, NAMES[name])));
  }
  find("form").addEventListener("submit", submit);
  find("query").addEventListener("input", type);
  find("where").addEventListener("input", type);
  find("searcher").addEventListener("change", (event) => change({ searcher: event.target.value }));
  find("other").addEventListener("change", (event) => change({ other: event.target.value }));
  find("depth").addEventListener("change", (event) => change({ k: event.target.value }));
  find("filter-open").addEventListener("click", toggleFilter);
  find("theme").addEventListener("click", switchTheme);
  find("shortcuts-open").addEventListener("click", () => open("shortcuts"));
  find("source-close").addEventListener("click", closeSource);
  for (const example of document.querySelectorAll(".example")) {
    example.addEventListener("click", () => change({ where: example.textContent }));
  }
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
  for (const link of document.querySelectorAll(".modes a")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go({ mode: link.dataset.mode });
      if (!find("form").hidden) find("query").focus();
    });
  }
  addEventListener("popstate", () => {
    state = readState();
    stopAnswer();
    show();
  });
}

onKeyNeeded(askForKey);
wire();
listenToKeys(page);
show();
describeCollection();
if (state.mode === "ask" && state.q.trim()) ask(state, page);
if (!find("form").hidden && matchMedia("(hover: hover)").matches) find("query").focus();
