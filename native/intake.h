/* Documents of a portion as Python has them, taken in to be read. */
#ifndef QUOTH_INTAKE_H
#define QUOTH_INTAKE_H

#include "analysis.h"

#define UNUSUAL 1 /* not as the store writes it */
#define NO_MEMORY 2
#define RAISED (-1)

/* A portion that is taken in; it holds the texts that its runs point to. */
typedef struct {
    Portion portion;
    PyObject *names, *texts; /* names of fields to numbers; all texts */
    PyObject *places;        /* of the document at hand */
    Py_ssize_t next;         /* the first of them that was not taken so far */
    int is_single;           /* it is one text with one passage */
} Intake;

/* Take in lists of documents and of their passages; 0, or what is the matter. */
int intake_take(Intake *intake, PyObject *documents, PyObject *places);
void intake_free(Intake *intake);

#endif
