// Speak to the server: JSON in, JSON out, and answers that arrive piece by piece.

const KEY = "key";
let askForKey = async () => false;

/** Something the server, or the way to it, said no to. */
export class ServerError extends Error {
  constructor(title, message, { kind = "", status = 0, requestId = "" } = {}) {
    super(message);
    Object.assign(this, { title, kind, status, requestId });
  }
}

/** Say how to get a key from the user; the promise is true once there is one. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** Keep a key for as long as the tab is open. */
export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

/** Fetch JSON. */
export async function get(path, { signal } = {}) {
  return (await send(path, { signal })).json();
}

/** Post JSON and fetch what comes back. */
export async function post(path, body, { signal } = {}) {
  return (await send(path, { signal, body })).json();
}

/** Post JSON and yield the events of the answer as {event, data}. */
export async function* stream(path, body, { signal } = {}) {
  const response = await send(path, { signal, body });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
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
export function readError(body, status = 0) {
  const { kind = "", message = "", request_id: requestId = "" } = body?.error ?? {};
  const title = TITLES[kind] ?? TITLES[status] ?? "That did not work";
  return new ServerError(title, message || FALLBACK, {
    kind,
    status,
    requestId,
  });
}

const FALLBACK = "The server said no more than that. Its log knows the reason.";
const TITLES = {
  MissingExtra: "Something is not installed",
  NoCollection: "Nothing here yet",
  400: "That cannot be done here",
  401: "A key is needed",
  403: "This key may not do that",
  404: "Not found",
  413: "That is too long",
  422: "The server could not read that",
  429: "Very busy just now",
  500: "Something broke in the server",
  503: "Not ready yet",
};

async function send(path, { body, signal } = {}, isSecond = false) {
  const headers = { Accept: "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    body: body === undefined ? undefined : JSON.stringify(body),
    headers,
    signal,
  }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ServerError("No connection", "The server does not answer. Is quoth serve running?");
  });
  if (response.ok) return response;
  if (response.status === 401 && !isSecond) {
    const isNew = sessionStorage.getItem(KEY) !== key; // given meanwhile, for another request
    if (isNew || (await askForKey())) return send(path, { body, signal }, true);
  }
  throw readError(await response.json().catch(() => null), response.status);
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
