/* Write segments; see segment.h for what is in one. No Python in here. */
#include "segment.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FLUSH_AT (1 << 20)

static int flush(SegmentWriter *writer) {
    const uint8_t *at = writer->pending.data;
    size_t left = writer->pending.size;
    while (left) {
        long done = (long)write(writer->handle, at, left > FLUSH_AT ? FLUSH_AT : (unsigned)left);
        if (done < 0) {
            if (errno == EINTR)
                continue;
            return -2;
        }
        at += done;
        left -= (size_t)done;
    }
    writer->written += writer->pending.size;
    writer->pending.size = 0;
    return 0;
}

static int put(SegmentWriter *writer, const void *data, size_t size) {
    if (bytes_add(&writer->pending, data, size) < 0)
        return -1;
    return writer->pending.size >= FLUSH_AT ? flush(writer) : 0;
}

static uint64_t place(const SegmentWriter *writer) {
    return writer->written + writer->pending.size;
}

static int pad(SegmentWriter *writer) {
    static const uint8_t zeros[8];
    return put(writer, zeros, (8 - place(writer) % 8) % 8);
}

int writer_begin(SegmentWriter *writer, int handle, uint32_t default_view, const Scale *scale,
    const Documents *documents) {
    memset(writer, 0, sizeof *writer);
    writer->handle = handle;
    writer->default_view = default_view;
    writer->scale = scale;
    writer->documents_said = *documents;
    writer->norms = malloc(sizeof(double) * NUM_VIEWS * 256);
    if (writer->norms == NULL)
        return -1;
    for (unsigned view = 0; view < NUM_VIEWS; view++)
        for (unsigned code = 0; code < 256; code++) {
            double average = scale->averages[view];
            double norm = average > 0 ? 0.25 + 0.75 * scale->kept_lengths[code] / average : 1.0;
            writer->norms[view * 256 + code] = scale->k1 * norm;
        }
    return 0;
}

/* Saturation as a byte, rounded up. */
static uint8_t saturation(const SegmentWriter *writer, unsigned view, uint8_t code, uint64_t tf) {
    double share = (double)tf / ((double)tf + writer->norms[view * 256 + code]);
    double steps = share * SATURATION_STEPS + 1.0 - 1e-9;
    return steps >= 255.0 ? 255 : (uint8_t)steps;
}

static int add_entry(SegmentWriter *writer) {
    TermEntry entry = {place(writer), (uint32_t)writer->strings.size, 0};
    return bytes_add(&writer->entries, &entry, sizeof entry);
}

int writer_begin_term(SegmentWriter *writer, const uint8_t *term, size_t size) {
    if (add_entry(writer) < 0 || bytes_add(&writer->strings, term, size) < 0)
        return -1;
    writer->blocks.size = writer->heads.size = 0;
    writer->df = writer->count = 0;
    writer->before = -1;
    memset(writer->view_counts, 0, sizeof writer->view_counts);
    return 0;
}

static int add_head(SegmentWriter *writer) {
    uint8_t bytes[HEAD_SIZE + MAX_VIEWS], *at = bytes + HEAD_SIZE;
    const BlockHead *head = &writer->head;
    memcpy(bytes, &head->last, 4);
    memcpy(bytes + 4, &head->at, 4);
    memcpy(bytes + 8, &head->views, 4);
    bytes[12] = head->most;
    for (unsigned view = 0; view < MAX_VIEWS; view++)
        if (head->views >> view & 1)
            *at++ = writer->most[view];
    return bytes_add(&writer->heads, bytes, (size_t)(at - bytes));
}

static int end_block(SegmentWriter *writer) {
    uint32_t gaps[BLOCK], largest = 0, count = writer->count;
    uint8_t block[1 + 7 * BLOCK + 16], *at = block;
    int64_t before = writer->before;
    for (uint32_t each = 0; each < count; each++) {
        gaps[each] = (uint32_t)((int64_t)writer->documents[each] - before - 1);
        largest = gaps[each] > largest ? gaps[each] : largest;
        before = writer->documents[each];
    }
    unsigned width = largest < 1 << 8 ? 1 : largest < 1 << 16 ? 2 : 4;
    int has_views = (writer->unusual[0] | writer->unusual[1]) != 0;
    *at++ = (uint8_t)(width | (has_views ? HAS_VIEWS : 0));
    for (uint32_t each = 0; each < count; each++, at += width)
        memcpy(at, &gaps[each], width);
    memcpy(at, writer->tfs, count);
    at += count;
    if (has_views) {
        memcpy(at, writer->unusual, 16);
        at += 16;
        memcpy(at, writer->starts, 2 * writer->num_unusual);
        at += 2 * writer->num_unusual;
    }
    writer->before = before;
    writer->count = 0;
    if (bytes_add(&writer->blocks, block, (size_t)(at - block)) < 0
        || bytes_add(&writer->blocks, writer->views.data, writer->views.size) < 0)
        return -1;
    return add_head(writer);
}

static void count_in_view(SegmentWriter *writer, unsigned view, uint8_t length, uint64_t tf) {
    uint8_t most = saturation(writer, view, length, tf);
    writer->view_counts[view]++;
    writer->head.views |= 1u << view;
    if (most > writer->most[view])
        writer->most[view] = most;
}

/* Count a record's views, and keep them where it is unusual. */
static int add_views(SegmentWriter *writer, const Record *record) {
    const uint8_t *at = record->views;
    uint8_t number[10], plain[16], *end = plain;
    uint8_t length = writer->documents_said.defaults[record->document];
    if (record->views == NULL) {
        count_in_view(writer, writer->default_view, length, record->tf);
        if (record->tf <= LARGE_TF)
            return 0;
        *end++ = 1; /* too many for a byte: told as if it were unusual */
        *end++ = (uint8_t)writer->default_view;
        *end++ = length;
        end = put_number(end, record->tf);
        at = plain;
    } else {
        at++;
        for (unsigned left = record->views[0]; left; left--) {
            uint64_t tf;
            uint8_t view = at[0] % MAX_VIEWS, code = at[1];
            at = get_number(at + 2, &tf);
            count_in_view(writer, view, code, tf);
        }
        end = (uint8_t *)at;
        at = record->views;
    }
    writer->starts[writer->num_unusual++] = (uint16_t)writer->views.size;
    writer->unusual[writer->count >> 6] |= 1ULL << (writer->count & 63);
    if (record->tf > LARGE_TF
        && bytes_add(&writer->views, number, (size_t)(put_number(number, record->tf) - number)) < 0)
        return -1;
    return bytes_add(&writer->views, at, (size_t)(end - at));
}

static void begin_block(SegmentWriter *writer) {
    BlockHead fresh = {0, (uint32_t)writer->blocks.size, 0, 0};
    writer->head = fresh;
    writer->views.size = 0;
    writer->num_unusual = 0;
    writer->unusual[0] = writer->unusual[1] = 0;
    memset(writer->most, 0, sizeof writer->most);
}

int writer_add(SegmentWriter *writer, const Record *record) {
    if (writer->count == 0)
        begin_block(writer);
    if (add_views(writer, record) < 0)
        return -1;
    uint8_t length = writer->documents_said.lengths[record->document];
    uint8_t most = saturation(writer, WHOLE, length, record->tf);
    if (most > writer->head.most)
        writer->head.most = most;
    writer->head.last = record->document;
    writer->documents[writer->count] = record->document;
    writer->tfs[writer->count] = (uint8_t)(record->tf > LARGE_TF ? LARGE_TF : record->tf - 1);
    writer->df++;
    return ++writer->count == BLOCK ? end_block(writer) : 0;
}

static int put_long_head(SegmentWriter *writer) {
    uint8_t counts[5 + 5 * MAX_VIEWS], *at = counts + 1;
    counts[0] = 0;
    for (unsigned view = 0; view < MAX_VIEWS; view++) {
        if (!writer->view_counts[view])
            continue;
        counts[0]++;
        *at++ = (uint8_t)view;
        memcpy(at, &writer->view_counts[view], 4);
        at += 4;
    }
    uint32_t heads = (uint32_t)writer->heads.size;
    memcpy(at, &heads, 4);
    int failed = put(writer, counts, (size_t)(at + 4 - counts));
    return failed ? failed : put(writer, writer->heads.data, writer->heads.size);
}

int writer_end_term(SegmentWriter *writer) {
    TermEntry *entry = (TermEntry *)(writer->entries.data + writer->entries.size) - 1;
    if (writer->df == 0) { /* all of its documents are gone */
        writer->strings.size = entry->string;
        writer->entries.size -= sizeof *entry;
        return 0;
    }
    entry->df = writer->df;
    writer->num_terms++;
    if (writer->count && end_block(writer) < 0)
        return -1;
    int failed = writer->df > BLOCK ? put_long_head(writer) : 0;
    return failed ? failed : put(writer, writer->blocks.data, writer->blocks.size);
}

int writer_finish(SegmentWriter *writer) {
    static const uint8_t zeros[16]; /* so that reading a number never leaves the file */
    const Documents *documents = &writer->documents_said;
    Footer footer = {
        .magic = MAGIC,
        .num_documents = documents->count,
        .num_terms = writer->num_terms,
        .default_view = writer->default_view,
    };
    int failed;
    memcpy(footer.averages, writer->scale->averages, sizeof footer.averages);
    if (add_entry(writer) < 0) /* which ends the last term */
        return -1;
    footer.postings_size = place(writer);
    if ((failed = put(writer, zeros, sizeof zeros)) || (failed = pad(writer)))
        return failed;
    footer.rows_at = place(writer);
    if ((failed = put(writer, documents->rows, 8 * documents->count)))
        return failed;
    footer.lengths_at = place(writer);
    if ((failed = put(writer, documents->lengths, documents->count)))
        return failed;
    footer.defaults_at = place(writer);
    if ((failed = put(writer, documents->defaults, documents->count)) || (failed = pad(writer)))
        return failed;
    footer.terms_at = place(writer);
    if ((failed = put(writer, writer->entries.data, writer->entries.size)))
        return failed;
    footer.strings_at = place(writer);
    if ((failed = put(writer, writer->strings.data, writer->strings.size)))
        return failed;
    footer.size = place(writer) + sizeof footer;
    if ((failed = put(writer, &footer, sizeof footer)))
        return failed;
    return flush(writer);
}

void writer_free(SegmentWriter *writer) {
    bytes_free(&writer->pending);
    bytes_free(&writer->entries);
    bytes_free(&writer->strings);
    bytes_free(&writer->blocks);
    bytes_free(&writer->heads);
    bytes_free(&writer->views);
    free(writer->norms);
}
