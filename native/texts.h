/* Texts as Python sees them. */
#ifndef QUOTH_TEXTS_H
#define QUOTH_TEXTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* CRC-32 as zlib has it; right once the functions were added. */
uint32_t crc_of(const uint8_t *data, size_t size);

/* Hash all runs of so many words of a text; writes distinct hashes in order, and returns how many.
 * `starts` and `ends` say where its words stand; `starts` is lost. */
size_t hash_runs(const uint8_t *text, uint32_t *starts, const uint32_t *ends, size_t count,
    size_t run, uint32_t *hashes);

int add_text_functions(PyObject *module);

#endif
