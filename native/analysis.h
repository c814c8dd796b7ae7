/* Documents of a portion: read, counted and written down, without anything of Python. */
#ifndef QUOTH_ANALYSIS_H
#define QUOTH_ANALYSIS_H

#include "chunks.h"

/* A passage: where it stands, and which run has its words. */
typedef struct {
    uint32_t field, instance, start, end;
    size_t run;
} Placed;

/* One text of a field: the runs that together have its words. */
typedef struct {
    size_t first_run, num_runs;
    size_t joined, joined_end; /* where its terms stand among those of the portion, as text */
} Instance;

/* A field of a document; `view` is the number of its name among those of the portion. */
typedef struct {
    uint32_t view;
    size_t first_instance, num_instances;
} Field;

typedef struct {
    size_t first_field, num_fields, first_placed, num_placed;
    size_t record, record_end;
} PortionDocument;

/* What is counted of a view: terms in documents, each once per document, and how many there are in
 * all. */
typedef struct {
    Bytes met;
    uint64_t length;
    int is_met;
} View;

#define ALONE 0  /* of documents with one field */
#define SHARED 1 /* of others */

typedef struct {
    Bytes runs, placed, instances, fields, documents;
    Bytes read, terms, joined, records;
    Bytes views;      /* two of each name: those of documents with one field, and those of others */
    View everything;  /* all fields together, of documents with several */
} Portion;

#define RUN(portion, at) ((Run *)(portion)->runs.data + (at))
#define PLACED(portion, at) ((Placed *)(portion)->placed.data + (at))
#define INSTANCE(portion, at) ((Instance *)(portion)->instances.data + (at))
#define FIELD(portion, at) ((Field *)(portion)->fields.data + (at))
#define DOCUMENT(portion, at) ((PortionDocument *)(portion)->documents.data + (at))
#define VIEW(portion, view, kind) ((View *)(portion)->views.data + 2 * (view) + (kind))

int portion_read(Portion *portion, Chunks *chunks);
int portion_write(Portion *portion, Chunks *chunks);
void portion_free(Portion *portion);

#endif
