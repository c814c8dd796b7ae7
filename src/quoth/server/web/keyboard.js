// Everything can be done from the keyboard; single keys work wherever nothing is being typed.

import { find, make, replace } from "./dom.js";

export const SHORTCUTS = [
  ["/", "focus the query"],
  ["↓ ↑", "next, previous hit"],
  ["Enter", "open the hit; ask the question"],
  ["w", "why this hit?"],
  ["f", "filter"],
  ["Esc", "close, stop, or back to the query"],
  ["s a c l m t", "search, ask, compare, learning, manage, stats"],
  ["q", "cite this hit"],
  ["d", "light or dark"],
  ["?", "these shortcuts"],
];
const STOPS = ".title, .correction"; // where the arrows lead
const MODE_KEYS = { s: "search", a: "ask", c: "compare", l: "learning", m: "manage", t: "stats" };

/** Listen; `page` offers what the keys do. */
export function listenToKeys(page) {
  const rows = SHORTCUTS.flatMap(([keys, what]) => [
    make("dt", {}, ...keys.split(" ").map((key) => make("kbd", {}, key))),
    make("dd", {}, what),
  ]);
  replace(find("shortcuts-body"), ...rows);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return; // a dialog closes itself on Esc
    if (press(event, page)) event.preventDefault();
  });
}

/** Do what a key says; false where it means nothing here. */
function press(event, page) {
  const isTyping = event.target.matches("input, textarea, select");
  if (event.key === "ArrowDown" || event.key === "ArrowUp") return walk(event);
  if (event.key === "Escape") return page.retreat(event.target);
  const isChosen = event.key === "Enter" || event.key === " ";
  if (isChosen && event.target.matches(".quotation")) return click(event.target);
  if (isTyping) return false;
  if (event.key === "/") return focusQuery();
  if (event.key === "?") return open("shortcuts");
  if (event.key === "f") return page.openFilter();
  if (event.key === "d") return page.switchTheme();
  if (event.key === "w") return askWhy(event.target);
  if (event.key === "q") return askWhy(event.target, ".cite-open");
  if (event.key === "m" && !page.mayWrite) return false;
  if (event.key in MODE_KEYS) {
    page.go({ mode: MODE_KEYS[event.key] });
    focusQuery();
    return true;
  }
  return false;
}

function walk(event) {
  if (event.target.matches("select, [role=region]")) return false;
  const view = document.querySelector(".view:not([hidden])");
  const titles = [...view.querySelectorAll(STOPS)];
  if (!titles.length) return false;
  const within = event.target.closest?.(".hit, .sources li, .meant");
  const at = titles.indexOf(within?.querySelector(STOPS) ?? null);
  const next = at + (event.key === "ArrowDown" ? 1 : -1);
  if (at <= 0 && event.key === "ArrowUp") return at === 0 ? focusQuery() : false;
  const chosen = titles[Math.min(next, titles.length - 1)];
  chosen.focus({ preventScroll: true });
  (chosen.closest("li") ?? chosen).scrollIntoView({ block: "nearest" });
  return true;
}

function click(target) {
  target.click();
  return true;
}

function askWhy(target, wanted = ".why-open") {
  const button = target.closest?.(".hit")?.querySelector(wanted);
  button?.click();
  return Boolean(button);
}

/** Put the cursor into the query, all of it chosen. */
export function focusQuery() {
  find("query").focus();
  find("query").select();
  return true;
}

/** Open one of the page's dialogs. */
export function open(id) {
  find(id).showModal();
  return true;
}
