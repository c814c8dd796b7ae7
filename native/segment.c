/* Read and write segments; see segment.h for what is in one. No Python in here. */
#include "segment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <io.h>
#define write _write
#else
#include <unistd.h>
#endif

#define FLUSH_AT (1 << 20)

int bytes_reserve(Bytes *bytes, size_t more) {
    if (bytes->size + more <= bytes->room)
        return 0;
    size_t room = bytes->room * 2 > bytes->size + more ? bytes->room * 2 : bytes->size + more + 64;
    uint8_t *data = realloc(bytes->data, room);
    if (data == NULL)
        return -1;
    bytes->data = data;
    bytes->room = room;
    return 0;
}

int bytes_add(Bytes *bytes, const void *data, size_t size) {
    if (bytes_reserve(bytes, size) < 0)
        return -1;
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return 0;
}

void bytes_free(Bytes *bytes) {
    free(bytes->data);
    memset(bytes, 0, sizeof *bytes);
}

/* Reading ------------------------------------------------------------------------------------- */

static int is_part(uint64_t at, uint64_t size, uint64_t next) {
    return at <= next && size <= next - at;
}

const char *segment_open(Segment *segment, const uint8_t *data, size_t size) {
    Footer *footer = &segment->footer;
    if (size < sizeof *footer)
        return "it is too short";
    memcpy(footer, data + size - sizeof *footer, sizeof *footer);
    uint64_t count = footer->num_documents;
    if (footer->magic != MAGIC || footer->size != size)
        return "it does not end as a segment does";
    if (count >= UINT32_MAX || footer->num_terms >= UINT32_MAX
        || !is_part(0, footer->postings_size, footer->rows_at)
        || !is_part(footer->rows_at, 8 * count, footer->lengths_at)
        || !is_part(footer->lengths_at, count, footer->defaults_at)
        || !is_part(footer->defaults_at, count, footer->terms_at)
        || !is_part(footer->terms_at, sizeof(TermEntry) * (footer->num_terms + 1), footer->strings_at)
        || !is_part(footer->strings_at, sizeof *footer, size)
        || (footer->rows_at | footer->terms_at) % 8 || footer->default_view >= MAX_VIEWS)
        return "its parts do not fit";
    segment->data = data;
    segment->rows = (const int64_t *)(data + footer->rows_at);
    segment->lengths = data + footer->lengths_at;
    segment->defaults = data + footer->defaults_at;
    segment->terms = (const TermEntry *)(data + footer->terms_at);
    segment->strings = data + footer->strings_at;
    return NULL;
}

size_t segment_term(const Segment *segment, uint64_t number, const uint8_t **term) {
    uint64_t room = segment->footer.size - sizeof(Footer) - segment->footer.strings_at;
    uint64_t start = segment->terms[number].string, end = segment->terms[number + 1].string;
    *term = segment->strings + start;
    return start <= end && end <= room ? (size_t)(end - start) : 0;
}

int64_t segment_find_term(const Segment *segment, const uint8_t *term, size_t size) {
    uint64_t low = 0, high = segment->footer.num_terms;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        const uint8_t *other;
        size_t other_size = segment_term(segment, middle, &other);
        int order = memcmp(other, term, other_size < size ? other_size : size);
        if (order == 0 && other_size == size)
            return (int64_t)middle;
        if (order < 0 || (order == 0 && other_size < size))
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int64_t segment_find_row(const Segment *segment, int64_t row) {
    uint64_t low = 0, high = segment->footer.num_documents;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (segment->rows[middle] == row)
            return (int64_t)middle;
        if (segment->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int segment_postings(const Segment *segment, uint64_t number, Postings *postings) {
    const TermEntry *entry = &segment->terms[number];
    uint64_t end = entry[1].postings;
    if (entry->postings > end || end > segment->footer.postings_size || entry->df == 0
        || entry->df > segment->footer.num_documents)
        return -1;
    const uint8_t *at = segment->data + entry->postings;
    memset(postings, 0, sizeof *postings);
    postings->df = entry->df;
    postings->end = segment->data + end;
    if (entry->df > BLOCK) {
        uint32_t blocks = (entry->df + BLOCK - 1) / BLOCK;
        if (at >= postings->end)
            return -1;
        postings->num_views = *at++;
        size_t counts = 5 * (size_t)postings->num_views + 4; /* and how long the heads are */
        uint32_t heads;
        if (postings->num_views > MAX_VIEWS || (size_t)(postings->end - at) < counts)
            return -1;
        postings->view_counts = at;
        postings->num_blocks = blocks;
        at += counts;
        memcpy(&heads, at - 4, sizeof heads);
        if ((size_t)(postings->end - at) < heads || heads < (uint64_t)blocks * HEAD_SIZE)
            return -1;
        postings->heads = at;
        at += heads;
    }
    postings->blocks = at;
    return 0;
}

int block_records(const Block *block, uint32_t *tfs, const uint8_t **views) {
    const uint8_t *at = block->views, *end = block->end;
    for (uint32_t each = 0; each < block->count; each++) {
        tfs[each] = (uint32_t)block->tfs[each] + 1;
        views[each] = NULL;
        if (!is_unusual(block, each))
            continue;
        uint64_t number;
        if (at < end && block->tfs[each] == LARGE_TF) {
            at = get_number(at, &number);
            tfs[each] = number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
        }
        if (at >= end)
            return -1;
        views[each] = at;
        for (unsigned left = *at++; left; left--) {
            if (at + 2 >= end)
                return -1;
            at = get_number(at + 2, &number);
        }
    }
    return at > end ? -1 : 0;
}

static int use_block(const Block *block, UseRecord use, void *with) {
    uint32_t tfs[BLOCK];
    const uint8_t *views[BLOCK];
    int failed = block_records(block, tfs, views) < 0 ? -3 : 0;
    for (uint32_t each = 0; !failed && each < block->count; each++) {
        Record record = {block->documents[each], tfs[each], views[each]};
        failed = use(with, &record);
    }
    return failed;
}

int segment_each(const Segment *segment, uint64_t number, UseRecord use, void *with) {
    Postings postings;
    Block block;
    int64_t before = -1;
    int failed = segment_postings(segment, number, &postings) < 0 ? -3 : 0;
    const uint8_t *head_at = postings.heads;
    for (uint32_t done = 0; !failed && done < postings.df; done += BLOCK) {
        BlockHead head = {0, 0, 0, 0};
        uint32_t count = postings.df - done < BLOCK ? postings.df - done : BLOCK;
        if (postings.num_blocks) {
            if ((head_at = read_head(head_at, postings.blocks, &head)) == NULL)
                return -3;
            head_at += __builtin_popcount(head.views);
        }
        if (head.at > postings.end - postings.blocks
            || read_block(postings.blocks + head.at, postings.end, before, count,
                          segment->footer.num_documents, &block) < 0)
            return -3;
        before = block.documents[count - 1];
        failed = use_block(&block, use, with);
    }
    return failed;
}

/* Writing ------------------------------------------------------------------------------------- */

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

int writer_begin(
    SegmentWriter *writer, int handle, uint32_t default_view, const Scale *scale,
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
    uint8_t block[1 + 5 * BLOCK + 16], *at = block;
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
