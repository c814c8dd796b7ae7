// Change the collection: add files, give documents vectors, learn; shown where writes are allowed.

import { get, post, remove } from "./api.js";
import { failure, find, foreign, make, replace } from "./dom.js";
import { duration, oneLine, size } from "./text.js";

const EVERY = 700; // milliseconds between looks at a job
const MOST_BYTES = 6_000_000; // of a file: in base64, with room to spare, what a request may hold
const SLICE = 0x8000;
const NAMES = { encode: "Compute vectors", learn: "Learn" };
const ABOUT = {
  encode: "Compute vectors for every document, to search by meaning as well.",
  learn: "Write queries for the documents, train on them, and keep the new model if it is better.",
};

let timer = null;
let isWatching = false;
let queue = Promise.resolve();

/** Show what can be done to the collection. */
export function showManage(page) {
  isWatching = true;
  page.tell("");
  const view = find("manage");
  if (!view.childElementCount) replace(view, makeAdding(page), makeJobs(page));
  look(page);
}

/** Stop looking at the job. */
export function stopManaging() {
  isWatching = false;
  clearTimeout(timer);
}

/** Let files be dropped anywhere on the page. */
export function listenToDrops(page) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files") && page.mayWrite;
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", async (event) => {
    document.body.classList.remove("dropping");
    if (!hasFiles(event)) return;
    event.preventDefault();
    const files = await readDropped(event.dataTransfer);
    page.go({ mode: "manage" });
    addFiles(files, page);
  });
}

// Adding ------------------------------------------------------------------------------------------

function makeAdding(page) {
  const input = make("input", { type: "file", multiple: true, id: "files", class: "unseen" });
  input.addEventListener("change", () => {
    addFiles([...input.files].map((file) => ({ name: nameOf(file), file })), page);
    input.value = "";
  });
  const label = make("label", { for: "files", class: "button" }, "Choose files");
  const drop = make(
    "div",
    { class: "drop" },
    make("p", {}, "Drop files or folders anywhere on this page, or"),
    input,
    label,
    make("p", { class: "quiet" }, `Up to ${size(MOST_BYTES)} per file; quoth add takes larger ones.`),
  );
  return make(
    "section",
    { "aria-labelledby": "adding-title" },
    make("h2", { id: "adding-title" }, "Add documents"),
    drop,
    make("p", { id: "added", class: "quiet", role: "status" }),
    make("ul", { id: "uploads", class: "uploads" }),
  );
}

/** Add files one after another, and say of each what became of it. */
function addFiles(files, page) {
  const totals = { added: 0, updated: 0, unchanged: 0, skipped: 0 };
  for (const { name, file } of files) {
    const told = make("span", { class: "outcome" }, "waiting");
    const line = make("li", {}, foreign(oneLine(name, 120)), " ", told);
    find("uploads").prepend(line);
    queue = queue.then(async () => {
      replace(told, "reading");
      const problems = await addFile(name, file, totals, told);
      if (problems.length) line.append(makeProblems(problems));
      replace(find("added"), sayTotals(totals));
    });
  }
  queue = queue.then(() => page.describe());
}

async function addFile(name, file, totals, told) {
  try {
    if (file.size > MOST_BYTES) throw new Error(`larger than ${size(MOST_BYTES)}; use quoth add`);
    const done = await post("files", { name, content: await encode(file) });
    for (const key of ["added", "updated", "unchanged"]) totals[key] += done[key];
    totals.skipped += done.skipped.length;
    replace(told, sayTotals({ ...done, skipped: done.skipped.length }));
    return done.skipped;
  } catch (error) {
    totals.skipped += 1;
    replace(told, "not added");
    return [error.message];
  }
}

function makeProblems(problems) {
  const shown = problems.slice(0, 20).map((each) => foreign(oneLine(each, 240), "li"));
  if (problems.length > 20) shown.push(make("li", {}, `and ${problems.length - 20} more`));
  return make("ul", { class: "problems" }, ...shown);
}

function sayTotals(totals) {
  const said = Object.entries(totals).filter(([, number]) => number);
  return said.map(([name, number]) => `${number.toLocaleString("en")} ${name}`).join(", ") || "empty";
}

function nameOf(file) {
  return file.webkitRelativePath || file.name;
}

/** Write the bytes of a file in base64. */
async function encode(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += SLICE) {
    text += String.fromCharCode(...bytes.subarray(at, at + SLICE));
  }
  return btoa(text);
}

/** List the files that were dropped, those in folders with their path. */
async function readDropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ name: nameOf(file), file }));
  return (await Promise.all(entries.map(walk))).flat();
}

async function walk(entry) {
  if (entry.name.startsWith(".")) return [];
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ name: entry.fullPath.replace(/^\//, ""), file }];
  }
  const [reader, found] = [entry.createReader(), []];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return (await Promise.all(found.map(walk))).flat();
    found.push(...some);
  }
}

// Jobs --------------------------------------------------------------------------------------------

function makeJobs(page) {
  const cards = Object.keys(NAMES).map((kind) =>
    make(
      "div",
      { class: "card job" },
      make("h3", {}, NAMES[kind]),
      make("p", { class: "quiet" }, ABOUT[kind]),
      make(
        "button",
        { type: "button", "data-start": kind, onclick: () => start(kind, page) },
        "Start",
      ),
    ),
  );
  return make(
    "section",
    { "aria-labelledby": "jobs-title" },
    make("h2", { id: "jobs-title" }, "Improve search"),
    make("div", { class: "cards" }, ...cards),
    make("div", { id: "job", "aria-live": "polite" }),
  );
}

async function start(kind, page) {
  try {
    await post("job", { kind });
  } catch (error) {
    return replace(find("job"), failure(error, () => start(kind, page), "h3"));
  }
  return look(page);
}

async function cancel(page) {
  try {
    await remove("job");
  } catch (error) {
    page.tell(error.message);
  }
  look(page);
}

/** Look at the job, again and again while it runs and is shown. */
async function look(page) {
  clearTimeout(timer);
  try {
    const job = await get("job");
    if (!isWatching) return;
    showJob(job, page);
    if (job.state === "running") timer = setTimeout(() => look(page), EVERY);
    else if (page.lastJob === "running") page.describe();
    page.lastJob = job.state;
  } catch (error) {
    if (isWatching) replace(find("job"), failure(error, () => look(page), "h3"));
  }
}

function showJob(job, page) {
  const isRunning = job.state === "running";
  for (const button of document.querySelectorAll("[data-start]")) button.disabled = isRunning;
  if (job.state === "idle") return replace(find("job"));
  const name = NAMES[job.kind] ?? job.kind;
  const known = isRunning && job.total > 0;
  const bar = make("progress", {
    "aria-label": name,
    max: known ? job.total : null,
    value: known ? job.done : null,
  });
  const done = known ? `: ${[job.done, job.total].map((each) => each.toLocaleString("en")).join(" of ")}` : "";
  const said = isRunning ? `${oneLine(job.what, 80)}${done}` : oneLine(job.message, 300);
  return replace(
    find("job"),
    make("h3", {}, `${name}: ${job.state}, ${duration(job.seconds)}`),
    isRunning ? bar : null,
    make("p", {}, said),
    isRunning && job.message ? make("p", { class: "quiet" }, oneLine(job.message, 300)) : null,
    isRunning
      ? make("button", { type: "button", class: "plain", onclick: () => cancel(page) }, "Cancel")
      : null,
  );
}
