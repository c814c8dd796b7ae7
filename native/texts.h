/* Texts as Python sees them. */
#ifndef QUOTH_TEXTS_H
#define QUOTH_TEXTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_text_functions(PyObject *module);

#endif
