/* Words of texts in lower case, their runs hashed, and the smallest hashes kept. */
#include "signing.h"

#include <stdlib.h>

#include "texts.h"

#define MOST_BITS 12
#define MOST_INSERTED 64

void signer_free(Signer *signer) {
    bytes_free(&signer->words);
    bytes_free(&signer->starts);
    bytes_free(&signer->ends);
    bytes_free(&signer->hashes);
}

/* Sorting ------------------------------------------------------------------------------------- */

static int compare_hashes(const void *one, const void *other) {
    uint32_t left = *(const uint32_t *)one, right = *(const uint32_t *)other;
    return left < right ? -1 : left > right;
}

static void sort_few(uint32_t *hashes, size_t count) {
    if (count > MOST_INSERTED) {
        qsort(hashes, count, sizeof *hashes, compare_hashes);
        return;
    }
    for (size_t one = 1; one < count; one++) {
        uint32_t hash = hashes[one];
        size_t at = one;
        for (; at && hashes[at - 1] > hash; at--)
            hashes[at] = hashes[at - 1];
        hashes[at] = hash;
    }
}

/* Sort by the first bits, of which there are enough for few hashes to share them. */
void sort_hashes(uint32_t *hashes, uint32_t *scratch, size_t count) {
    uint32_t ends[1 << MOST_BITS] = {0};
    int bits = 1;
    while (bits < MOST_BITS && (size_t)1 << bits < count)
        bits++;
    for (size_t at = 0; at < count; at++)
        ends[hashes[at] >> (32 - bits)]++;
    uint32_t start = 0;
    for (size_t bucket = 0; bucket < (size_t)1 << bits; bucket++) {
        uint32_t own = ends[bucket];
        ends[bucket] = start;
        start += own;
    }
    for (size_t at = 0; at < count; at++)
        scratch[ends[hashes[at] >> (32 - bits)]++] = hashes[at];
    start = 0;
    for (size_t bucket = 0; bucket < (size_t)1 << bits; bucket++) {
        sort_few(scratch + start, ends[bucket] - start);
        start = ends[bucket];
    }
    memcpy(hashes, scratch, count * sizeof *hashes);
}

/* Words --------------------------------------------------------------------------------------- */

/* What a plain byte counts as within words: 0 for none, itself in lower case for others. */
static const uint8_t lowered[128] = {['0'] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9',
    ['A'] = 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q',
    'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', ['_'] = '_', ['a'] = 'a', 'b', 'c', 'd', 'e', 'f',
    'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y',
    'z'};

static uint8_t *put_char(uint8_t *at, Py_UCS4 each) {
    if (each < 128) {
        *at++ = (uint8_t)each;
        return at;
    }
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

/* Take the end of a word, or none, into account; there is room. */
static void end_word(Signer *signer) {
    uint32_t end = (uint32_t)signer->words.size;
    if (!signer->is_in_word)
        return;
    signer->is_in_word = 0;
    memcpy(signer->ends.data + signer->ends.size, &end, sizeof end);
    signer->ends.size += sizeof end;
    signer->words.data[signer->words.size++] = ' ';
}

static void begin_word(Signer *signer) {
    uint32_t start = (uint32_t)signer->words.size;
    if (signer->is_in_word)
        return;
    signer->is_in_word = 1;
    memcpy(signer->starts.data + signer->starts.size, &start, sizeof start);
    signer->starts.size += sizeof start;
}

/* Add the words of plain text: the same as below, faster. */
static void add_plain_words(Signer *signer, const uint8_t *text, size_t size) {
    uint8_t *base = signer->words.data, *out = base + signer->words.size;
    uint32_t *starts = (uint32_t *)(signer->starts.data + signer->starts.size);
    uint32_t *ends = (uint32_t *)(signer->ends.data + signer->ends.size);
    for (size_t at = 0; at < size;) {
        for (; at < size && !lowered[text[at] & 127]; at++)
            ;
        if (at == size)
            break;
        *starts++ = (uint32_t)(out - base);
        while (at < size && lowered[text[at] & 127])
            *out++ = lowered[text[at++] & 127];
        *ends++ = (uint32_t)(out - base);
        *out++ = ' ';
    }
    signer->words.size = (size_t)(out - base);
    signer->starts.size = (size_t)((uint8_t *)starts - signer->starts.data);
    signer->ends.size = (size_t)((uint8_t *)ends - signer->ends.data);
}

/* Add the words of a text, of which so many characters count; 1 where Python has to do it. */
static int add_words(Signer *signer, const Text *text, size_t size) {
    size_t widest = text->kind == 1 ? 2 : text->kind == 2 ? 3 : 4;
    if (bytes_room(&signer->words, widest * size + 16) < 0
        || bytes_room(&signer->starts, 2 * size + 16) < 0
        || bytes_room(&signer->ends, 2 * size + 16) < 0)
        return -1;
    if (text->is_plain) {
        add_plain_words(signer, text->data, size);
        return 0;
    }
    for (size_t at = 0; at < size; at++) {
        Py_UCS4 each = text_at(text, at);
        if (each == 0x130 || each == 0x3a3) /* becomes two letters, or depends on its place */
            return 1;
        if (each < 128)
            each = lowered[each];
        else if (Py_UNICODE_ISALNUM(each = Py_UNICODE_TOLOWER(each)) == 0)
            each = 0;
        if (!each) {
            end_word(signer);
            continue;
        }
        begin_word(signer);
        signer->words.size =
            (size_t)(put_char(signer->words.data + signer->words.size, each) - signer->words.data);
    }
    end_word(signer); /* texts are lines */
    return 0;
}

int sign(Signer *signer, const Text *texts, size_t count, const SignatureForm *form, Bytes *out) {
    size_t left = form->most_characters;
    signer->words.size = signer->starts.size = signer->ends.size = 0;
    signer->is_in_word = 0;
    for (size_t each = 0; each < count && left; each++) {
        size_t own = texts[each].size < left ? texts[each].size : left;
        int failed = add_words(signer, &texts[each], own);
        if (failed)
            return failed;
        left -= own;
        left -= left > 0; /* the line's end */
    }
    size_t num_words = signer->starts.size / sizeof(uint32_t), kept = 0;
    if (num_words < form->least || num_words < form->run)
        return 0;
    signer->hashes.size = 0;
    if (bytes_room(&signer->hashes, signer->starts.size) < 0)
        return -1;
    uint32_t *hashes = (uint32_t *)signer->hashes.data;
    kept = hash_runs(signer->words.data, (uint32_t *)signer->starts.data,
        (const uint32_t *)signer->ends.data, num_words, form->run, hashes);
    kept = kept < form->size ? kept : form->size;
    return bytes_add(out, hashes, kept * sizeof *hashes);
}
