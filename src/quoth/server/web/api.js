// Speak to the server: JSON in, JSON out, and answers that arrive piece by piece.

const KEY = `key ${location.pathname}`; // one host may serve several collections, by path
let askForKey = async () => false;
let enter = () => {};
let entered; // the key that the server took last; null is none

/** Something the server, or the way to it, said no to. `retrySeconds` is null where not said. */
export class ServerError extends Error {
  constructor(
    title,
    message,
    { kind = "", status = 0, requestId = "", retrySeconds = null } = {},
  ) {
    super(message);
    Object.assign(this, { title, kind, status, requestId, retrySeconds });
  }
}

/** Say how to get a key from the user; the promise is true once there is one. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** Say what is to be done when the server first answers, and when it takes another key. */
export function onEnter(listener) {
  enter = listener;
}

/** Keep a key for as long as the tab is open. */
export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

/** Fetch JSON. */
export async function get(path, { signal } = {}) {
  return readJson(await send(path, { signal }));
}

/** Post JSON and fetch what comes back. */
export async function post(path, body, { signal } = {}) {
  return readJson(await send(path, { signal, body }));
}

/** Delete what an address names, and fetch what comes back. */
export async function remove(path, { signal } = {}) {
  return readJson(await send(path, { signal, method: "DELETE" }));
}

/** Post JSON and yield the events of the answer as {event, data}. */
export async function* stream(path, body, { signal } = {}) {
  const response = await send(path, { signal, body });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(failUnlessAborted(LOST));
    const blocks = (rest + (value ?? "")).split(/\r?\n\r?\n/);
    rest = done ? "" : blocks.pop();
    for (const block of blocks) {
      const event = readEvent(block);
      if (event) yield event;
    }
    if (done) return;
  }
}

/** Turn the error of a response or of a stream into something that can be shown. */
export function readError(body, { status = 0, headers = new Headers() } = {}) {
  const { kind = "", message = "", request_id: requestId = "" } = body?.error ?? {};
  const title = TITLES[kind] ?? TITLES[status] ?? "That did not work";
  return new ServerError(title, message || FALLBACK, {
    kind,
    status,
    requestId,
    retrySeconds: readRetry(headers.get("Retry-After")),
  });
}

const FALLBACK = "The server gave no details. Its log has the reason.";
const UNANSWERED = ["No connection", "The server is not responding. Check that quoth serve is running."];
const LOST = ["Connection lost", "The connection ended before the answer was complete. Try again."];
const UNREADABLE = ["Unexpected response", "It is not JSON. Check that this address is a Quoth server."];
const TITLES = {
  KeyUnknown: "The server does not know this key",
  KeyExpired: "This key has expired",
  MissingExtra: "A required package is not installed",
  NoCollection: "Nothing here yet",
  Overloaded: "The server is busy",
  400: "Invalid request",
  401: "A key is required",
  403: "This key does not allow that",
  404: "Not found",
  413: "The request is too large",
  422: "Invalid input",
  429: "Too many requests",
  500: "Server error",
  503: "The server is not ready",
};

/** Send until there is an answer, or no key that the server takes. */
async function send(path, { body, signal, method } = {}) {
  for (;;) {
    const [key, sent] = [sessionStorage.getItem(KEY), performance.now()];
    const response = await sendOnce(path, { body, signal, key, method });
    if (response.ok) {
      if (entered !== key) queueMicrotask(enter);
      entered = key;
      return response;
    }
    const error = await readRefusal(response, key);
    signal?.throwIfAborted();
    const isNew = sessionStorage.getItem(KEY) !== key; // given meanwhile, for another request
    if (error.status !== 401 || !(isNew || (await askForKey(error, sent)))) throw error;
  }
}

function sendOnce(path, { body, signal, key, method }) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    body: body === undefined ? undefined : JSON.stringify(body),
    headers,
    signal,
  }).catch(failUnlessAborted(UNANSWERED));
}

/** Read why a request was refused; a key that was sent and is still asked for is a wrong one. */
async function readRefusal(response, key) {
  const body = await response.json().catch(() => null);
  if (key && body?.error?.kind === "KeyRequired") body.error.kind = "KeyUnknown";
  return readError(body, response);
}

function readJson(response) {
  return response.json().catch(failUnlessAborted(UNREADABLE));
}

function failUnlessAborted([title, message]) {
  return (error) => {
    throw error.name === "AbortError" ? error : new ServerError(title, message);
  };
}

/** Read Retry-After, which is in seconds or a date; null where it is neither. */
function readRetry(header) {
  if (!header) return null;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : null;
}

function readEvent(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
