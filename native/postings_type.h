/* Postings as Python sees them. */
#ifndef QUOTH_POSTINGS_TYPE_H
#define QUOTH_POSTINGS_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_postings_types(PyObject *module);

#endif
