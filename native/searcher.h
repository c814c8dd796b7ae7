/* Finds the best documents of some segments for a query, by BM25, exactly. */
#ifndef QUOTH_SEARCHER_H
#define QUOTH_SEARCHER_H

#include "segment.h"

/* A term that is searched for. */
typedef struct {
    const uint8_t *term;
    size_t size;
    const double *weights; /* per view; one that is negative is not scored */
    const double *idf;     /* per view; NULL: from how many documents of the segments hold it */
} Wanted;

/* A condition: documents must hold a term in a view, or must not. */
typedef struct {
    const uint8_t *term;
    size_t size;
    unsigned view;
    int is_required;
} Condition;

typedef struct {
    const Segment *segments;
    const uint8_t *const *gone; /* per segment: bits of documents that are gone, or NULL */
    unsigned num_segments;
    const Wanted *wanted;
    unsigned num_wanted;
    const Condition *conditions;
    unsigned num_conditions;
    const int64_t *allowed; /* rows, ascending, when is_restricted */
    size_t num_allowed;
    int is_restricted;
    uint64_t num_documents;         /* that idf counts with */
    const double *norms[NUM_VIEWS]; /* 256 each: k1 times the length norm of a code */
    const double *averages;         /* mean lengths per view */
    double k1;
    size_t k;
} Search;

typedef struct {
    int64_t row;
    double score;
} Found;

/* Fill `found` with Found, the k best and all that score what the last of them does, best first
 * but for these. Returns 0, -1 without memory, -3 where a segment is damaged. */
int search_segments(const Search *search, Bytes *found);

/* The sum of numbers, rounded once (Shewchuk 1997), as math.fsum gives it. */
double exact_sum(const double *numbers, size_t count, double *partials);

#endif
