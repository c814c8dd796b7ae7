/* Segments of postings: which documents hold each term, how often, and in which fields.
 *
 * A segment is one immutable file of some documents, mapped to be searched:
 *
 *   postings   per term, in order of terms:
 *              of a term with more than BLOCK documents, first documents per view, and a head for
 *              each BLOCK of them (see `BlockHead`)
 *              then the blocks (see `read_block`)
 *   rows       int64 per document: its row in the store
 *   lengths    one byte per document: the code of its length
 *   defaults   one byte per document: the code of its length in the default view
 *   terms      `struct TermEntry`, sorted by the bytes of the terms
 *   strings    the terms themselves
 *   footer     `struct Footer`
 *
 * All numbers are little-endian. A *view* is the number of a field among those of the index; a
 * document counts as a whole, too. Lengths are codes of one byte, as in weighting.py.
 *
 * Heads say what a term can add to a score in a block at most: its largest saturation in each view,
 * at the mean lengths that the segment was written with. With longer ones it grows, at most as
 * fast.
 */
#ifndef QUOTH_SEGMENT_H
#define QUOTH_SEGMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 128
#define MAX_VIEWS 32
#define NO_VIEW 255     /* of a field that counts in the whole document alone */
#define WHOLE MAX_VIEWS /* the view of the whole document, behind those of fields */
#define NUM_VIEWS (MAX_VIEWS + 1)
#define MAGIC 0x31747350746f7551ULL /* "QuotPst1" */

/* Bytes that grow. */
typedef struct {
    uint8_t *data;
    size_t size, room;
} Bytes;

int bytes_reserve(Bytes *bytes, size_t more); /* 0, or -1 without memory */
int bytes_add(Bytes *bytes, const void *data, size_t size);
void bytes_free(Bytes *bytes);

/* Have room for more bytes, without a call where there is. */
static inline int bytes_room(Bytes *bytes, size_t more) {
    return bytes->room - bytes->size >= more ? 0 : bytes_reserve(bytes, more);
}

static inline uint8_t *put_number(uint8_t *at, uint64_t number) {
    while (number >= 0x80) {
        *at++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *at++ = (uint8_t)number;
    return at;
}

/* Read a number; it never reads more than ten bytes, which always follow the postings. */
static inline const uint8_t *get_number(const uint8_t *at, uint64_t *number) {
    uint64_t found = *at++;
    if (found < 0x80) {
        *number = found;
        return at;
    }
    found &= 0x7f;
    for (int shift = 7; shift < 64; shift += 7) {
        uint64_t byte = *at++;
        found |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    *number = found;
    return at;
}

typedef struct {
    uint64_t magic;
    uint64_t num_documents, num_terms;
    uint64_t postings_size, rows_at, lengths_at, defaults_at, terms_at, strings_at;
    uint64_t size;         /* of the whole file */
    uint32_t default_view; /* of most words: records say nothing of it */
    uint32_t reserved;
    double averages[NUM_VIEWS]; /* mean lengths that bounds were made with */
} Footer;

typedef struct {
    uint64_t postings; /* where they begin */
    uint32_t string;   /* where its bytes begin; they end where the next term's do */
    uint32_t df;
} TermEntry;

/* Of a block; behind it, one byte for each view in `views`: its largest saturation there. */
typedef struct {
    uint32_t last;  /* the last document in the block */
    uint32_t at;    /* where it begins, counted from the first block of the term */
    uint32_t views; /* bits of the views in which the term stands in any of them */
    uint8_t most;   /* its largest saturation in the whole document */
} BlockHead;
#define HEAD_SIZE 13

/* Read a head, and return where its views' bytes begin; NULL where it is broken. */
static inline const uint8_t *read_head(const uint8_t *at, const uint8_t *end, BlockHead *head) {
    if (end - at < HEAD_SIZE)
        return NULL;
    memcpy(&head->last, at, 4);
    memcpy(&head->at, at + 4, 4);
    memcpy(&head->views, at + 8, 4);
    head->most = at[12];
    at += HEAD_SIZE;
    return end - at < __builtin_popcount(head->views) ? NULL : at;
}
#define SATURATION_STEPS 255.0 /* a byte of saturation counts in so many parts of k1 + 1 */

/* A segment that is mapped. */
typedef struct {
    const uint8_t *data;
    Footer footer;
    const int64_t *rows;
    const uint8_t *lengths, *defaults;
    const TermEntry *terms;
    const uint8_t *strings;
} Segment;

const char *segment_open(Segment *segment, const uint8_t *data, size_t size); /* NULL, or why not */
int64_t segment_find_term(const Segment *segment, const uint8_t *term, size_t size); /* or -1 */
int64_t segment_find_row(const Segment *segment, int64_t row); /* its document, or -1 */
size_t segment_term(const Segment *segment, uint64_t number, const uint8_t **term);

/* What stands of a term in one document. */
typedef struct {
    uint32_t document, tf;
    const uint8_t *views; /* how many, and of each the view, its length code, and a number, its tf;
                           * NULL where all of them stand in the default view */
} Record;

/* Up to BLOCK documents that hold a term:
 *
 *   kind       one byte: bytes per gap (1, 2 or 4), and HAS_VIEWS where some are unusual
 *   gaps       per document, from the one before, less one
 *   tfs        one byte per document, less one; 255 stands for one that the views tell
 *   unusual    two uint64 of bits, where some are
 *   starts     of each of those a uint16: where its views begin, counted from the first
 *   views      of those: where the tf is 255, first the number itself; then as in `Record`
 */
#define HAS_VIEWS 8
#define LARGE_TF 255
typedef struct {
    uint32_t count, documents[BLOCK];
    const uint8_t *tfs, *starts, *views, *end;
    uint64_t unusual[2];
} Block;

/* Read the block behind document `before` (-1: the first); 0, or -1 where it is broken. */
static inline int read_block(const uint8_t *at, const uint8_t *end, int64_t before, uint32_t count,
    uint64_t num_documents, Block *block) {
    block->count = 0;
    if (at >= end)
        return -1;
    unsigned kind = *at++, width = kind & 7;
    size_t size = (size_t)count * (width + 1) + (kind & HAS_VIEWS ? 16 : 0);
    if ((width != 1 && width != 2 && width != 4) || (size_t)(end - at) < size)
        return -1;
    uint64_t document = (uint64_t)before;
    uint32_t *documents = block->documents;
    if (width == 1) {
        uint32_t next = (uint32_t)document;
        for (uint32_t each = 0; each < count; each++)
            documents[each] = next = next + at[each] + 1;
        document += count;
        for (uint32_t each = 0; each < count; each++)
            document += at[each];
    } else
        for (uint32_t each = 0; each < count; each++) {
            uint32_t gap = 0;
            memcpy(&gap, at + each * width, width);
            document += (uint64_t)gap + 1;
            documents[each] = (uint32_t)document;
        }
    if (document >= num_documents)
        return -1;
    at += (size_t)count * width;
    block->tfs = at;
    at += count;
    block->unusual[0] = block->unusual[1] = 0;
    if (kind & HAS_VIEWS) {
        memcpy(block->unusual, at, 16);
        at += 16;
    }
    int num_unusual =
        __builtin_popcountll(block->unusual[0]) + __builtin_popcountll(block->unusual[1]);
    if (end - at < 2 * num_unusual)
        return -1;
    block->starts = at;
    block->views = at + 2 * num_unusual;
    block->end = end;
    block->count = count;
    return 0;
}

static inline int is_unusual(const Block *block, uint32_t at) {
    return block->unusual[at >> 6] >> (at & 63) & 1;
}

/* Find what stands of a record; where that is broken, it counts as usual, and -1 is returned. */
static inline int block_record(const Block *block, uint32_t at, Record *record) {
    record->document = block->documents[at];
    record->tf = (uint32_t)block->tfs[at] + 1;
    record->views = NULL;
    if (!is_unusual(block, at))
        return 0;
    uint64_t before = block->unusual[at >> 6] & ((1ULL << (at & 63)) - 1), number;
    int rank =
        __builtin_popcountll(before) + (at > 63 ? __builtin_popcountll(block->unusual[0]) : 0);
    uint16_t start;
    memcpy(&start, block->starts + 2 * rank, sizeof start);
    if (block->end - block->views < start + 1)
        return -1;
    const uint8_t *views = block->views + start;
    if (block->tfs[at] == LARGE_TF) {
        views = get_number(views, &number);
        record->tf = number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
    }
    if (views >= block->end || *views > MAX_VIEWS)
        return -1;
    record->views = views;
    return 0;
}

/* Postings of one term, from its entry on. */
typedef struct {
    uint32_t df, num_blocks;
    const uint8_t *view_counts; /* of a long list: a view and a uint32, its df, num_views times */
    uint32_t num_views;
    const uint8_t *heads; /* of a long list */
    const uint8_t *blocks, *end;
} Postings;

int segment_postings(const Segment *segment, uint64_t number, Postings *postings); /* 0, or -1 */

/* Hand each record of a term to a function, until it returns anything but 0, which is returned;
 * -3 where the segment is damaged. */
typedef int (*UseRecord)(void *with, const Record *record);
int segment_each(const Segment *segment, uint64_t number, UseRecord use, void *with);

/* What a segment says of documents, by document. */
typedef struct {
    const int64_t *rows;
    const uint8_t *lengths, *defaults;
    uint64_t count;
} Documents;

/* How scores saturate, and with it bounds. */
typedef struct {
    double k1;
    double averages[NUM_VIEWS];
    uint32_t kept_lengths[256]; /* lengths that a code stands for, ascending */
} Scale;

/* Writes a segment: terms in order, of each its records in order, then documents. */
typedef struct {
    int handle; /* of the file */
    uint64_t written;
    Bytes pending, entries, strings, blocks, heads, views;
    uint32_t default_view;
    Documents documents_said;
    const Scale *scale;
    double *norms; /* k1 times the length norm, per view and code */
    /* of the term at hand: */
    uint32_t df, view_counts[MAX_VIEWS];
    int64_t before; /* the last document ahead of the block at hand */
    uint32_t count, documents[BLOCK];
    uint8_t tfs[BLOCK];
    uint16_t starts[BLOCK];
    uint32_t num_unusual;
    uint64_t unusual[2];
    BlockHead head;
    uint8_t most[MAX_VIEWS];
    uint64_t num_terms;
} SegmentWriter;

int writer_begin(SegmentWriter *writer, int handle, uint32_t default_view, const Scale *scale,
    const Documents *documents);
int writer_begin_term(SegmentWriter *writer, const uint8_t *term, size_t size);
int writer_add(SegmentWriter *writer, const Record *record);
int writer_end_term(SegmentWriter *writer); /* a term without documents leaves nothing */
int writer_finish(SegmentWriter *writer);
void writer_free(SegmentWriter *writer);
/* They return 0, -1 without memory, or -2 where the system failed to write (see errno). */

#endif
