// Text from documents: never trusted, never markup. Offsets count characters as Python does.

const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;
const PAIRS = /[\ud800-\udbff][\udc00-\udfff]/;

/** Replace, one for one, what could command or reorder the line it stands in.
 *
 *  Form feeds, which part pages, and the carriage returns of Windows become spaces. */
export function makeSafe(text) {
  return String(text).replace(/[\f\r]/g, " ").replace(UNSAFE, "\ufffd");
}

/** Put text on one line; what is too long loses its end. */
export function oneLine(text, longest) {
  const line = makeSafe(String(text).slice(0, longest * 4)).replace(/\s+/g, " ").trim();
  return line.length <= longest ? line : `${line.slice(0, longest - 1).trimEnd()}…`;
}

/** Give a function that cuts text by characters, where JavaScript counts pairs of code units. */
export function cutter(text) {
  if (!PAIRS.test(text)) return (start, end) => text.slice(start, end);
  const characters = Array.from(text);
  return (start, end) => characters.slice(start, end).join("");
}

/** Count characters as Python does. */
export function countCharacters(text) {
  return PAIRS.test(text) ? Array.from(text).length : text.length;
}

/** Part a text into [stretch, span or null], where spans are {start, end} and do not overlap. */
export function partBySpans(text, spans) {
  const cut = cutter(text);
  const length = countCharacters(text);
  const parts = [];
  let at = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    const start = Math.max(at, span.start);
    const end = Math.min(length, span.end);
    if (start >= end) continue;
    if (start > at) parts.push([cut(at, start), null]);
    parts.push([cut(start, end), span]);
    at = end;
  }
  if (at < length) parts.push([cut(at, length), null]);
  return parts;
}

/** Write a number with its noun. */
export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** Write a length of time. */
export function duration(seconds) {
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** Write a size in bytes. */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  let left = bytes;
  while (left >= 1000 && at < units.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${at === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[at]}`;
}

/** Write a score: three places, more only where they are needed. */
export function score(value) {
  if (value === 0) return "0";
  return Math.abs(value) >= 0.01 ? value.toFixed(3) : value.toPrecision(2);
}
