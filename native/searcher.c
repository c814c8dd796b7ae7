/* BM25 over segments, documents in windows, by upper bounds (MaxScore; Turtle and Flood 1995).
 *
 * Terms whose bounds together cannot lift a document among the best are looked up only for
 * documents that hold one of the others. Bounds come from the longest count and the shortest length
 * of a block of records. Sums here are rounded as they come; the best documents are summed up
 * again, rounded once, so scores do not depend on the order of terms.
 */
#include "searcher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 1024
#define SLACK (1.0 - 1e-9) /* what rounding may take off a sum */

/* One term in one segment. */
typedef struct {
    Postings postings;
    const double *factors;         /* weight times idf per view, negative where not scored */
    double *bounds, bound;         /* per block, and the largest */
    uint32_t *last, *starts;       /* per block: its last document, where its records begin */
    uint32_t number, at;           /* of the block at hand, and its next document */
    int has_records;               /* whether tfs and views of the block were looked up */
    int is_broken;
    double window_bound;
    Block block;
    uint32_t tfs[BLOCK];
    const uint8_t *views[BLOCK]; /* as in Record */
} Cursor;

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

/* Scores -------------------------------------------------------------------------------------- */

static inline double saturate(double tf, double scaled_norm, double k1) {
    return tf * (k1 + 1.0) / (tf + scaled_norm);
}

/* Look up tfs and views of the block at hand. */
static void look_up_records(Cursor *cursor) {
    cursor->has_records = 1;
    if (block_records(&cursor->block, cursor->tfs, cursor->views) == 0)
        return;
    cursor->is_broken = 1;
    for (uint32_t at = 0; at < BLOCK; at++) {
        cursor->tfs[at] = 1;
        cursor->views[at] = NULL;
    }
}

/* Return the views of a record, NULL where it is as usual, and its tf. */
static inline const uint8_t *views_of(Cursor *cursor, uint32_t at, double *tf) {
    *tf = cursor->block.tfs[at] + 1.0;
    if (!is_unusual(&cursor->block, at))
        return NULL;
    if (!cursor->has_records)
        look_up_records(cursor);
    *tf = cursor->tfs[at];
    return cursor->views[at];
}

/* Put what a term adds to a document into `parts`, and return how many parts there are. */
static inline unsigned parts_of(
    const Search *search, const Segment *segment, Cursor *cursor, uint32_t at, double *parts) {
    const double *factors = cursor->factors;
    uint32_t document = cursor->block.documents[at], usual = segment->footer.default_view;
    unsigned count = 0;
    double own;
    const uint8_t *views = views_of(cursor, at, &own);
    if (factors[WHOLE] >= 0) {
        double norm = search->norms[WHOLE][segment->lengths[document]];
        parts[count++] = factors[WHOLE] * saturate(own, norm, search->k1);
    }
    if (views == NULL) {
        if (factors[usual] >= 0) {
            double norm = search->norms[usual][segment->defaults[document]];
            parts[count++] = factors[usual] * saturate(own, norm, search->k1);
        }
        return count;
    }
    for (unsigned left = *views++; left && count < NUM_VIEWS; left--) {
        uint64_t tf;
        unsigned view = views[0] % MAX_VIEWS, length = views[1];
        views = get_number(views + 2, &tf);
        if (factors[view] >= 0)
            parts[count++] =
                factors[view] * saturate((double)tf, search->norms[view][length], search->k1);
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

double exact_sum(const double *numbers, size_t count, double *partials) {
    size_t size = 0;
    for (size_t each = 0; each < count; each++) {
        double x = numbers[each];
        size_t kept = 0;
        for (size_t at = 0; at < size; at++) {
            double y = partials[at];
            if (fabs(x) < fabs(y)) {
                double swapped = x;
                x = y;
                y = swapped;
            }
            volatile double high = x + y, rest = high - x;
            double low = y - rest;
            if (low != 0.0)
                partials[kept++] = low;
            x = high;
        }
        partials[kept] = x;
        size = kept + 1;
    }
    if (size == 0)
        return 0.0;
    double high = partials[--size], low = 0.0;
    while (size) {
        double x = high, y = partials[--size];
        high = x + y;
        volatile double rest = high - x;
        low = y - rest;
        if (low != 0.0)
            break;
    }
    /* Half-way cases are decided by what is left, so that the sum is rounded once. */
    if (size && ((low < 0.0 && partials[size - 1] < 0.0) || (low > 0.0 && partials[size - 1] > 0.0))) {
        double y = low * 2.0, x = high + y;
        volatile double rest = x - high;
        if (y == rest)
            high = x;
    }
    return high;
}

/* Cursors ------------------------------------------------------------------------------------- */

static int load_block(Cursor *cursor, const Segment *segment, uint32_t number) {
    const Postings *postings = &cursor->postings;
    uint32_t num_blocks = postings->num_blocks ? postings->num_blocks : 1;
    uint32_t count = number + 1 < num_blocks ? BLOCK : postings->df - number * BLOCK;
    size_t start = postings->num_blocks ? cursor->starts[number] : 0;
    int64_t before = number ? (int64_t)cursor->last[number - 1] : -1;
    cursor->number = number;
    cursor->at = 0;
    cursor->has_records = 0;
    if (start > (size_t)(postings->end - postings->blocks))
        return -3;
    return read_block(postings->blocks + start, postings->end, before, count,
                      segment->footer.num_documents, &cursor->block) < 0 ? -3 : 0;
}

/* The first block that ends at a document or behind it. */
static uint32_t find_block(const Cursor *cursor, uint32_t document) {
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

/* Move to the first record that is not before a document; without one, the block is empty. */
static int seek(Cursor *cursor, const Segment *segment, uint32_t document) {
    uint32_t num_blocks = cursor->postings.num_blocks, number = cursor->number;
    int is_here = !num_blocks
        || (number < num_blocks && cursor->last[number] >= document
            && (!number || cursor->last[number - 1] < document));
    if (!is_here) {
        uint32_t block = find_block(cursor, document);
        if (block == num_blocks) {
            cursor->number = num_blocks;
            cursor->at = cursor->block.count = 0;
            return 0;
        }
        int failed = load_block(cursor, segment, block);
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
static void scale_bounds(const Search *search, const Segment *segment, const double *factors, double *worth) {
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

/* Open the postings of a term; 1 where the segment has none. */
static int open_cursor(Cursor *cursor, const Segment *segment, const Wanted *wanted) {
    memset(cursor, 0, offsetof(Cursor, window_bound));
    int64_t number = segment_find_term(segment, wanted->term, wanted->size);
    if (number < 0)
        return 1;
    if (segment_postings(segment, (uint64_t)number, &cursor->postings) < 0)
        return -3;
    uint32_t blocks = cursor->postings.num_blocks;
    if (!blocks)
        return load_block(cursor, segment, 0);
    cursor->bounds = malloc(blocks * sizeof *cursor->bounds);
    cursor->last = malloc(blocks * sizeof *cursor->last);
    cursor->starts = malloc(blocks * sizeof *cursor->starts);
    return cursor->bounds && cursor->last && cursor->starts ? 0 : -1;
}

static int weigh_cursor(Cursor *cursor, const Search *search, const Segment *segment) {
    if (cursor->postings.num_blocks) {
        int failed = read_heads(cursor, search, segment);
        return failed ? failed : load_block(cursor, segment, 0);
    }
    for (uint32_t at = 0; at < cursor->block.count; at++) {
        double score = score_at(search, segment, cursor, at);
        cursor->bound = score > cursor->bound ? score : cursor->bound;
    }
    return 0;
}

static void close_cursor(Cursor *cursor) {
    free(cursor->bounds);
    free(cursor->last);
    free(cursor->starts);
}

/* Add the documents that hold a term to counts per view. */
static void count_views(Cursor *cursor, const Segment *segment, uint64_t *counts) {
    const Postings *postings = &cursor->postings;
    counts[WHOLE] += postings->df;
    for (uint32_t each = 0; each < postings->num_views; each++) {
        uint32_t df;
        memcpy(&df, postings->view_counts + 5 * each + 1, sizeof df);
        counts[postings->view_counts[5 * each] % MAX_VIEWS] += df;
    }
    for (uint32_t at = 0; !postings->num_blocks && at < cursor->block.count; at++) {
        double own;
        const uint8_t *views = views_of(cursor, at, &own);
        uint64_t tf;
        if (views == NULL) {
            counts[segment->footer.default_view]++;
            continue;
        }
        for (unsigned left = *views++; left; left--) {
            counts[*views % MAX_VIEWS]++;
            views = get_number(views + 2, &tf);
        }
    }
}

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

static double bound_in_window(const Cursor *cursor, uint32_t first, uint32_t end) {
    uint32_t num_blocks = cursor->postings.num_blocks;
    if (!num_blocks)
        return cursor->bound;
    double bound = 0.0;
    for (uint32_t block = find_block(cursor, first); block < num_blocks; block++) {
        bound = cursor->bounds[block] > bound ? cursor->bounds[block] : bound;
        if (cursor->last[block] >= end)
            break;
    }
    return bound;
}

static void sort_by_bound(Scan *scan) {
    for (unsigned one = 1; one < scan->count; one++) {
        Cursor *moved = scan->order[one];
        unsigned at = one;
        for (; at && scan->order[at - 1]->window_bound > moved->window_bound; at--)
            scan->order[at] = scan->order[at - 1];
        scan->order[at] = moved;
    }
}

static int add_in_window(Scan *scan, Cursor *cursor, uint32_t first, uint32_t end) {
    const Search *search = scan->state->search;
    int failed = seek(cursor, scan->segment, first);
    while (!failed) {
        for (; cursor->at < cursor->block.count && cursor->block.documents[cursor->at] < end; cursor->at++) {
            uint32_t place = cursor->block.documents[cursor->at] - first;
            double score = score_at(search, scan->segment, cursor, cursor->at);
            scan->sums[place] += score;
            scan->touched[place >> 6] |= (uint64_t)(score > 0.0) << (place & 63);
        }
        if (cursor->at < cursor->block.count || cursor->number + 1 >= cursor->postings.num_blocks)
            break;
        failed = load_block(cursor, scan->segment, cursor->number + 1);
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

/* What a term can add to a document, without looking into its block. */
static inline double bound_at(const Cursor *cursor, uint32_t document) {
    uint32_t number = cursor->number, num_blocks = cursor->postings.num_blocks;
    if (!num_blocks)
        return cursor->bound;
    if (number >= num_blocks || cursor->last[number] < document
        || (number && cursor->last[number - 1] >= document))
        number = find_block(cursor, document);
    return number < num_blocks ? cursor->bounds[number] : 0.0;
}

/* Complete the sum of a document by the terms that were left out, the largest bound first. */
static int complete(Scan *scan, uint32_t document, double sum, unsigned left_out, double rest) {
    double least = threshold(scan->state);
    for (unsigned each = left_out; each-- > 0;) {
        Cursor *cursor = scan->order[each];
        rest -= cursor->window_bound;
        if (sum + rest + bound_at(cursor, document) * (1 + 1e-12) < least)
            return 0;
        int failed = seek(cursor, scan->segment, document);
        if (failed)
            return failed;
        if (cursor->at < cursor->block.count && cursor->block.documents[cursor->at] == document)
            sum += score_at(scan->state->search, scan->segment, cursor, cursor->at);
    }
    return add_candidate(scan, document, sum);
}

static int scan_window(Scan *scan, uint32_t first, uint32_t end) {
    for (unsigned each = 0; each < scan->count; each++)
        scan->order[each]->window_bound = bound_in_window(scan->order[each], first, end);
    sort_by_bound(scan);
    unsigned left_out = 0;
    double rest = 0.0, least = threshold(scan->state);
    while (left_out < scan->count && (rest + scan->order[left_out]->window_bound) * (1 + 1e-12) < least)
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
            if (scan->sums[place] + rest < threshold(scan->state))
                continue;
            if (scan->excluded && scan->excluded[document >> 3] >> (document & 7) & 1)
                continue;
            int failed = complete(scan, document, scan->sums[place], left_out, rest);
            if (failed)
                return failed;
        }
    return 0;
}

static int holds_in_view(Cursor *cursor, const Segment *segment, unsigned view) {
    if (view == WHOLE)
        return 1;
    double own;
    const uint8_t *views = views_of(cursor, cursor->at, &own);
    if (views == NULL)
        return segment->footer.default_view == view;
    for (unsigned left = *views++; left; left--) {
        uint64_t tf;
        if (*views == view)
            return 1;
        views = get_number(views + 2, &tf);
    }
    return 0;
}

static int mark_holders(
    const Search *search, const Segment *segment, const Condition *condition, uint8_t *bits) {
    Wanted wanted = {condition->term, condition->size, NULL, NULL};
    Cursor *cursor = malloc(sizeof *cursor);
    int failed = cursor == NULL ? -1 : open_cursor(cursor, segment, &wanted);
    if (failed == 0 && cursor->postings.num_blocks) {
        double factors[NUM_VIEWS];
        for (unsigned view = 0; view < NUM_VIEWS; view++)
            factors[view] = -1.0; /* nothing is scored */
        cursor->factors = factors;
        failed = read_heads(cursor, search, segment);
        failed = failed ? failed : load_block(cursor, segment, 0);
    }
    while (failed == 0) {
        for (cursor->at = 0; cursor->at < cursor->block.count; cursor->at++) {
            uint32_t document = cursor->block.documents[cursor->at];
            if (holds_in_view(cursor, segment, condition->view))
                bits[document >> 3] |= (uint8_t)(1 << (document & 7));
        }
        if (cursor->number + 1 >= cursor->postings.num_blocks)
            break;
        failed = load_block(cursor, segment, cursor->number + 1);
    }
    if (cursor != NULL)
        close_cursor(cursor);
    free(cursor);
    return failed == 1 ? 0 : failed;
}

/* Collect the documents that cannot be found: gone, not allowed, or against a condition. */
static int exclude(const Search *search, unsigned number, uint8_t **excluded) {
    const Segment *segment = &search->segments[number];
    size_t size = (size_t)(segment->footer.num_documents + 7) / 8;
    *excluded = NULL;
    if (!search->gone[number] && !search->is_restricted && !search->num_conditions)
        return 0;
    uint8_t *bits = *excluded = calloc(size + 1, 1), *marked = calloc(size + 1, 1);
    int failed = bits && marked ? 0 : -1;
    if (!failed && search->gone[number])
        memcpy(bits, search->gone[number], size);
    for (unsigned each = 0; !failed && each < search->num_conditions; each++) {
        memset(marked, 0, size);
        failed = mark_holders(search, segment, &search->conditions[each], marked);
        for (size_t at = 0; at < size; at++)
            bits[at] |= search->conditions[each].is_required ? (uint8_t)~marked[at] : marked[at];
    }
    if (!failed && search->is_restricted) {
        memset(marked, 0, size);
        for (size_t each = 0; each < search->num_allowed; each++) {
            int64_t document = segment_find_row(segment, search->allowed[each]);
            if (document >= 0)
                marked[document >> 3] |= (uint8_t)(1 << (document & 7));
        }
        for (size_t at = 0; at < size; at++)
            bits[at] |= (uint8_t)~marked[at];
    }
    free(marked);
    return failed;
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
            failed = seek(cursor, scan->segment, candidate.document);
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
            int failed = open_cursor(scratch, &search->segments[number], &search->wanted[each]);
            if (failed == 0)
                count_views(scratch, &search->segments[number], counts + each * NUM_VIEWS);
            close_cursor(scratch);
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
            double idf = wanted->idf ? wanted->idf[view]
                                     : log1p((n - (df > n ? n : df) + 0.5) / (df + 0.5));
            factors[each * NUM_VIEWS + view] = weight < 0 ? -1.0 : weight * idf;
        }
}

/* Open the cursors of a segment; `scan` gets those whose terms it holds. */
static int open_all(Scan *scan, Cursor *cursors) {
    const Search *search = scan->state->search;
    scan->count = 0;
    for (unsigned each = 0; each < search->num_wanted; each++) {
        Cursor *cursor = &cursors[scan->count];
        int failed = open_cursor(cursor, scan->segment, &search->wanted[each]);
        scan->count += failed != 1; /* one that failed is closed with the others */
        cursor->factors = scan->state->factors + each * NUM_VIEWS;
        if (failed == 0)
            failed = weigh_cursor(cursor, search, scan->segment);
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
    if (!failed && scan->count && !(failed = exclude(scan->state->search, scan->number, &excluded))) {
        scan->excluded = excluded;
        failed = scan_segment(scan);
    }
    for (unsigned each = 0; each < scan->count; each++) {
        failed = !failed && cursors[each].is_broken ? -3 : failed;
        close_cursor(&cursors[each]);
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
