/* What is stored of documents as Python sees it. */
#ifndef QUOTH_PREPARING_H
#define QUOTH_PREPARING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *write_content(PyObject *module, PyObject *args);
PyObject *write_usual(PyObject *module, PyObject *args);
PyObject *read_fields(PyObject *module, PyObject *content);
int add_preparing_functions(PyObject *module);

#endif
