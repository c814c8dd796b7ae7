/* Join neighbouring segments into one, without the documents that are gone. */
#include "merger.h"

#include <stdlib.h>
#include <string.h>

#define GONE UINT32_MAX

typedef struct {
    int64_t *rows;
    uint8_t *lengths, *defaults;
    uint32_t **numbers; /* per segment: the number that each document gets, or GONE */
    uint64_t *at;       /* per segment: its next term */
    uint32_t count;
} Merging;

static void keep_documents(
    Merging *merging, const Segment *segments, const uint8_t *const *gone, unsigned count) {
    for (unsigned each = 0; each < count; each++) {
        const Segment *segment = &segments[each];
        for (uint32_t old = 0; old < segment->footer.num_documents; old++) {
            if (gone[each] && gone[each][old >> 3] >> (old & 7) & 1) {
                merging->numbers[each][old] = GONE;
                continue;
            }
            uint32_t number = merging->count++;
            merging->numbers[each][old] = number;
            merging->rows[number] = segment->rows[old];
            merging->lengths[number] = segment->lengths[old];
            merging->defaults[number] = segment->defaults[old];
        }
    }
}

static int compare(const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size) {
    int order = memcmp(one, other, one_size < other_size ? one_size : other_size);
    return order ? order : (one_size > other_size) - (one_size < other_size);
}

/* Find the least of the segments' next terms; 0 where none has one left. */
static int next_term(const Merging *merging, const Segment *segments, unsigned count,
    const uint8_t **term, size_t *size) {
    int is_found = 0;
    for (unsigned each = 0; each < count; each++) {
        const uint8_t *own;
        if (merging->at[each] >= segments[each].footer.num_terms)
            continue;
        size_t own_size = segment_term(&segments[each], merging->at[each], &own);
        if (!is_found || compare(own, own_size, *term, *size) < 0) {
            *term = own;
            *size = own_size;
            is_found = 1;
        }
    }
    return is_found;
}

typedef struct {
    SegmentWriter *writer;
    const uint32_t *numbers;
} Copying;

static int copy_record(void *given, const Record *record) {
    const Copying *copying = given;
    Record moved = *record;
    moved.document = copying->numbers[record->document];
    return moved.document == GONE ? 0 : writer_add(copying->writer, &moved);
}

static int copy_terms(
    Merging *merging, SegmentWriter *writer, const Segment *segments, unsigned count) {
    const uint8_t *term, *own;
    size_t size;
    int failed = 0;
    while (!failed && next_term(merging, segments, count, &term, &size)) {
        failed = writer_begin_term(writer, term, size);
        for (unsigned each = 0; !failed && each < count; each++) {
            uint64_t at = merging->at[each];
            if (at >= segments[each].footer.num_terms)
                continue;
            size_t own_size = segment_term(&segments[each], at, &own);
            if (compare(own, own_size, term, size))
                continue;
            Copying copying = {writer, merging->numbers[each]};
            failed = segment_each(&segments[each], at, copy_record, &copying);
            merging->at[each]++;
        }
        if (!failed)
            failed = writer_end_term(writer);
    }
    return failed;
}

static int prepare(Merging *merging, const Segment *segments, unsigned count) {
    uint64_t total = 0;
    for (unsigned each = 0; each < count; each++)
        total += segments[each].footer.num_documents;
    merging->rows = malloc((total + 1) * sizeof *merging->rows);
    merging->lengths = malloc(total + 1);
    merging->defaults = malloc(total + 1);
    merging->numbers = calloc(count + 1, sizeof *merging->numbers);
    merging->at = calloc(count + 1, sizeof *merging->at);
    if (!merging->rows || !merging->lengths || !merging->defaults || !merging->numbers
        || !merging->at)
        return -1;
    for (unsigned each = 0; each < count; each++) {
        merging->numbers[each] =
            malloc((segments[each].footer.num_documents + 1) * sizeof(uint32_t));
        if (merging->numbers[each] == NULL)
            return -1;
    }
    return total >= GONE ? -3 : 0;
}

static int write_merged(
    Merging *merging, const Segment *segments, unsigned count, int handle, const Scale *scale) {
    SegmentWriter writer;
    Documents documents = {merging->rows, merging->lengths, merging->defaults, merging->count};
    int failed = writer_begin(&writer, handle, segments[0].footer.default_view, scale, &documents);
    if (!failed)
        failed = copy_terms(merging, &writer, segments, count);
    if (!failed)
        failed = writer_finish(&writer);
    writer_free(&writer);
    return failed;
}

int merge_segments(const Segment *segments, const uint8_t *const *gone, unsigned count, int handle,
    const Scale *scale) {
    Merging merging = {0};
    int failed = prepare(&merging, segments, count);
    if (!failed) {
        keep_documents(&merging, segments, gone, count);
        failed = write_merged(&merging, segments, count, handle, scale);
    }
    for (unsigned each = 0; merging.numbers && each < count; each++)
        free(merging.numbers[each]);
    free(merging.numbers);
    free(merging.rows);
    free(merging.lengths);
    free(merging.defaults);
    free(merging.at);
    return failed;
}
