/* Read segments; see segment.h for what is in one. No Python in here. */
#include "segment.h"

#include <stdlib.h>

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
        || !is_part(
            footer->terms_at, sizeof(TermEntry) * (footer->num_terms + 1), footer->strings_at)
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

static int use_block(const Block *block, UseRecord use, void *with) {
    Record record;
    int failed = 0;
    for (uint32_t each = 0; !failed && each < block->count; each++)
        failed = block_record(block, each, &record) < 0 ? -3 : use(with, &record);
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
                   segment->footer.num_documents, &block)
                   < 0)
            return -3;
        before = block.documents[count - 1];
        failed = use_block(&block, use, with);
    }
    return failed;
}
