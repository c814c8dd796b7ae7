// Places in a document, as an address writes them: instance:start-end,start-end:field.

const PLACE = /^(\d{1,9}):(\d{1,9}-\d{1,9}(?:,\d{1,9}-\d{1,9}){0,49}):([\s\S]+)$/;

/** Write spans of a field; what cannot be read back is left out. */
export function writePlace({ field, instance = 0 }, spans) {
  const written = spans.slice(0, 50).map(({ start, end }) => `${start}-${end}`);
  const place = `${instance}:${written.join(",")}:${field}`;
  return PLACE.test(place) ? place : "";
}

/** Read spans of a field; null where there are none. */
export function readPlace(place) {
  const [, instance, written, field] = PLACE.exec(place) ?? [];
  if (field === undefined) return null;
  const spans = written.split(",").map((each) => {
    const [start, end] = each.split("-").map(Number);
    return { start, end };
  });
  return { field, instance: Number(instance), spans };
}
