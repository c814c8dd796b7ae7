/* One number for what segments hold, however it is divided among them. */
#include "merger.h"

#include <stddef.h>

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdULL;
    return hash ^ hash >> 33;
}

typedef struct {
    const Segment *segment;
    const uint8_t *gone;
    uint64_t term, digest;
} Digesting;

static int is_gone(const uint8_t *gone, uint32_t document) {
    return gone && gone[document >> 3] >> (document & 7) & 1;
}

static int add_record(void *given, const Record *record) {
    Digesting *digesting = given;
    const Segment *segment = digesting->segment;
    const uint8_t *at = record->views;
    uint64_t hash = digesting->term;
    if (is_gone(digesting->gone, record->document))
        return 0;
    hash = mix(mix(hash, (uint64_t)segment->rows[record->document]), record->tf);
    if (at == NULL)
        hash = mix(mix(hash, segment->footer.default_view), record->tf);
    for (unsigned left = at ? *at++ : 0; left; left--) {
        uint64_t tf;
        uint8_t view = at[0];
        at = get_number(at + 2, &tf);
        hash = mix(mix(hash, view), tf);
    }
    digesting->digest += hash;
    return 0;
}

static uint64_t hash_document(const Segment *segment, uint32_t document) {
    uint64_t hash = mix(segment->lengths[document], (uint64_t)segment->rows[document]);
    return mix(hash, segment->defaults[document]);
}

/* Returns 0, or -3 where the segment is damaged. */
int digest_segment(const Segment *segment, const uint8_t *gone, uint64_t *digest) {
    Digesting digesting = {segment, gone, 0, 0};
    uint32_t count = (uint32_t)segment->footer.num_documents;
    for (uint32_t document = 0; document < count; document++) {
        if (document && segment->rows[document] <= segment->rows[document - 1])
            return -3;
        if (!is_gone(gone, document))
            *digest += hash_document(segment, document);
    }
    for (uint64_t number = 0; number < segment->footer.num_terms; number++) {
        const uint8_t *term;
        size_t size = segment_term(segment, number, &term);
        digesting.term = size;
        for (size_t at = 0; at < size; at++)
            digesting.term = mix(digesting.term, term[at]);
        int failed = segment_each(segment, number, add_record, &digesting);
        if (failed)
            return failed;
    }
    *digest += digesting.digest;
    return 0;
}
