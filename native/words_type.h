/* Words and terms as Python sees them. */
#ifndef QUOTH_WORDS_TYPE_H
#define QUOTH_WORDS_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int add_words_type(PyObject *module);

#endif
