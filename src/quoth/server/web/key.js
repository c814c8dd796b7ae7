// Ask for a key: because none was sent, or because the one that was sent is wrong or has expired.

import { useKey } from "./api.js";
import { find, replace } from "./dom.js";

const REASONS = {
  KeyUnknown: [
    "The server does not know this key",
    "Check that all of it was copied, or ask whoever runs the server for another.",
  ],
  KeyExpired: ["This key has expired", "Ask whoever runs the server for a new one."],
};
const MISSING = ["This server requires a key", "Whoever runs the server can give you one."];
let asked = null;
let declined = -Infinity; // when nobody gave a key

/**
 * Ask for a key, once for all requests that wait for it; true when one was given. A request that
 * was sent before somebody declined does not ask again.
 */
export function askForKey({ kind }, sent) {
  if (sent < declined) return Promise.resolve(false);
  asked ??= new Promise((resolve) => open(kind, resolve));
  return asked;
}

function open(kind, resolve) {
  const [dialog, field] = [find("key"), find("key-field")];
  const [title, hint] = REASONS[kind] ?? MISSING;
  replace(find("key-title"), title);
  replace(find("key-hint"), hint);
  dialog.returnValue = "";
  dialog.addEventListener(
    "close",
    () => {
      const key = field.value.trim();
      const isGiven = dialog.returnValue === "given" && key !== "";
      if (isGiven) useKey(key);
      else declined = performance.now();
      field.value = "";
      asked = null;
      resolve(isGiven);
    },
    { once: true },
  );
  dialog.showModal();
}
