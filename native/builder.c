/* Collect documents in memory: a hash table of terms, and each one's records in linked pieces. */
#include "builder.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define FIRST_PIECE 12
#define LARGEST_PIECE 1024
#define LINK 4 /* bytes behind a piece that say where the next one is */

#define TERMS(builder) ((Term *)(builder)->terms.data)
#define NUM_TERMS(builder) ((uint32_t)((builder)->terms.size / sizeof(Term)))
#define MET(builder) ((MetTerm *)(builder)->met.data)
#define NUM_MET(builder) ((uint32_t)((builder)->met.size / sizeof(MetTerm)))

int builder_init(Builder *builder, const uint32_t *kept_lengths, uint32_t default_view) {
    memset(builder, 0, sizeof *builder);
    memcpy(builder->kept_lengths, kept_lengths, sizeof builder->kept_lengths);
    builder->default_view = default_view;
    builder->num_slots = 1 << 12;
    builder->slots = calloc(builder->num_slots, sizeof *builder->slots);
    return builder->slots == NULL ? -1 : 0;
}

void builder_free(Builder *builder) {
    Bytes *owned[] = {&builder->terms, &builder->strings, &builder->pool, &builder->rows,
        &builder->lengths, &builder->defaults, &builder->met};
    for (size_t each = 0; each < sizeof owned / sizeof *owned; each++)
        bytes_free(owned[each]);
    free(builder->slots);
    memset(builder, 0, sizeof *builder);
}

size_t builder_size(const Builder *builder) {
    return builder->pool.size + builder->strings.size + builder->terms.size + builder->rows.size;
}

uint32_t builder_num_documents(const Builder *builder) {
    return (uint32_t)builder->lengths.size;
}

/* Terms --------------------------------------------------------------------------------------- */

static uint32_t hash_of(const uint8_t *text, size_t size) {
    uint64_t hash = 14695981039346656037ULL;
    for (size_t at = 0; at < size; at++)
        hash = (hash ^ text[at]) * 1099511628211ULL;
    return (uint32_t)(hash ^ hash >> 32);
}

static int grow(Builder *builder) {
    uint32_t count = builder->num_slots * 2;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return -1;
    for (uint32_t number = 0; number < NUM_TERMS(builder); number++) {
        uint32_t at = TERMS(builder)[number].hash & (count - 1);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = number + 1;
    }
    free(builder->slots);
    builder->slots = slots;
    builder->num_slots = count;
    return 0;
}

static int64_t find_or_add(Builder *builder, const uint8_t *text, size_t size) {
    uint32_t hash = hash_of(text, size), at = hash & (builder->num_slots - 1);
    for (; builder->slots[at]; at = (at + 1) & (builder->num_slots - 1)) {
        const Term *term = &TERMS(builder)[builder->slots[at] - 1];
        if (term->hash == hash && term->string_size == size
            && memcmp(builder->strings.data + term->string, text, size) == 0)
            return builder->slots[at] - 1;
    }
    uint32_t number = NUM_TERMS(builder);
    Term fresh = {hash, (uint32_t)builder->strings.size, (uint32_t)size, NONE, 0, 0, 0, 0, NONE};
    if (bytes_add(&builder->strings, text, size) < 0
        || bytes_add(&builder->terms, &fresh, sizeof fresh) < 0)
        return -1;
    builder->slots[at] = number + 1;
    if ((uint64_t)(number + 1) * 2 > builder->num_slots && grow(builder) < 0)
        return -1;
    return number;
}

/* Documents ----------------------------------------------------------------------------------- */

void builder_begin(Builder *builder) {
    builder->met.size = 0;
    builder->length = 0;
    memset(builder->view_lengths, 0, sizeof builder->view_lengths);
}

static MetTerm *meet(Builder *builder, uint32_t number) {
    Term *term = &TERMS(builder)[number];
    if (term->met == NONE) {
        term->met = NUM_MET(builder);
        if (bytes_reserve(&builder->met, sizeof(MetTerm)) < 0)
            return NULL;
        builder->met.size += sizeof(MetTerm);
        MetTerm *met = &MET(builder)[term->met];
        met->term = number;
        met->tf = met->num_views = 0;
    }
    return &MET(builder)[term->met];
}

static int count_term(Builder *builder, const uint8_t *text, size_t size, uint8_t view) {
    int64_t number = find_or_add(builder, text, size);
    MetTerm *met = number < 0 ? NULL : meet(builder, (uint32_t)number);
    if (met == NULL)
        return -1;
    met->tf++;
    if (view == NO_VIEW)
        return 0;
    uint32_t at = 0;
    while (at < met->num_views && met->views[at] != view)
        at++;
    if (at == met->num_views) {
        met->views[met->num_views++] = view;
        met->tfs[at] = 0;
    }
    met->tfs[at]++;
    return 0;
}

int builder_text(Builder *builder, const uint8_t *text, size_t size, uint8_t view) {
    const uint8_t *end = text + size;
    while (text < end) {
        const uint8_t *next = memchr(text, ' ', (size_t)(end - text));
        size_t length = (size_t)((next ? next : end) - text);
        if (length) {
            if (count_term(builder, text, length, view) < 0)
                return -1;
            builder->length++;
            if (view != NO_VIEW)
                builder->view_lengths[view]++;
        }
        text += length + 1;
    }
    return 0;
}

static uint8_t code_of(const Builder *builder, uint64_t length) {
    unsigned low = 0, high = 256; /* the last that is no longer */
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (builder->kept_lengths[middle] <= length)
            low = middle;
        else
            high = middle;
    }
    return (uint8_t)low;
}

static int add_piece(Builder *builder, Term *term) {
    uint32_t size = term->piece_size ? term->piece_size * 2 : FIRST_PIECE;
    uint32_t start = (uint32_t)builder->pool.size;
    term->piece_size = size = size > LARGEST_PIECE ? LARGEST_PIECE : size;
    if (bytes_reserve(&builder->pool, size + LINK) < 0)
        return -1;
    builder->pool.size += size + LINK;
    if (term->head == NONE)
        term->head = start;
    else
        memcpy(builder->pool.data + term->piece_end, &start, LINK);
    term->tail = start;
    term->piece_end = start + size;
    return 0;
}

static int append(Builder *builder, Term *term, const uint8_t *data, size_t size) {
    while (size) {
        if ((term->head == NONE || term->tail == term->piece_end) && add_piece(builder, term) < 0)
            return -1;
        size_t room = term->piece_end - term->tail, part = size < room ? size : room;
        memcpy(builder->pool.data + term->tail, data, part);
        term->tail += (uint32_t)part;
        data += part;
        size -= part;
    }
    return 0;
}

/* Views stand in order, so that the same document always gives the same bytes. */
static void sort_views(MetTerm *met) {
    for (uint32_t one = 1; one < met->num_views; one++)
        for (uint32_t at = one; at && met->views[at - 1] > met->views[at]; at--) {
            uint8_t view = met->views[at];
            uint32_t tf = met->tfs[at];
            met->views[at] = met->views[at - 1];
            met->tfs[at] = met->tfs[at - 1];
            met->views[at - 1] = view;
            met->tfs[at - 1] = tf;
        }
}

static int add_record(Builder *builder, MetTerm *met, uint32_t document) {
    uint8_t record[32 + 7 * MAX_VIEWS], *at = record;
    Term *term = &TERMS(builder)[met->term];
    int is_usual =
        met->num_views == 1 && met->views[0] == builder->default_view && met->tfs[0] == met->tf;
    uint64_t gap = document - term->next_document;
    at = put_number(at, gap << 2 | (uint64_t)(met->tf > 1) << 1 | (uint64_t)is_usual);
    if (met->tf > 1)
        at = put_number(at, met->tf);
    if (!is_usual) {
        sort_views(met);
        *at++ = (uint8_t)met->num_views;
        for (uint32_t each = 0; each < met->num_views; each++) {
            *at++ = met->views[each];
            *at++ = code_of(builder, builder->view_lengths[met->views[each]]);
            at = put_number(at, met->tfs[each]);
        }
    }
    term->next_document = document + 1;
    term->met = NONE;
    return append(builder, term, record, (size_t)(at - record));
}

int builder_end(Builder *builder, int64_t row) {
    uint32_t document = builder_num_documents(builder);
    for (uint32_t each = 0; each < NUM_MET(builder); each++)
        if (add_record(builder, &MET(builder)[each], document) < 0)
            return -1;
    uint8_t length = code_of(builder, builder->length);
    uint8_t in_default = code_of(builder, builder->view_lengths[builder->default_view]);
    builder->totals[WHOLE] += builder->length;
    for (unsigned view = 0; view < MAX_VIEWS; view++)
        builder->totals[view] += builder->view_lengths[view];
    if (bytes_add(&builder->rows, &row, sizeof row) < 0
        || bytes_add(&builder->lengths, &length, sizeof length) < 0)
        return -1;
    return bytes_add(&builder->defaults, &in_default, sizeof in_default);
}

/* The segment --------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *string;
    uint32_t size, number;
} SortedTerm;

static int compare_terms(const void *one, const void *other) {
    const SortedTerm *left = one, *right = other;
    uint32_t size = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->string, right->string, size);
    return order ? order : (left->size > right->size) - (left->size < right->size);
}

static int gather(const Builder *builder, const Term *term, Bytes *records) {
    uint32_t at = term->head, size = FIRST_PIECE;
    records->size = 0;
    while (at != NONE) {
        int is_last = at + size == term->piece_end;
        if (bytes_add(records, builder->pool.data + at, is_last ? term->tail - at : size) < 0)
            return -1;
        if (is_last)
            break;
        memcpy(&at, builder->pool.data + at + size, LINK);
        size = size * 2 > LARGEST_PIECE ? LARGEST_PIECE : size * 2;
    }
    static const uint8_t zeros[16];
    return bytes_add(records, zeros, sizeof zeros); /* reading a number never leaves them */
}

/* Read a record of the pool; the views of an unusual one begin with how many there are. */
static const uint8_t *read_record(const uint8_t *at, int64_t before, Record *record) {
    uint64_t number, tf = 1;
    at = get_number(at, &number);
    if (number & 2)
        at = get_number(at, &tf);
    record->document = (uint32_t)(before + 1 + (int64_t)(number >> 2));
    record->tf = (uint32_t)tf;
    record->views = NULL;
    if (number & 1)
        return at;
    record->views = at++;
    for (unsigned left = record->views[0]; left; left--)
        at = get_number(at + 2, &tf);
    return at;
}

static int write_term(
    const Builder *builder, SegmentWriter *writer, const SortedTerm *sorted, Bytes *records) {
    Record record;
    int64_t before = -1;
    int failed = writer_begin_term(writer, sorted->string, sorted->size);
    if (failed || gather(builder, &TERMS(builder)[sorted->number], records) < 0)
        return failed ? failed : -1;
    const uint8_t *at = records->data, *end = at + records->size - 16;
    while (at < end) {
        at = read_record(at, before, &record);
        if ((failed = writer_add(writer, &record)))
            return failed;
        before = record.document;
    }
    return writer_end_term(writer);
}

static void make_scale(const Builder *builder, double k1, const double *averages, Scale *scale) {
    double count = builder_num_documents(builder);
    scale->k1 = k1;
    memcpy(scale->kept_lengths, builder->kept_lengths, sizeof scale->kept_lengths);
    for (unsigned view = 0; view < NUM_VIEWS; view++)
        scale->averages[view] = averages ? averages[view]
                                : count  ? (double)builder->totals[view] / count
                                         : 0.0;
}

static SortedTerm *sort_terms(const Builder *builder, uint32_t count) {
    SortedTerm *sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    for (uint32_t number = 0; sorted && number < count; number++) {
        const Term *term = &TERMS(builder)[number];
        SortedTerm each = {builder->strings.data + term->string, term->string_size, number};
        sorted[number] = each;
    }
    if (sorted)
        qsort(sorted, count, sizeof *sorted, compare_terms);
    return sorted;
}

int builder_write(const Builder *builder, int handle, double k1, const double *averages) {
    SegmentWriter writer;
    Scale scale;
    Bytes records = {0};
    uint32_t count = NUM_TERMS(builder);
    Documents documents = {(const int64_t *)builder->rows.data, builder->lengths.data,
        builder->defaults.data, builder_num_documents(builder)};
    make_scale(builder, k1, averages, &scale);
    SortedTerm *sorted = sort_terms(builder, count);
    int failed = writer_begin(&writer, handle, builder->default_view, &scale, &documents);
    failed = sorted ? failed : -1;
    for (uint32_t each = 0; !failed && each < count; each++)
        failed = write_term(builder, &writer, &sorted[each], &records);
    if (!failed)
        failed = writer_finish(&writer);
    writer_free(&writer);
    bytes_free(&records);
    free(sorted);
    return failed;
}
