/* Texts as Python sees them. */
#ifndef QUOTH_TEXTS_H
#define QUOTH_TEXTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* CRC-32 as zlib has it; right once the functions were added. */
uint32_t crc_of(const uint8_t *data, size_t size);

int add_text_functions(PyObject *module);

#endif
