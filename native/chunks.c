/* The table of chunks, and reading texts into their numbers. */
#include "chunks.h"

#include <stdlib.h>

#define FIRST_SLOTS (1 << 12)
#define UNASKED 0

/* What a plain byte counts as within words: 0 for none, itself in lower case for others. */
static const unsigned char lowered[128] = {['\''] = '\'', ['0'] = '0', '1', '2', '3', '4', '5', '6',
    '7', '8', '9', ['A'] = 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n',
    'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', ['a'] = 'a', 'b', 'c', 'd', 'e',
    'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x',
    'y', 'z'};

/* Tables -------------------------------------------------------------------------------------- */

int chunks_init(Chunks *chunks) {
    memset(chunks, 0, sizeof *chunks);
    chunks->num_slots = chunks->num_term_slots = FIRST_SLOTS;
    chunks->slots = calloc(FIRST_SLOTS, sizeof *chunks->slots);
    chunks->term_slots = calloc(FIRST_SLOTS, sizeof *chunks->term_slots);
    return chunks->slots && chunks->term_slots ? 0 : -1;
}

void chunks_free(Chunks *chunks) {
    Bytes *owned[] = {&chunks->chunks, &chunks->strings, &chunks->numbers, &chunks->terms,
        &chunks->waiting, &chunks->word};
    for (uint32_t each = 0; each < chunks_num_terms(chunks); each++)
        Py_DECREF(chunks_term(chunks, each)->text);
    for (size_t each = 0; each < sizeof owned / sizeof *owned; each++)
        bytes_free(owned[each]);
    free(chunks->slots);
    free(chunks->term_slots);
    memset(chunks, 0, sizeof *chunks);
}

void chunks_forget(Chunks *chunks) {
    Bytes *emptied[] = {&chunks->chunks, &chunks->strings, &chunks->numbers, &chunks->terms,
        &chunks->waiting};
    for (uint32_t each = 0; each < chunks_num_terms(chunks); each++)
        Py_DECREF(chunks_term(chunks, each)->text);
    for (size_t each = 0; each < sizeof emptied / sizeof *emptied; each++)
        bytes_free(emptied[each]);
    memset(chunks->slots, 0, chunks->num_slots * sizeof *chunks->slots);
    memset(chunks->term_slots, 0, chunks->num_term_slots * sizeof *chunks->term_slots);
}

int grow_slots(Slot **slots, uint32_t *num_slots) {
    uint32_t wanted = *num_slots * 2;
    Slot *grown = wanted ? calloc(wanted, sizeof *grown) : NULL;
    if (grown == NULL)
        return -1;
    for (uint32_t each = 0; each < *num_slots; each++) {
        Slot slot = (*slots)[each];
        uint32_t at = slot.hash & (wanted - 1);
        while (slot.number && grown[at].number)
            at = (at + 1) & (wanted - 1);
        if (slot.number)
            grown[at] = slot;
    }
    free(*slots);
    *slots = grown;
    *num_slots = wanted;
    return 0;
}

/* Take a chunk in, to be asked for; returns its number, or -1 without memory. */
static int64_t take_chunk(
    Chunks *chunks, const uint8_t *text, size_t size, uint32_t hash, uint32_t at) {
    uint32_t number = chunks_count(chunks);
    Chunk fresh = {{0}, chunks->strings.size, hash, (uint32_t)size, 0, UNASKED};
    memcpy(fresh.start, text, size < SHORT ? size : SHORT);
    if (size >= UINT32_MAX || number >= UINT32_MAX - 1
        || bytes_add(&chunks->strings, text, size) < 0
        || bytes_add(&chunks->waiting, &number, sizeof number) < 0
        || bytes_add(&chunks->chunks, &fresh, sizeof fresh) < 0)
        return -1;
    chunks->slots[at] = (Slot){hash, number + 1};
    int is_crowded = (uint64_t)(number + 1) * 2 > chunks->num_slots;
    return is_crowded && grow_slots(&chunks->slots, &chunks->num_slots) < 0 ? -1 : (int64_t)number;
}

static inline int is_chunk(
    const Chunks *chunks, const Chunk *known, const uint8_t *text, size_t size) {
    if (known->size != size)
        return 0;
    if (size > SHORT)
        return memcmp(chunks->strings.data + known->string, text, size) == 0;
    for (size_t at = 0; at < size; at++)
        if (known->start[at] != text[at])
            return 0;
    return 1;
}

/* Find a chunk, or take it in; returns its number, or -1 without memory. */
static inline int64_t find_chunk(
    Chunks *chunks, const uint8_t *text, size_t size, uint32_t hash) {
    uint32_t at = hash & (chunks->num_slots - 1);
    for (; chunks->slots[at].number; at = (at + 1) & (chunks->num_slots - 1)) {
        uint32_t number = chunks->slots[at].number - 1;
        if (chunks->slots[at].hash == hash && is_chunk(chunks, CHUNK(chunks, number), text, size))
            return number;
    }
    return take_chunk(chunks, text, size, hash, at);
}

/* Reading ------------------------------------------------------------------------------------- */

static inline uint32_t char_at(const Run *run, size_t at) {
    return run->kind == 1   ? ((const uint8_t *)run->data)[at]
           : run->kind == 2 ? ((const uint16_t *)run->data)[at]
                            : ((const uint32_t *)run->data)[at];
}

int is_beyond_european(const Run *run) {
    if (run->kind == 1)
        return 0;
    for (size_t at = run->start; at < run->end; at++) {
        uint32_t each = char_at(run, at);
        if (each >= 0x300 && (each < 0x1e00 || each >= 0x2c00))
            return 1;
    }
    return 0;
}

/* Whether a character beyond the plain ones surely belongs to no word: some signs and dashes. */
static inline int is_apart(uint32_t each) {
    return (each >= 0x2010 && each <= 0x2027 && each != 0x2019)
           || (each >= 0xa0 && each <= 0xb1 && each != 0xaa);
}

static uint8_t *put_char(uint8_t *at, uint32_t each) {
    if (each < 0x800)
        *at++ = (uint8_t)(0xc0 | each >> 6);
    else {
        if (each < 0x10000)
            *at++ = (uint8_t)(0xe0 | each >> 12);
        else {
            *at++ = (uint8_t)(0xf0 | each >> 18);
            *at++ = (uint8_t)(0x80 | (each >> 12 & 0x3f));
        }
        *at++ = (uint8_t)(0x80 | (each >> 6 & 0x3f));
    }
    *at++ = (uint8_t)(0x80 | (each & 0x3f));
    return at;
}

enum { PLAIN, OTHER };

/* Copy the next chunk, which begins at `at`; says of what it is made. */
static int copy_chunk(Bytes *word, const Run *run, size_t *at) {
    int made_of = PLAIN;
    word->data[0] = IN_FULL;
    word->size = 1;
    for (; *at < run->end; ++*at) {
        uint32_t each = char_at(run, *at);
        if (each < 128 ? !lowered[each] : is_apart(each))
            break;
        if (bytes_room(word, 8) < 0)
            return -1;
        uint8_t *end = word->data + word->size;
        if (each >= 128) {
            made_of = OTHER;
            word->size = (size_t)(put_char(end, each) - word->data);
            continue;
        }
        *end = run->is_full ? (uint8_t)each : lowered[each];
        word->size++;
    }
    return made_of;
}

/* Add the number of a chunk, for which there must be room. */
static inline int add_chunk(
    Chunks *chunks, const uint8_t *text, size_t size, uint32_t hash, Bytes *read) {
    int64_t number = find_chunk(chunks, text, size, hash);
    uint32_t found = (uint32_t)number;
    memcpy(read->data + read->size, &found, sizeof found);
    read->size += sizeof found;
    return number < 0 ? -1 : 0;
}

/* Add the words of plain bytes; apostrophes belong to them between letters or digits alone. */
static int add_words(Chunks *chunks, const uint8_t *text, size_t size, Bytes *read) {
    for (size_t at = 0; at < size;) {
        size_t end = at;
        while (end < size
               && (text[end] != '\'' || (end > at && end + 1 < size && text[end + 1] != '\'')))
            end++;
        size_t own = end - at;
        if (own && add_chunk(chunks, text + at, own, hash_of(text + at, own), read) < 0)
            return -1;
        at = end + 1;
    }
    return 0;
}

static int add_made(Chunks *chunks, int made_of, const Run *run, Bytes *read) {
    uint8_t *text = chunks->word.data + 1;
    size_t size = chunks->word.size - 1;
    if (made_of == OTHER) {
        text -= run->is_full;
        size += (size_t)run->is_full;
        return add_chunk(chunks, text, size, hash_of(text, size), read);
    }
    for (size_t at = 0; run->is_full && at < size; at++)
        text[at] = lowered[text[at]];
    return add_words(chunks, text, size, read);
}

static int read_any(Chunks *chunks, const Run *run, Bytes *read) {
    for (size_t at = run->start; at < run->end;) {
        uint32_t each = char_at(run, at);
        if (each < 128 ? !lowered[each] : is_apart(each)) {
            at++;
            continue;
        }
        int made_of = copy_chunk(&chunks->word, run, &at);
        if (made_of < 0 || add_made(chunks, made_of, run, read) < 0)
            return -1;
    }
    return 0;
}

/* Do the same with plain text, faster. */
static int read_plain(Chunks *chunks, const Run *run, Bytes *read) {
    const uint8_t *text = (const uint8_t *)run->data + run->start;
    const uint8_t *end = (const uint8_t *)run->data + run->end;
    Bytes *word = &chunks->word;
    while (text < end) {
        uint64_t hash = FIRST_HASH;
        int has_apostrophe = 0;
        uint8_t byte;
        word->size = 0;
        for (; text < end && (byte = lowered[*text & 127]); text++) {
            if (bytes_room(word, 1) < 0)
                return -1;
            word->data[word->size++] = byte;
            hash = NEXT_HASH(hash, byte);
            has_apostrophe |= byte == '\'';
        }
        if (has_apostrophe ? add_words(chunks, word->data, word->size, read) < 0
                           : word->size
                                 && add_chunk(chunks, word->data, word->size, LAST_HASH(hash), read)
                                        < 0)
            return -1;
        text++;
    }
    return 0;
}

int chunks_read(Chunks *chunks, Run *run, Bytes *read) {
    run->first = read->size / sizeof(uint32_t);
    size_t most = (run->end - run->start) / 2 + 1; /* something stands between two chunks */
    if (bytes_room(&chunks->word, 16) < 0 || bytes_room(read, most * sizeof(uint32_t)) < 0)
        return -1;
    int failed = run->is_plain ? read_plain(chunks, run, read) : read_any(chunks, run, read);
    run->last = read->size / sizeof(uint32_t);
    return failed;
}

int chunks_terms(const Chunks *chunks, const uint32_t *read, size_t count, Bytes *terms) {
    const uint32_t *numbers = (const uint32_t *)chunks->numbers.data;
    for (size_t at = 0; at < count; at++) {
        const Chunk *chunk = CHUNK(chunks, read[at]);
        if (bytes_room(terms, (size_t)chunk->count * sizeof *numbers) < 0)
            return -1;
        const uint32_t *own = chunk->count == 1 ? &chunk->first : numbers + chunk->first;
        for (uint32_t each = 0; each < chunk->count; each++) {
            memcpy(terms->data + terms->size, own + each, sizeof *own);
            terms->size += sizeof *own;
        }
    }
    return 0;
}
