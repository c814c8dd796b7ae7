/* BM25 over segments, documents in windows, by upper bounds (MaxScore; Turtle and Flood 1995).
 *
 * Terms whose bounds together cannot lift a document among the best are looked up only for
 * documents that hold one of the others. Bounds come from the longest count and the shortest length
 * of a block of records. Sums here are rounded as they come; the best documents are summed up
 * again, rounded once, so scores do not depend on the order of terms.
 */
#include "cursor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 1024
#define SLACK (1.0 - 1e-9) /* what rounding may take off a sum */

typedef struct {
    uint32_t segment, document;
    double score;
} Candidate;

typedef struct {
    const Search *search;
    double *factors; /* per wanted term and view */
    double *heap;    /* the k best scores so far, the least first */
    size_t heap_size;
    Bytes candidates;
} State;

/* The best so far ----------------------------------------------------------------------------- */

static double threshold(const State *state) {
    return state->heap_size < state->search->k ? 0.0 : state->heap[0] * SLACK;
}

static void push(State *state, double score) {
    size_t k = state->search->k, at, child;
    double *heap = state->heap;
    if (state->heap_size < k) {
        for (at = state->heap_size++; at && heap[(at - 1) / 2] > score; at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
        heap[at] = score;
        return;
    }
    if (score <= heap[0])
        return;
    for (at = 0; (child = 2 * at + 1) < k; at = child) {
        if (child + 1 < k && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= score)
            break;
        heap[at] = heap[child];
    }
    heap[at] = score;
}

/* One segment --------------------------------------------------------------------------------- */

typedef struct {
    State *state;
    const Segment *segment;
    uint32_t number;
    Cursor **order; /* those of the segment's terms */
    unsigned count;
    const uint8_t *excluded; /* bits of documents that cannot be found, or NULL */
    double sums[WINDOW];
    uint64_t touched[WINDOW / 64];
} Scan;

static void sort_by_bound(Scan *scan) {
    for (unsigned one = 1; one < scan->count; one++) {
        Cursor *moved = scan->order[one];
        unsigned at = one;
        for (; at && scan->order[at - 1]->window_bound > moved->window_bound; at--)
            scan->order[at] = scan->order[at - 1];
        scan->order[at] = moved;
    }
}

/* Add what a term gives to documents before `end`, of the block at hand. */
static void add_block(Scan *scan, Cursor *cursor, uint32_t first, uint32_t end) {
    const Search *search = scan->state->search;
    const Block *block = &cursor->block;
    const uint8_t *lengths = scan->segment->lengths;
    const double *norms = search->norms[WHOLE], factor = cursor->factors[WHOLE], k1 = search->k1;
    int is_plain = factor >= 0 && cursor->factors[scan->segment->footer.default_view] < 0;
    uint32_t at = cursor->at, count = block->count;
    for (; at < count && block->documents[at] < end; at++) {
        uint32_t document = block->documents[at], place = document - first;
        double score;
        if (is_plain && !is_unusual(block, at)) /* the same as below, without the detour */
            score = factor * saturate(block->tfs[at] + 1.0, norms[lengths[document]], k1);
        else
            score = score_at(search, scan->segment, cursor, at);
        scan->sums[place] += score;
        scan->touched[place >> 6] |= (uint64_t)(score > 0.0) << (place & 63);
    }
    cursor->at = at;
}

static int add_in_window(Scan *scan, Cursor *cursor, uint32_t first, uint32_t end) {
    int failed = cursor_seek(cursor, scan->segment, first);
    while (!failed) {
        add_block(scan, cursor, first, end);
        if (cursor->at < cursor->block.count || cursor->number + 1 >= cursor->postings.num_blocks)
            break;
        failed = cursor_load(cursor, scan->segment, cursor->number + 1);
    }
    return failed;
}

static int add_candidate(Scan *scan, uint32_t document, double score) {
    Candidate candidate = {scan->number, document, score};
    if (score <= 0.0 || score < threshold(scan->state))
        return 0;
    push(scan->state, score);
    return bytes_add(&scan->state->candidates, &candidate, sizeof candidate);
}

/* Complete the sum of a document by the terms that were left out, the largest bound first. */
static int complete(Scan *scan, uint32_t document, double sum, unsigned left_out, double rest) {
    double least = threshold(scan->state);
    for (unsigned each = left_out; each-- > 0;) {
        Cursor *cursor = scan->order[each];
        rest -= cursor->window_bound;
        if (sum + rest + bound_at(cursor, document) * (1 + 1e-12) < least)
            return 0;
        int failed = cursor_seek(cursor, scan->segment, document);
        if (failed)
            return failed;
        if (cursor->at < cursor->block.count && cursor->block.documents[cursor->at] == document)
            sum += score_at(scan->state->search, scan->segment, cursor, cursor->at);
    }
    return add_candidate(scan, document, sum);
}

static int scan_window(Scan *scan, uint32_t first, uint32_t end) {
    for (unsigned each = 0; each < scan->count; each++)
        scan->order[each]->window_bound = cursor_bound_between(scan->order[each], first, end);
    sort_by_bound(scan);
    unsigned left_out = 0;
    double rest = 0.0, least = threshold(scan->state);
    while (left_out < scan->count
           && (rest + scan->order[left_out]->window_bound) * (1 + 1e-12) < least)
        rest += scan->order[left_out++]->window_bound;
    rest *= 1 + 1e-12; /* sums are rounded */
    if (left_out == scan->count)
        return 0;
    memset(scan->sums, 0, sizeof scan->sums);
    memset(scan->touched, 0, sizeof scan->touched);
    for (unsigned each = left_out; each < scan->count; each++) {
        int failed = add_in_window(scan, scan->order[each], first, end);
        if (failed)
            return failed;
    }
    for (unsigned word = 0; word < WINDOW / 64; word++)
        for (uint64_t bits = scan->touched[word]; bits; bits &= bits - 1) {
            unsigned place = word * 64 + (unsigned)__builtin_ctzll(bits);
            uint32_t document = first + place;
            if (scan->sums[place] + rest < least)
                continue;
            if (scan->excluded && scan->excluded[document >> 3] >> (document & 7) & 1)
                continue;
            int failed = complete(scan, document, scan->sums[place], left_out, rest);
            if (failed)
                return failed;
            least = threshold(scan->state);
        }
    return 0;
}

/* Sum up again, rounded once, what may be among the best of the segment at hand. */
static int settle(Scan *scan, size_t first) {
    const Search *search = scan->state->search;
    Bytes *candidates = &scan->state->candidates;
    size_t room = (size_t)scan->count * NUM_VIEWS + 1, kept = first;
    double *parts = malloc(2 * room * sizeof *parts), least = threshold(scan->state);
    int failed = parts == NULL ? -1 : 0;
    size_t num = candidates->size / sizeof(Candidate);
    for (size_t at = first; !failed && at < num; at++) {
        Candidate candidate = ((Candidate *)candidates->data)[at];
        size_t count = 0;
        if (candidate.score < least)
            continue;
        for (unsigned each = 0; !failed && each < scan->count; each++) {
            Cursor *cursor = scan->order[each];
            failed = cursor_seek(cursor, scan->segment, candidate.document);
            if (!failed && cursor->at < cursor->block.count
                && cursor->block.documents[cursor->at] == candidate.document)
                count += parts_of(search, scan->segment, cursor, cursor->at, parts + count);
        }
        candidate.score = exact_sum(parts, count, parts + room);
        ((Candidate *)candidates->data)[kept++] = candidate;
    }
    if (!failed)
        candidates->size = kept * sizeof(Candidate);
    free(parts);
    return failed;
}

static int scan_segment(Scan *scan) {
    uint64_t count = scan->segment->footer.num_documents;
    size_t before = scan->state->candidates.size / sizeof(Candidate);
    int failed = 0;
    for (uint64_t first = 0; !failed && first < count; first += WINDOW) {
        uint64_t end = first + WINDOW < count ? first + WINDOW : count;
        failed = scan_window(scan, (uint32_t)first, (uint32_t)end);
    }
    return failed ? failed : settle(scan, before);
}

/* All segments -------------------------------------------------------------------------------- */

/* Count, for each wanted term, the documents of all segments that hold it, per view. */
static int count_all(const Search *search, Cursor *scratch, uint64_t *counts) {
    for (unsigned number = 0; number < search->num_segments; number++)
        for (unsigned each = 0; each < search->num_wanted; each++) {
            if (search->wanted[each].idf)
                continue;
            int failed = cursor_open(scratch, &search->segments[number], &search->wanted[each]);
            if (failed == 0)
                cursor_count_views(scratch, &search->segments[number], counts + each * NUM_VIEWS);
            cursor_close(scratch);
            if (failed < 0)
                return failed;
        }
    return 0;
}

/* Weight times idf, as score.py has them: ln(1 + (N - df + 1/2) / (df + 1/2)). */
static void make_factors(const Search *search, const uint64_t *counts, double *factors) {
    double n = (double)search->num_documents;
    for (unsigned each = 0; each < search->num_wanted; each++)
        for (unsigned view = 0; view < NUM_VIEWS; view++) {
            const Wanted *wanted = &search->wanted[each];
            double df = (double)counts[each * NUM_VIEWS + view], weight = wanted->weights[view];
            double idf =
                wanted->idf ? wanted->idf[view] : log1p((n - (df > n ? n : df) + 0.5) / (df + 0.5));
            factors[each * NUM_VIEWS + view] = weight < 0 ? -1.0 : weight * idf;
        }
}

/* Open the cursors of a segment; `scan` gets those whose terms it holds. */
static int open_all(Scan *scan, Cursor *cursors) {
    const Search *search = scan->state->search;
    scan->count = 0;
    for (unsigned each = 0; each < search->num_wanted; each++) {
        Cursor *cursor = &cursors[scan->count];
        int failed = cursor_open(cursor, scan->segment, &search->wanted[each]);
        scan->count += failed != 1; /* one that failed is closed with the others */
        cursor->factors = scan->state->factors + each * NUM_VIEWS;
        if (failed == 0)
            failed = cursor_weigh(cursor, search, scan->segment);
        if (failed < 0)
            return failed;
    }
    return 0;
}

static int scan_one(Scan *scan, Cursor *cursors) {
    uint8_t *excluded = NULL;
    int failed = open_all(scan, cursors);
    for (unsigned each = 0; each < scan->count; each++)
        scan->order[each] = &cursors[each];
    if (!failed && scan->count
        && !(failed = exclude(scan->state->search, scan->number, &excluded))) {
        scan->excluded = excluded;
        failed = scan_segment(scan);
    }
    for (unsigned each = 0; each < scan->count; each++) {
        failed = !failed && cursors[each].is_broken ? -3 : failed;
        cursor_close(&cursors[each]);
    }
    free(excluded);
    return failed;
}

static int compare_candidates(const void *one, const void *other) {
    const Candidate *left = one, *right = other;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    if (left->segment != right->segment)
        return left->segment < right->segment ? -1 : 1;
    return left->document < right->document ? -1 : left->document > right->document;
}

static int take_best(State *state, Bytes *found) {
    const Search *search = state->search;
    Candidate *candidates = (Candidate *)state->candidates.data;
    size_t count = state->candidates.size / sizeof *candidates;
    if (count)
        qsort(candidates, count, sizeof *candidates, compare_candidates);
    for (size_t at = 0; at < count; at++) {
        const Segment *segment = &search->segments[candidates[at].segment];
        Found each = {segment->rows[candidates[at].document], candidates[at].score};
        if (at >= search->k && candidates[at].score < candidates[search->k - 1].score)
            break;
        if (bytes_add(found, &each, sizeof each) < 0)
            return -1;
    }
    return 0;
}

int search_segments(const Search *search, Bytes *found) {
    State state = {.search = search};
    unsigned num = search->num_wanted + 1;
    Scan *scan = calloc(1, sizeof *scan);
    Cursor *cursors = malloc(num * sizeof *cursors);
    uint64_t *counts = calloc((size_t)num * NUM_VIEWS, sizeof *counts);
    Cursor **order = malloc(num * sizeof *order);
    state.factors = malloc((size_t)num * NUM_VIEWS * sizeof *state.factors);
    state.heap = malloc((search->k + 1) * sizeof *state.heap);
    int failed = scan && cursors && counts && order && state.factors && state.heap ? 0 : -1;
    if (!failed && search->k && !(failed = count_all(search, cursors, counts))) {
        make_factors(search, counts, state.factors);
        for (unsigned number = 0; !failed && number < search->num_segments; number++) {
            scan->state = &state;
            scan->segment = &search->segments[number];
            scan->number = number;
            scan->order = order;
            scan->excluded = NULL;
            failed = scan_one(scan, cursors);
        }
        failed = failed ? failed : take_best(&state, found);
    }
    free(scan);
    free(cursors);
    free(counts);
    free(order);
    free(state.factors);
    free(state.heap);
    bytes_free(&state.candidates);
    return failed;
}
