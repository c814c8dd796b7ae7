/* Go through what a segment has of one term: block by block, from any document on. */
#include "cursor.h"

#include <math.h>
#include <stdlib.h>

int cursor_load(Cursor *cursor, const Segment *segment, uint32_t number) {
    const Postings *postings = &cursor->postings;
    uint32_t num_blocks = postings->num_blocks ? postings->num_blocks : 1;
    uint32_t count = number + 1 < num_blocks ? BLOCK : postings->df - number * BLOCK;
    size_t start = postings->num_blocks ? cursor->starts[number] : 0;
    int64_t before = number ? (int64_t)cursor->last[number - 1] : -1;
    cursor->number = number;
    cursor->at = 0;
    if (start > (size_t)(postings->end - postings->blocks))
        return -3;
    return read_block(postings->blocks + start, postings->end, before, count,
               segment->footer.num_documents, &cursor->block)
                   < 0
               ? -3
               : 0;
}

/* The first block that ends at a document or behind it. */
uint32_t cursor_find_block(const Cursor *cursor, uint32_t document) {
    uint32_t low = 0, high = cursor->postings.num_blocks;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cursor->last[middle] < document)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int cursor_seek(Cursor *cursor, const Segment *segment, uint32_t document) {
    uint32_t num_blocks = cursor->postings.num_blocks, number = cursor->number;
    int is_here = !num_blocks
                  || (number < num_blocks && cursor->last[number] >= document
                      && (!number || cursor->last[number - 1] < document));
    if (!is_here) {
        uint32_t block = cursor_find_block(cursor, document);
        if (block == num_blocks) {
            cursor->number = num_blocks;
            cursor->at = cursor->block.count = 0;
            return 0;
        }
        int failed = cursor_load(cursor, segment, block);
        if (failed)
            return failed;
    }
    uint32_t at = cursor->at && cursor->block.documents[cursor->at - 1] < document ? cursor->at : 0;
    while (at < cursor->block.count && cursor->block.documents[at] < document)
        at++;
    cursor->at = at;
    return 0;
}

/* What the bytes of saturation count per view: at other mean lengths they are worth more. */
static void scale_bounds(
    const Search *search, const Segment *segment, const double *factors, double *worth) {
    for (unsigned view = 0; view < NUM_VIEWS; view++) {
        double then = segment->footer.averages[view], now = search->averages[view];
        double growth = now <= then ? 1.0 : then > 0 ? now / then : HUGE_VAL;
        double most = factors[view] < 0 ? 0.0 : factors[view] * (search->k1 + 1.0);
        worth[view] = growth > SATURATION_STEPS ? -most : most * growth / SATURATION_STEPS;
    }
}

/* A negative worth stands for one that no byte bounds. */
static inline double bound_by(double worth, uint8_t most) {
    return worth < 0 ? -worth : worth * most;
}

static int read_heads(Cursor *cursor, const Search *search, const Segment *segment) {
    const Postings *postings = &cursor->postings;
    const uint8_t *at = postings->heads;
    double worth[NUM_VIEWS];
    scale_bounds(search, segment, cursor->factors, worth);
    for (uint32_t block = 0; block < postings->num_blocks; block++) {
        BlockHead head;
        if ((at = read_head(at, postings->blocks, &head)) == NULL)
            return -3;
        double bound = bound_by(worth[WHOLE], head.most);
        for (uint32_t views = head.views; views; views &= views - 1)
            bound += bound_by(worth[__builtin_ctz(views)], *at++);
        cursor->last[block] = head.last;
        cursor->starts[block] = head.at;
        if (block && head.last <= cursor->last[block - 1])
            return -3;
        cursor->bounds[block] = bound;
        if (bound > cursor->bound)
            cursor->bound = bound;
    }
    return 0;
}

int cursor_open(Cursor *cursor, const Segment *segment, const Wanted *wanted) {
    memset(cursor, 0, offsetof(Cursor, window_bound));
    int64_t number = segment_find_term(segment, wanted->term, wanted->size);
    if (number < 0)
        return 1;
    if (segment_postings(segment, (uint64_t)number, &cursor->postings) < 0)
        return -3;
    uint32_t blocks = cursor->postings.num_blocks;
    if (!blocks)
        return cursor_load(cursor, segment, 0);
    cursor->bounds = malloc(blocks * sizeof *cursor->bounds);
    cursor->last = malloc(blocks * sizeof *cursor->last);
    cursor->starts = malloc(blocks * sizeof *cursor->starts);
    return cursor->bounds && cursor->last && cursor->starts ? 0 : -1;
}

int cursor_weigh(Cursor *cursor, const Search *search, const Segment *segment) {
    if (cursor->postings.num_blocks) {
        int failed = read_heads(cursor, search, segment);
        return failed ? failed : cursor_load(cursor, segment, 0);
    }
    for (uint32_t at = 0; at < cursor->block.count; at++) {
        double score = score_at(search, segment, cursor, at);
        cursor->bound = score > cursor->bound ? score : cursor->bound;
    }
    return 0;
}

void cursor_close(Cursor *cursor) {
    free(cursor->bounds);
    free(cursor->last);
    free(cursor->starts);
}

void cursor_count_views(Cursor *cursor, const Segment *segment, uint64_t *counts) {
    const Postings *postings = &cursor->postings;
    counts[WHOLE] += postings->df;
    for (uint32_t each = 0; each < postings->num_views; each++) {
        uint32_t df;
        memcpy(&df, postings->view_counts + 5 * each + 1, sizeof df);
        counts[postings->view_counts[5 * each] % MAX_VIEWS] += df;
    }
    for (uint32_t at = 0; !postings->num_blocks && at < cursor->block.count; at++) {
        Record record;
        unsigned view, length;
        double tf;
        read_at(cursor, at, &record);
        if (record.views == NULL) {
            counts[segment->footer.default_view]++;
            continue;
        }
        const uint8_t *next = record.views + 1;
        for (unsigned left = *record.views; left; left--) {
            next = next_view(cursor, next, &view, &length, &tf);
            counts[view]++;
        }
    }
}

double cursor_bound_between(const Cursor *cursor, uint32_t first, uint32_t end) {
    uint32_t num_blocks = cursor->postings.num_blocks;
    if (!num_blocks)
        return cursor->bound;
    double bound = 0.0;
    for (uint32_t block = cursor_find_block(cursor, first); block < num_blocks; block++) {
        bound = cursor->bounds[block] > bound ? cursor->bounds[block] : bound;
        if (cursor->last[block] >= end)
            break;
    }
    return bound;
}
