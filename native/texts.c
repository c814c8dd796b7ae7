/* What is counted in texts: passages weighed by the terms in them, and signatures of texts. */
#include "texts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PER_PASSAGE 5 /* numbers of a record, the last of them how many terms */

static uint32_t number_at(const uint8_t *data, size_t at) {
    uint32_t number;
    memcpy(&number, data + 4 * at, sizeof number);
    return number;
}

static uint32_t count_key(const uint8_t *keys, size_t count, uint32_t key) {
    uint32_t found = 0;
    for (size_t at = 0; at < count; at++)
        found += number_at(keys, at) == key;
    return found;
}

/* weigh(record, keys, weights, telling_length, k1): the weight of each passage of a record. */
static PyObject *weigh(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *record, *keys, *weights;
    Py_ssize_t record_size, keys_size, weights_size;
    double telling, k1;
    if (!PyArg_ParseTuple(args, "y#y#y#dd", &record, &record_size, &keys, &keys_size, &weights,
            &weights_size, &telling, &k1))
        return NULL;
    const uint8_t *data = (const uint8_t *)record;
    size_t size = (size_t)record_size / 4, count = size > 1 ? number_at(data, 1) : 0;
    size_t num_wanted = (size_t)keys_size / 4, at = 2 + PER_PASSAGE * count;
    if (size < 2 || count > size || at > size || (size_t)weights_size != num_wanted * 8)
        return PyErr_Format(PyExc_ValueError, "a record of passages is damaged");
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t passage = 0; list != NULL && passage < count; passage++) {
        size_t terms = number_at(data, 2 + PER_PASSAGE * passage + PER_PASSAGE - 1);
        double matched = 0.0, share = (double)terms / telling;
        if (terms > size - at) {
            Py_DECREF(list);
            return PyErr_Format(PyExc_ValueError, "a record of passages is damaged");
        }
        for (size_t each = 0; each < num_wanted; each++) {
            uint32_t tf = count_key(data + 4 * at, terms, number_at((const uint8_t *)keys, each));
            double weight;
            memcpy(&weight, weights + 8 * each, sizeof weight);
            if (tf)
                matched += weight * ((double)tf * (k1 + 1.0) / ((double)tf + k1));
        }
        at += terms;
        PyList_SET_ITEM(
            list, (Py_ssize_t)passage, PyFloat_FromDouble(matched * (share < 1.0 ? share : 1.0)));
    }
    return list;
}

/* Signatures ---------------------------------------------------------------------------------- */

static uint32_t crc_table[8][256];

static void make_crc_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        crc_table[0][byte] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t before = crc_table[slice - 1][byte];
            crc_table[slice][byte] = before >> 8 ^ crc_table[0][before & 0xff];
        }
}

/* CRC-32 as zlib has it, eight bytes at a time. */
static uint32_t crc_of(const uint8_t *data, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (; size >= 8; size -= 8, data += 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff]
              ^ crc_table[5][low >> 16 & 0xff] ^ crc_table[4][low >> 24] ^ crc_table[3][high & 0xff]
              ^ crc_table[2][high >> 8 & 0xff] ^ crc_table[1][high >> 16 & 0xff]
              ^ crc_table[0][high >> 24];
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *data++) & 0xff];
    return ~crc;
}

static int compare_hashes(const void *one, const void *other) {
    uint32_t left = *(const uint32_t *)one, right = *(const uint32_t *)other;
    return left < right ? -1 : left > right;
}

/* Copy words with one space between them; returns how many, and where each begins and ends. */
static size_t tidy(
    const uint8_t *text, size_t size, uint8_t *out, uint32_t *starts, uint32_t *ends) {
    size_t count = 0;
    uint32_t at = 0;
    for (size_t next = 0; next < size;) {
        while (next < size && text[next] == ' ')
            next++;
        if (next == size)
            break;
        starts[count] = at;
        while (next < size && text[next] != ' ')
            out[at++] = text[next++];
        ends[count++] = at;
        out[at++] = ' ';
    }
    return count;
}

static size_t hash_runs(const uint8_t *text, const uint32_t *starts, const uint32_t *ends,
    size_t count, size_t run, uint32_t *hashes) {
    size_t found = count >= run ? count - run + 1 : 0, kept = 0;
    for (size_t at = 0; at < found; at++)
        hashes[at] = crc_of(text + starts[at], ends[at + run - 1] - starts[at]);
    qsort(hashes, found, sizeof *hashes, compare_hashes);
    for (size_t at = 0; at < found; at++)
        if (!at || hashes[at] != hashes[at - 1])
            hashes[kept++] = hashes[at];
    return kept;
}

/* sketch(words, run, size, least): the smallest distinct hashes of all runs of so many words;
 * words are parted by spaces, and fewer than `least` have none. */
static PyObject *sketch(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *words;
    Py_ssize_t size, run, most, least;
    if (!PyArg_ParseTuple(args, "y#nnn", &words, &size, &run, &most, &least))
        return NULL;
    if (size >= INT32_MAX || run < 1 || most < 0)
        return PyErr_Format(PyExc_ValueError, "the text is too long");
    size_t room = (size_t)size / 2 + 1;
    uint8_t *text = malloc((size_t)size + 2);
    uint32_t *numbers = malloc(3 * room * sizeof *numbers);
    PyObject *found = NULL;
    if (text == NULL || numbers == NULL)
        PyErr_NoMemory();
    else {
        uint32_t *starts = numbers, *ends = numbers + room, *hashes = numbers + 2 * room;
        size_t count = tidy((const uint8_t *)words, (size_t)size, text, starts, ends), kept = 0;
        if (count >= (size_t)least)
            kept = hash_runs(text, starts, ends, count, (size_t)run, hashes);
        kept = kept < (size_t)most ? kept : (size_t)most;
        found = PyBytes_FromStringAndSize((const char *)hashes, (Py_ssize_t)(kept * 4));
    }
    free(text);
    free(numbers);
    return found;
}

/* keys(terms): the CRC-32 of each term, one after another. */
static PyObject *keys(PyObject *Py_UNUSED(module), PyObject *terms) {
    if (!PyList_Check(terms)) {
        PyErr_SetString(PyExc_TypeError, "a list of terms is wanted");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(terms);
    PyObject *found = PyBytes_FromStringAndSize(NULL, count * 4);
    for (Py_ssize_t at = 0; found && at < count; at++) {
        Py_ssize_t size;
        const char *term = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(terms, at), &size);
        if (term == NULL) {
            Py_CLEAR(found);
            break;
        }
        uint32_t key = crc_of((const uint8_t *)term, (size_t)size);
        memcpy(PyBytes_AS_STRING(found) + 4 * at, &key, sizeof key);
    }
    return found;
}

static PyMethodDef methods[] = {{"keys", keys, METH_O, NULL}, {"weigh", weigh, METH_VARARGS, NULL},
    {"sketch", sketch, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int add_text_functions(PyObject *module) {
    make_crc_table();
    return PyModule_AddFunctions(module, methods);
}
