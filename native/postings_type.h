/* Postings as Python sees them. */
#ifndef QUOTH_POSTINGS_TYPE_H
#define QUOTH_POSTINGS_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_builder_type(PyObject *module);
int add_segments_type(PyObject *module);

/* Raise what a function of the builder, of merging or of searching returned. */
PyObject *explain(int failed);
/* Take some numbers from bytes; None is none of them. */
int take_numbers(PyObject *bytes, Py_ssize_t count, const double **numbers);

#endif
