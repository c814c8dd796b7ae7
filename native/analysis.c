/* Read the texts of a portion into terms, join them, count them, and write records of passages. */
#include "analysis.h"

#include "texts.h"

#define HEAD_NUMBERS 5 /* of a passage in a record: field, instance, start, end and its terms */

int portion_read(Portion *portion, Chunks *chunks) {
    for (size_t at = 0; at < COUNT(portion->runs, Run); at++)
        if (chunks_read(chunks, RUN(portion, at), &portion->read) < 0)
            return -1;
    return 0;
}

/* Put the numbers of terms for those of chunks. */
static int number_terms(Portion *portion, const Chunks *chunks) {
    const uint32_t *read = (const uint32_t *)portion->read.data;
    if (bytes_reserve(&portion->terms, portion->read.size + 16) < 0)
        return -1;
    for (size_t at = 0; at < COUNT(portion->runs, Run); at++) {
        Run *run = RUN(portion, at);
        size_t first = COUNT(portion->terms, uint32_t);
        if (chunks_terms(chunks, read + run->first, run->last - run->first, &portion->terms) < 0)
            return -1;
        run->first = first;
        run->last = COUNT(portion->terms, uint32_t);
    }
    bytes_free(&portion->read);
    return 0;
}

static const uint32_t *terms_of(const Portion *portion, size_t run, size_t *count) {
    const Run *own = RUN(portion, run);
    *count = own->last - own->first;
    return (const uint32_t *)portion->terms.data + own->first;
}

/* Records ------------------------------------------------------------------------------------- */

static int add_number(Bytes *bytes, size_t number) {
    uint32_t own = (uint32_t)number;
    return bytes_add(bytes, &own, sizeof own);
}

static int add_keys(Portion *portion, const Chunks *chunks, size_t run) {
    size_t count;
    const uint32_t *terms = terms_of(portion, run, &count);
    if (bytes_reserve(&portion->records, 4 * count) < 0)
        return -1;
    for (size_t at = 0; at < count; at++) {
        uint32_t key = chunks_term(chunks, terms[at])->key;
        memcpy(portion->records.data + portion->records.size, &key, sizeof key);
        portion->records.size += sizeof key;
    }
    return 0;
}

/* Write what passage_terms.py does: a checksum, where passages stand, and the keys of terms. */
static int write_record(Portion *portion, const Chunks *chunks, PortionDocument *document) {
    Bytes *records = &portion->records;
    size_t end = document->first_placed + document->num_placed, count;
    document->record = records->size;
    if (add_number(records, 0) < 0 || add_number(records, document->num_placed) < 0)
        return -1;
    for (size_t at = document->first_placed; at < end; at++) {
        const Placed *placed = PLACED(portion, at);
        terms_of(portion, placed->run, &count);
        uint32_t head[HEAD_NUMBERS] = {
            placed->field, placed->instance, placed->start, placed->end, (uint32_t)count};
        if (bytes_add(records, head, sizeof head) < 0)
            return -1;
    }
    for (size_t at = document->first_placed; at < end; at++)
        if (add_keys(portion, chunks, PLACED(portion, at)->run) < 0)
            return -1;
    document->record_end = records->size;
    size_t size = records->size - document->record - 4;
    uint32_t checksum = crc_of(records->data + document->record + 4, size);
    memcpy(records->data + document->record, &checksum, sizeof checksum);
    return 0;
}

/* Texts and counts ---------------------------------------------------------------------------- */

/* Copy a term, most of which are short, without a call. */
static inline void copy_term(uint8_t *to, const NumberedTerm *term) {
    const char *from = term->data;
    size_t size = term->size;
    if (size > 16)
        memcpy(to, from, size);
    else if (size >= 8) {
        memcpy(to + size - 8, from + size - 8, 8);
        memcpy(to, from, 8);
    } else if (size >= 4) {
        memcpy(to + size - 4, from + size - 4, 4);
        memcpy(to, from, 4);
    } else
        for (size_t at = 0; at < size; at++)
            to[at] = (uint8_t)from[at];
}

static int join_run(Portion *portion, const Chunks *chunks, size_t run, size_t start) {
    Bytes *joined = &portion->joined;
    size_t count;
    const uint32_t *terms = terms_of(portion, run, &count);
    for (size_t at = 0; at < count; at++) {
        const NumberedTerm *term = chunks_term(chunks, terms[at]);
        if (bytes_room(joined, (size_t)term->size + 1) < 0)
            return -1;
        if (joined->size > start)
            joined->data[joined->size++] = ' ';
        copy_term(joined->data + joined->size, term);
        joined->size += term->size;
    }
    return 0;
}

/* Count terms, each once in what has this serial number. */
static int count_terms(
    View *view, Chunks *chunks, const uint32_t *terms, size_t count, uint64_t serial, int in_all) {
    if (bytes_room(&view->met, count * sizeof *terms) < 0)
        return -1;
    for (size_t at = 0; at < count; at++) {
        NumberedTerm *term = chunks_term(chunks, terms[at]);
        uint64_t *met = in_all ? &term->in_document : &term->in_field;
        if (*met == serial)
            continue;
        *met = serial;
        memcpy(view->met.data + view->met.size, &terms[at], sizeof *terms);
        view->met.size += sizeof *terms;
    }
    view->length += count;
    return 0;
}

/* Join and count the terms of a field; `document` is the serial number of one with several. */
static int write_field(
    Portion *portion, Chunks *chunks, const Field *field, View *view, uint64_t document) {
    uint64_t serial = ++chunks->serial;
    view->is_met = 1;
    for (size_t each = 0; each < field->num_instances; each++) {
        Instance *instance = INSTANCE(portion, field->first_instance + each);
        instance->joined = portion->joined.size;
        for (size_t at = 0; at < instance->num_runs; at++) {
            size_t run = instance->first_run + at, count;
            const uint32_t *terms = terms_of(portion, run, &count);
            if (join_run(portion, chunks, run, instance->joined) < 0
                || count_terms(view, chunks, terms, count, serial, 0) < 0
                || (document
                    && count_terms(&portion->everything, chunks, terms, count, document, 1) < 0))
                return -1;
        }
        instance->joined_end = portion->joined.size;
    }
    return 0;
}

static int write_document(Portion *portion, Chunks *chunks, PortionDocument *document) {
    int kind = document->num_fields == 1 ? ALONE : SHARED;
    uint64_t serial = kind == SHARED ? ++chunks->serial : 0;
    portion->everything.is_met |= kind == SHARED;
    for (size_t each = 0; each < document->num_fields; each++) {
        const Field *field = FIELD(portion, document->first_field + each);
        if (write_field(portion, chunks, field, VIEW(portion, field->view, kind), serial) < 0)
            return -1;
    }
    return write_record(portion, chunks, document);
}

int portion_write(Portion *portion, Chunks *chunks) {
    if (number_terms(portion, chunks) < 0)
        return -1;
    for (size_t at = 0; at < COUNT(portion->documents, PortionDocument); at++)
        if (write_document(portion, chunks, DOCUMENT(portion, at)) < 0)
            return -1;
    return 0;
}

void portion_free(Portion *portion) {
    Bytes *owned[] = {&portion->runs, &portion->placed, &portion->instances, &portion->fields,
        &portion->documents, &portion->read, &portion->terms, &portion->joined, &portion->records,
        &portion->everything.met};
    for (size_t at = 0; at < COUNT(portion->views, View); at++)
        bytes_free(&((View *)portion->views.data)[at].met);
    for (size_t each = 0; each < sizeof owned / sizeof *owned; each++)
        bytes_free(owned[each]);
    bytes_free(&portion->views);
}
