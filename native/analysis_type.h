/* The analysis of portions as Python sees it. */
#ifndef QUOTH_ANALYSIS_TYPE_H
#define QUOTH_ANALYSIS_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_analysis_type(PyObject *module);

#endif
