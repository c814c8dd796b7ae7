/* Records as Python sees them made. */
#ifndef QUOTH_RECORDS_H
#define QUOTH_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_record_functions(PyObject *module);

#endif
