/* Joins neighbouring segments into one, and compares what segments hold. */
#ifndef QUOTH_MERGER_H
#define QUOTH_MERGER_H

#include "segment.h"

/* Write the segments as one, in order, but for documents whose bit in `gone` is set (NULL: none).
 * Returns 0, -1 without memory, -2 where the system failed to write, -3 where one is damaged. */
int merge_segments(const Segment *segments, const uint8_t *const *gone, unsigned count, int handle,
    const Scale *scale);

/* Add to `digest` what a segment holds but for what is gone; the sum of several segments does not
 * depend on how documents are divided among them. Returns 0, or -3 where it is damaged. */
int digest_segment(const Segment *segment, const uint8_t *gone, uint64_t *digest);

#endif
