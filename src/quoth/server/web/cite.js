// A hit as a citation: plain, Markdown, or BibTeX where its metadata name an author, year or address.

import { make } from "./dom.js";
import { makeSafe, oneLine } from "./text.js";

const LONGEST = 400; // characters of a field of a citation

/** Read from a hit what a citation is made of; what is not known is empty. */
export function readSource(hit) {
  const metadata = Object.fromEntries(
    Object.entries(hit.metadata ?? {}).map(([key, value]) => [key.toLowerCase(), value]),
  );
  const read = (...names) => {
    const value = names.map((name) => metadata[name]).find((each) => each !== undefined);
    return value === undefined ? "" : clean([value].flat().join(" and "));
  };
  const date = read("year", "date", "published");
  const url = read("url", "link", "source_url");
  return {
    key: hit.docid,
    title: clean(hit.title || hit.docid),
    author: read("author", "authors", "creator"),
    year: /\b\d{4}\b/.exec(date)?.[0] ?? "",
    url: /^https?:\/\//.test(url) ? url : "",
    place: clean(hit.docid),
    at: clean(hit.passage?.place ?? "") || (read("page") && `p. ${read("page")}`),
    quote: clean(hit.snippet?.text ?? hit.passage?.text ?? ""),
  };
}

/** Write a citation as plain text. */
export function writePlain({ title, author, year, url, place, at }) {
  const dated = (text) => (year ? `${text} (${year})` : text);
  const head = author ? [dated(author), title] : [dated(title)];
  const where = url || (place === title ? "" : place);
  return `${[...head, at, where].filter(Boolean).join(". ")}.`;
}

/** Write a quotation with its source in Markdown. */
export function writeMarkdown({ title, author, year, url, place, at, quote }) {
  const name = escapeMarkdown(title);
  const linked = url ? `[${name}](<${url.replace(/[<>]/g, encodeURIComponent)}>)` : `*${name}*`;
  const by = [author, year].filter(Boolean).map(escapeMarkdown).join(", ");
  const more = [by && ` (${by})`, at && `, ${escapeMarkdown(at)}`];
  const where = url || place === title ? "" : `, \`${place.replaceAll("`", "'")}\``;
  const source = `— ${linked}${more.filter(Boolean).join("")}${where}`;
  return quote ? `> ${escapeMarkdown(quote)}\n>\n> ${source}` : source;
}

/** Write an entry for BibTeX; empty where the metadata name neither author, year nor address. */
export function writeBibtex({ key, title, author, year, url, at }) {
  if (!author && !year && !url) return "";
  const word = (text) => text.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "");
  const first = author ? author.split(/ and |,/)[0].split(" ").at(-1) : key.split("/").at(-1);
  const named = `${word(first).toLowerCase() || "document"}${year}`;
  const [, pages] = /^pp?\. (.+)$/.exec(at) ?? [];
  const place = pages ? { pages: pages.replace("–", "--") } : { note: at };
  const fields = { title: `{${escapeTex(title)}}`, author, year, url, ...place };
  const lines = Object.entries(fields)
    .filter(([, value]) => value)
    .map(([name, value]) => `  ${name} = {${name === "title" ? value : writeTex(name, value)}}`);
  return `@misc{${named},\n${lines.join(",\n")}\n}`;
}

function writeTex(name, value) {
  return name === "url" ? value.replace(/[{}\\]/g, encodeURIComponent) : escapeTex(value);
}

/** The button that opens the citations of a hit, and where they are shown. */
export function makeCite(hit, tell) {
  const panel = make("div", { class: "cite", hidden: true });
  const button = make(
    "button",
    {
      type: "button",
      class: "plain cite-open",
      "aria-expanded": "false",
      onclick: () => {
        panel.hidden = !panel.hidden;
        button.setAttribute("aria-expanded", String(!panel.hidden));
        if (!panel.childElementCount) panel.append(...makeForms(readSource(hit), tell));
      },
    },
    "Cite",
  );
  return { button, panel };
}

function makeForms(source, tell) {
  const forms = [
    ["Plain text", writePlain(source)],
    ["Markdown", writeMarkdown(source)],
    ["BibTeX", writeBibtex(source)],
  ];
  return forms
    .filter(([, text]) => text)
    .map(([name, text]) => {
      const shown = make("pre", { tabindex: "0", "aria-label": `Citation, ${name}` }, makeSafe(text));
      const copy = async () => tell((await copyText(text, shown)) ? `Copied as ${name}.` : BLOCKED);
      const button = make("button", { type: "button", class: "plain", onclick: copy }, `Copy`);
      button.setAttribute("aria-label", `Copy as ${name}`);
      return make("div", { class: "citation" }, make("b", {}, name), button, shown);
    });
}

const BLOCKED = "The browser does not allow copying here; the citation is selected.";

/** Copy text; where the browser forbids it, select it, so that the user can. */
async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(shown);
    return document.execCommand?.("copy") ?? false;
  }
}

function clean(text) {
  return oneLine(text, LONGEST);
}

function escapeMarkdown(text) {
  return text.replace(/[\\`*_[\]<>#]/g, "\\$&");
}

function escapeTex(text) {
  const long = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" };
  return text.replace(/[\\~^{}&%$#_]/g, (each) => long[each] ?? `\\${each}`);
}
