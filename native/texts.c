/* What is counted in texts: passages weighed by the terms in them, and signatures of texts. */
#include "texts.h"

#include "signing.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PER_PASSAGE 5 /* numbers of a record: field, instance, start, end and how many terms */
#define NUM_TERMS 4
#define FEW_FIELDS 64

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

typedef struct {
    const uint8_t *data;
    size_t size, count; /* numbers in all, and passages */
} record_t;

typedef struct {
    const uint8_t *keys, *weights;
    size_t count;
    double telling, k1;
} wanted_t;

static int read_record(const char *data, Py_ssize_t size, record_t *record) {
    record->data = (const uint8_t *)data;
    record->size = (size_t)size / 4;
    record->count = record->size > 1 ? number_at(record->data, 1) : 0;
    return record->size >= 2 && record->count <= record->size
           && 2 + PER_PASSAGE * record->count <= record->size;
}

static int read_wanted(const char *keys, Py_ssize_t keys_size, const char *weights, Py_ssize_t size,
    wanted_t *wanted) {
    wanted->keys = (const uint8_t *)keys;
    wanted->weights = (const uint8_t *)weights;
    wanted->count = (size_t)keys_size / 4;
    return (size_t)size == wanted->count * 8;
}

static uint32_t place_at(const record_t *record, size_t passage, size_t number) {
    return number_at(record->data, 2 + PER_PASSAGE * passage + number);
}

/* Weigh a passage whose terms begin at a number of the record. */
static double weigh_passage(
    const record_t *record, size_t at, size_t terms, const wanted_t *wanted) {
    double matched = 0.0, share = (double)terms / wanted->telling;
    for (size_t each = 0; each < wanted->count; each++) {
        uint32_t tf = count_key(record->data + 4 * at, terms, number_at(wanted->keys, each));
        double weight;
        memcpy(&weight, wanted->weights + 8 * each, sizeof weight);
        if (tf)
            matched += weight * ((double)tf * (wanted->k1 + 1.0) / ((double)tf + wanted->k1));
    }
    return matched * (share < 1.0 ? share : 1.0);
}

static PyObject *refuse_record(void) {
    return PyErr_Format(PyExc_ValueError, "a record of passages is damaged");
}

/* weigh(record, keys, weights, telling_length, k1): the weight of each passage of a record. */
static PyObject *weigh(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *data, *keys, *weights;
    Py_ssize_t size, keys_size, weights_size;
    record_t record;
    wanted_t wanted;
    if (!PyArg_ParseTuple(args, "y#y#y#dd", &data, &size, &keys, &keys_size, &weights,
            &weights_size, &wanted.telling, &wanted.k1))
        return NULL;
    if (!read_record(data, size, &record)
        || !read_wanted(keys, keys_size, weights, weights_size, &wanted))
        return refuse_record();
    size_t at = 2 + PER_PASSAGE * record.count;
    PyObject *list = PyList_New((Py_ssize_t)record.count);
    for (size_t passage = 0; list != NULL && passage < record.count; passage++) {
        size_t terms = place_at(&record, passage, NUM_TERMS);
        if (terms > record.size - at) {
            Py_DECREF(list);
            return refuse_record();
        }
        PyList_SET_ITEM(list, (Py_ssize_t)passage,
            PyFloat_FromDouble(weigh_passage(&record, at, terms, &wanted)));
        at += terms;
    }
    return list;
}

/* Find the first of the heaviest passages, -1 where there is none, -2 in a damaged record. Those of
 * fields that are left out are found only where there is no other. */
static Py_ssize_t find_heaviest(const record_t *record, const uint8_t *left_out, size_t num_fields,
    const wanted_t *wanted) {
    size_t fit = 0, at = 2 + PER_PASSAGE * record->count;
    Py_ssize_t best = -1;
    double most = -INFINITY;
    for (size_t passage = 0; passage < record->count; passage++) {
        size_t field = place_at(record, passage, 0);
        if (field >= num_fields)
            return -2;
        if (!left_out[field])
            best = fit++ ? best : (Py_ssize_t)passage;
    }
    int takes_all = !fit;
    if (takes_all) {
        fit = record->count;
        best = fit ? 0 : -1;
    }
    for (size_t passage = 0; fit > 1 && passage < record->count; passage++) {
        size_t terms = place_at(record, passage, NUM_TERMS);
        if (terms > record->size - at)
            return -2;
        if (takes_all || !left_out[place_at(record, passage, 0)]) {
            double weight = weigh_passage(record, at, terms, wanted);
            if (weight > most) {
                most = weight;
                best = (Py_ssize_t)passage;
            }
        }
        at += terms;
    }
    return best;
}

/* Mark the fields of a document that others go before; they are named in a sequence. */
static int mark_left_out(PyObject *fields, PyObject *besides, uint8_t *left_out) {
    PyObject *name, *texts;
    Py_ssize_t next = 0;
    for (size_t at = 0; PyDict_Next(fields, &next, &name, &texts); at++) {
        int is_beside = PySequence_Contains(besides, name);
        if (is_beside < 0)
            return -1;
        left_out[at] = (uint8_t)is_beside;
    }
    return 0;
}

/* Return the keys of the terms of a passage. */
static PyObject *take_keys(const record_t *record, size_t passage) {
    size_t at = 2 + PER_PASSAGE * record->count, terms = place_at(record, passage, NUM_TERMS);
    for (size_t before = 0; before < passage && at <= record->size; before++)
        at += place_at(record, before, NUM_TERMS);
    if (at > record->size || terms > record->size - at)
        return refuse_record();
    return PyBytes_FromStringAndSize((const char *)record->data + 4 * at, 4 * (Py_ssize_t)terms);
}

/* Return the name of a field, its instance, the start and end of a passage in it, its text, and the
 * keys of its terms. */
static PyObject *cut_passage(PyObject *fields, const record_t *record, size_t passage) {
    PyObject *name = NULL, *texts = NULL;
    Py_ssize_t next = 0, instance = (Py_ssize_t)place_at(record, passage, 1);
    Py_ssize_t start = (Py_ssize_t)place_at(record, passage, 2);
    Py_ssize_t end = (Py_ssize_t)place_at(record, passage, 3);
    for (uint32_t left = place_at(record, passage, 0) + 1; left; left--)
        if (!PyDict_Next(fields, &next, &name, &texts))
            return refuse_record();
    if (!PyTuple_Check(texts) || instance >= PyTuple_GET_SIZE(texts)
        || !PyUnicode_Check(PyTuple_GET_ITEM(texts, instance)))
        return refuse_record();
    PyObject *keys = take_keys(record, passage);
    if (keys == NULL)
        return NULL;
    PyObject *text = PyUnicode_Substring(PyTuple_GET_ITEM(texts, instance), start, end);
    return Py_BuildValue("OnnnNN", name, instance, start, end, text, keys);
}

static PyObject *cut_heaviest(
    PyObject *kept, PyObject *fields, PyObject *besides, const wanted_t *wanted) {
    uint8_t few[FEW_FIELDS], *left_out = few;
    char *data;
    Py_ssize_t size, best = -2;
    record_t record;
    if (!PyDict_Check(fields) || PyBytes_AsStringAndSize(kept, &data, &size) < 0)
        return PyErr_Format(PyExc_TypeError, "a record and the fields of a document are wanted");
    size_t num_fields = (size_t)PyDict_GET_SIZE(fields);
    if (num_fields > FEW_FIELDS)
        left_out = PyMem_Malloc(num_fields);
    if (left_out == NULL)
        return PyErr_NoMemory();
    if (mark_left_out(fields, besides, left_out) == 0 && read_record(data, size, &record))
        best = find_heaviest(&record, left_out, num_fields, wanted);
    if (left_out != few)
        PyMem_Free(left_out);
    if (PyErr_Occurred())
        return NULL;
    if (best == -1)
        return Py_NewRef(Py_None);
    return best < 0 ? refuse_record() : cut_passage(fields, &record, (size_t)best);
}

/* heaviest(records, fields, besides, keys, weights, telling_length, k1): the heaviest passage of
 * each document, or None. */
static PyObject *heaviest(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *records, *fields, *besides;
    const char *keys, *weights;
    Py_ssize_t keys_size, weights_size;
    wanted_t wanted;
    if (!PyArg_ParseTuple(args, "O!O!Oy#y#dd", &PyList_Type, &records, &PyList_Type, &fields,
            &besides, &keys, &keys_size, &weights, &weights_size, &wanted.telling, &wanted.k1))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(records);
    if (!read_wanted(keys, keys_size, weights, weights_size, &wanted)
        || PyList_GET_SIZE(fields) != count)
        return refuse_record();
    PyObject *list = PyList_New(count);
    for (Py_ssize_t at = 0; list != NULL && at < count; at++) {
        PyObject *found = cut_heaviest(
            PyList_GET_ITEM(records, at), PyList_GET_ITEM(fields, at), besides, &wanted);
        if (found == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, found);
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
uint32_t crc_of(const uint8_t *data, size_t size) {
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

size_t hash_runs(const uint8_t *text, uint32_t *starts, const uint32_t *ends, size_t count,
    size_t run, uint32_t *hashes) {
    size_t found = count >= run ? count - run + 1 : 0, kept = 0;
    for (size_t at = 0; at < found; at++)
        hashes[at] = crc_of(text + starts[at], ends[at + run - 1] - starts[at]);
    sort_hashes(hashes, starts, found);
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
    {"heaviest", heaviest, METH_VARARGS, NULL}, {"sketch", sketch, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

int add_text_functions(PyObject *module) {
    make_crc_table();
    return PyModule_AddFunctions(module, methods);
}
