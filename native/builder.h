/* Collects documents in memory until there are enough of them for a segment. */
#ifndef QUOTH_BUILDER_H
#define QUOTH_BUILDER_H

#include "segment.h"

/* A term of all documents so far; its records lie in linked pieces of the pool. */
typedef struct {
    uint32_t hash, string, string_size;
    uint32_t head;            /* where its first piece begins, NONE before there is one */
    uint32_t tail, piece_end; /* where the next byte goes, and where the piece's link stands */
    uint32_t piece_size;
    uint32_t next_document; /* the one after its last */
    uint32_t met;           /* where it stands among those of the document at hand */
} Term;

/* A term of the document at hand. */
typedef struct {
    uint32_t term, tf, num_views;
    uint32_t tfs[MAX_VIEWS];
    uint8_t views[MAX_VIEWS];
} MetTerm;

typedef struct {
    uint32_t *slots, num_slots; /* open addressing: numbers of terms, and one more */
    Bytes terms, strings, pool, rows, lengths, defaults, met;
    uint32_t default_view;
    uint32_t kept_lengths[256];               /* lengths that a code stands for, ascending */
    uint64_t length, view_lengths[MAX_VIEWS]; /* of the document at hand */
    uint64_t totals[NUM_VIEWS];               /* lengths of all documents */
} Builder;

int builder_init(Builder *builder, const uint32_t *kept_lengths, uint32_t default_view);
void builder_free(Builder *builder);
void builder_begin(Builder *builder);
/* Count the terms of a text, parted by spaces; `view` is NO_VIEW for one that has none. */
int builder_text(Builder *builder, const uint8_t *text, size_t size, uint8_t view);
int builder_end(Builder *builder, int64_t row);
size_t builder_size(const Builder *builder);
uint32_t builder_num_documents(const Builder *builder);
/* Write a segment, with these mean lengths or, for NULL, its own; what was collected stays. */
int builder_write(const Builder *builder, int handle, double k1, const double *averages);
/* They return 0, -1 without memory, or -2 where the system failed to write. */

#endif
