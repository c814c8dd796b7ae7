/* What stands between spaces in texts, and its terms, each met and numbered once.
 *
 * A chunk that no table has met waits until Python is asked for its terms, all of a portion at
 * once, so that reading texts needs nothing of Python.
 */
#ifndef QUOTH_CHUNKS_H
#define QUOTH_CHUNKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "segment.h"

#define COUNT(bytes, type) ((bytes).size / sizeof(type))
#define IN_FULL 1 /* the first byte of a chunk that the full pattern takes apart */

/* A term, as Python gave it. */
typedef struct {
    PyObject *text;
    const char *data;
    uint32_t hash, size, key;
    uint32_t counted;              /* how often it was counted in the view at hand */
    uint64_t in_field, in_document; /* the last ones it was met in */
} NumberedTerm;

#define SHORT 8

/* A chunk; `first` is its only term, or where the numbers of its `count` terms begin. */
typedef struct {
    uint8_t start[SHORT]; /* all of a short one, and zeros */
    uint64_t string;
    uint32_t hash, size, first, count;
} Chunk;

/* Where a chunk or a term is looked for: its number, and one more. */
typedef struct {
    uint32_t hash, number;
} Slot;

/* A stretch of a text to be read, and where its words stand among all that were read. */
typedef struct {
    const void *data;
    int kind; /* bytes of a character */
    int is_plain, is_full;
    size_t start, end;
    size_t first, last;
} Run;

typedef struct {
    Slot *slots, *term_slots;
    uint32_t num_slots, num_term_slots;
    Bytes chunks, strings, numbers, terms;
    Bytes waiting; /* chunks without terms so far */
    Bytes word;    /* the one at hand */
    uint64_t serial; /* of the last field or document that terms were counted in */
} Chunks;

#define FIRST_HASH 14695981039346656037ULL
#define NEXT_HASH(hash, byte) (((hash) ^ (byte)) * 1099511628211ULL)
#define LAST_HASH(hash) ((uint32_t)((hash) ^ (hash) >> 32))

static inline uint32_t hash_of(const void *text, size_t size) {
    uint64_t hash = FIRST_HASH;
    for (size_t at = 0; at < size; at++)
        hash = NEXT_HASH(hash, ((const uint8_t *)text)[at]);
    return LAST_HASH(hash);
}

#define CHUNK(table, number) ((Chunk *)(table)->chunks.data + (number))

/* Put everything into twice as many slots. */
int grow_slots(Slot **slots, uint32_t *num_slots);
int chunks_init(Chunks *chunks);
void chunks_free(Chunks *chunks);
void chunks_forget(Chunks *chunks);

static inline uint32_t chunks_count(const Chunks *chunks) {
    return (uint32_t)(chunks->chunks.size / sizeof(Chunk));
}

static inline uint32_t chunks_num_terms(const Chunks *chunks) {
    return (uint32_t)(chunks->terms.size / sizeof(NumberedTerm));
}

static inline NumberedTerm *chunks_term(const Chunks *chunks, uint32_t number) {
    return (NumberedTerm *)chunks->terms.data + number;
}

/* Whether a stretch of text holds marks or letters of scripts that only the full pattern knows. */
int is_beyond_european(const Run *run);
/* Read a stretch: numbers of its chunks are added to `read`; needs nothing of Python. */
int chunks_read(Chunks *chunks, Run *run, Bytes *read);
/* Ask for the terms of chunks that wait: `of_words` for all plain ones, `of_chunk` for others. */
int chunks_ask(Chunks *chunks, PyObject *of_words, PyObject *of_chunk);
/* Add the numbers of the terms of chunks. */
int chunks_terms(const Chunks *chunks, const uint32_t *read, size_t count, Bytes *terms);

#endif
