/* What a page shows, as Python sees it. */
#ifndef QUOTH_SHOWING_H
#define QUOTH_SHOWING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_showing_functions(PyObject *module);

#endif
