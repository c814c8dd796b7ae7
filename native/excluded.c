/* Tell which documents of a segment cannot be found. */
#include "cursor.h"

#include <stdlib.h>

static int holds_in_view(Cursor *cursor, const Segment *segment, unsigned view) {
    if (view == WHOLE)
        return 1;
    Record record;
    unsigned own, length;
    double tf;
    read_at(cursor, cursor->at, &record);
    if (record.views == NULL)
        return segment->footer.default_view == view;
    const uint8_t *next = record.views + 1;
    for (unsigned left = *record.views; left; left--) {
        next = next_view(cursor, next, &own, &length, &tf);
        if (own == view)
            return 1;
    }
    return 0;
}

static int mark_holders(
    const Search *search, const Segment *segment, const Condition *condition, uint8_t *bits) {
    Wanted wanted = {condition->term, condition->size, NULL, NULL};
    Cursor *cursor = malloc(sizeof *cursor);
    int failed = cursor == NULL ? -1 : cursor_open(cursor, segment, &wanted);
    if (failed == 0 && cursor->postings.num_blocks) {
        double factors[NUM_VIEWS];
        for (unsigned view = 0; view < NUM_VIEWS; view++)
            factors[view] = -1.0; /* nothing is scored */
        cursor->factors = factors;
        failed = cursor_weigh(cursor, search, segment);
        failed = failed ? failed : cursor_load(cursor, segment, 0);
    }
    while (failed == 0) {
        for (cursor->at = 0; cursor->at < cursor->block.count; cursor->at++) {
            uint32_t document = cursor->block.documents[cursor->at];
            if (holds_in_view(cursor, segment, condition->view))
                bits[document >> 3] |= (uint8_t)(1 << (document & 7));
        }
        if (cursor->number + 1 >= cursor->postings.num_blocks)
            break;
        failed = cursor_load(cursor, segment, cursor->number + 1);
    }
    if (cursor != NULL)
        cursor_close(cursor);
    free(cursor);
    return failed == 1 ? 0 : failed;
}

int exclude(const Search *search, unsigned number, uint8_t **excluded) {
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
