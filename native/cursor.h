/* Goes through what a segment has of one term, and scores it. */
#ifndef QUOTH_CURSOR_H
#define QUOTH_CURSOR_H

#include "searcher.h"

/* One term in one segment. */
typedef struct {
    Postings postings;
    const double *factors;   /* weight times idf per view, negative where not scored */
    double *bounds, bound;   /* per block, and the largest */
    uint32_t *last, *starts; /* per block: its last document, where its records begin */
    uint32_t number, at;     /* of the block at hand, and its next document */
    int is_broken;           /* whether a record could not be read */
    double window_bound;
    Block block;
} Cursor;

/* Open the postings of a term; 1 where the segment has none. */
int cursor_open(Cursor *cursor, const Segment *segment, const Wanted *wanted);
/* Find out what the term adds at most, once `factors` are there. */
int cursor_weigh(Cursor *cursor, const Search *search, const Segment *segment);
void cursor_close(Cursor *cursor);
int cursor_load(Cursor *cursor, const Segment *segment, uint32_t number);
/* Move to the first record that is not before a document; without one, the block is empty. */
int cursor_seek(Cursor *cursor, const Segment *segment, uint32_t document);
uint32_t cursor_find_block(const Cursor *cursor, uint32_t document);
/* Add the documents that hold the term to counts per view. */
void cursor_count_views(Cursor *cursor, const Segment *segment, uint64_t *counts);
double cursor_bound_between(const Cursor *cursor, uint32_t first, uint32_t end);
/* They return 0, -1 without memory, or -3 where the segment is damaged. */

/* Mark the documents of a segment that cannot be found: gone, not allowed, or against a condition;
 * `excluded` stays NULL where there are none. */
int exclude(const Search *search, unsigned number, uint8_t **excluded);

static inline double saturate(double tf, double scaled_norm, double k1) {
    return tf * (k1 + 1.0) / (tf + scaled_norm);
}

static inline void read_at(Cursor *cursor, uint32_t at, Record *record) {
    if (block_record(&cursor->block, at, record) < 0)
        cursor->is_broken = 1;
}

/* Read the next view of a record: its number, its length code and its tf. */
static inline const uint8_t *next_view(
    const Cursor *cursor, const uint8_t *at, unsigned *view, unsigned *length, double *tf) {
    uint64_t number;
    if (cursor->block.end - at < 3) { /* broken; nothing is read beyond the end */
        *view = *length = 0;
        *tf = 1.0;
        return at;
    }
    *view = at[0] % MAX_VIEWS;
    *length = at[1];
    at = get_number(at + 2, &number);
    *tf = (double)number;
    return at;
}

/* Put what a term adds to a document into `parts`, and return how many parts there are. */
static inline unsigned parts_of(
    const Search *search, const Segment *segment, Cursor *cursor, uint32_t at, double *parts) {
    const double *factors = cursor->factors;
    unsigned count = 0, usual = segment->footer.default_view, view, length;
    double tf;
    Record record;
    read_at(cursor, at, &record);
    if (factors[WHOLE] >= 0) {
        double norm = search->norms[WHOLE][segment->lengths[record.document]];
        parts[count++] = factors[WHOLE] * saturate(record.tf, norm, search->k1);
    }
    if (record.views == NULL) {
        if (factors[usual] >= 0) {
            double norm = search->norms[usual][segment->defaults[record.document]];
            parts[count++] = factors[usual] * saturate(record.tf, norm, search->k1);
        }
        return count;
    }
    const uint8_t *next = record.views + 1;
    for (unsigned left = *record.views; left; left--) {
        next = next_view(cursor, next, &view, &length, &tf);
        if (factors[view] >= 0)
            parts[count++] = factors[view] * saturate(tf, search->norms[view][length], search->k1);
    }
    return count;
}

static inline double score_at(
    const Search *search, const Segment *segment, Cursor *cursor, uint32_t at) {
    double parts[NUM_VIEWS], sum = 0.0;
    unsigned count = parts_of(search, segment, cursor, at, parts);
    for (unsigned each = 0; each < count; each++)
        sum += parts[each];
    return sum;
}

/* What a term can add to a document, without looking into its block. */
static inline double bound_at(const Cursor *cursor, uint32_t document) {
    uint32_t number = cursor->number, num_blocks = cursor->postings.num_blocks;
    if (!num_blocks)
        return cursor->bound;
    if (number >= num_blocks || cursor->last[number] < document
        || (number && cursor->last[number - 1] >= document))
        number = cursor_find_block(cursor, document);
    return number < num_blocks ? cursor->bounds[number] : 0.0;
}

#endif
