/* The table of terms, and asking Python for those of chunks that were not met before. */
#include "chunks.h"

#include "texts.h"

/* Give a term that is not known a number; -1 without memory. */
static int64_t take_term(Chunks *chunks, const NumberedTerm *fresh, uint32_t at) {
    uint32_t number = chunks_num_terms(chunks);
    if (bytes_add(&chunks->terms, fresh, sizeof *fresh) < 0)
        return -1;
    Py_INCREF(fresh->text);
    chunks->term_slots[at] = (Slot){fresh->hash, number + 1};
    int is_crowded = (uint64_t)(number + 1) * 2 > chunks->num_term_slots;
    int failed = is_crowded && grow_slots(&chunks->term_slots, &chunks->num_term_slots) < 0;
    return failed ? -1 : (int64_t)number;
}

/* Find the number of a term, or give it one; -1 where that fails, perhaps for want of memory. */
static int64_t find_term(Chunks *chunks, PyObject *text) {
    Py_ssize_t size;
    const char *data = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    if (data == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a term is no text");
        return -1;
    }
    uint32_t hash = hash_of(data, (size_t)size), at = hash & (chunks->num_term_slots - 1);
    for (; chunks->term_slots[at].number; at = (at + 1) & (chunks->num_term_slots - 1)) {
        const NumberedTerm *known = chunks_term(chunks, chunks->term_slots[at].number - 1);
        if (known->hash == hash && known->size == (size_t)size
            && memcmp(known->data, data, known->size) == 0)
            return chunks->term_slots[at].number - 1;
    }
    uint32_t key = crc_of((const uint8_t *)data, (size_t)size);
    NumberedTerm fresh = {text, data, hash, (uint32_t)size, key, 0, 0, 0};
    return take_term(chunks, &fresh, at);
}

static int is_plain(const Chunks *chunks, const Chunk *chunk) {
    const uint8_t *text = chunks->strings.data + chunk->string;
    for (size_t at = 0; at < chunk->size; at++)
        if (text[at] >= 128)
            return 0;
    return 1;
}

/* Return a chunk as Python knows it. */
static PyObject *make_string(const Chunks *chunks, const Chunk *chunk, int *is_full) {
    const char *text = (const char *)chunks->strings.data + chunk->string;
    *is_full = text[0] == IN_FULL;
    return PyUnicode_DecodeUTF8(
        text + *is_full, (Py_ssize_t)chunk->size - *is_full, "surrogatepass");
}

static Chunk *waiting_chunk(const Chunks *chunks, size_t at) {
    return CHUNK(chunks, ((const uint32_t *)chunks->waiting.data)[at]);
}

/* Number terms; several stand behind each other, an only one stands in its chunk. */
static int number_terms(Chunks *chunks, Chunk *chunk, PyObject *several) {
    size_t first = COUNT(chunks->numbers, uint32_t);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(several);
    if (first + (size_t)count >= UINT32_MAX)
        return -1;
    for (Py_ssize_t at = 0; at < count; at++) {
        int64_t term = find_term(chunks, PySequence_Fast_GET_ITEM(several, at));
        uint32_t own = (uint32_t)term;
        if (term < 0 || (count > 1 && bytes_add(&chunks->numbers, &own, sizeof own) < 0))
            return -1;
        chunk->first = count > 1 ? (uint32_t)first : own;
    }
    chunk->count = (uint32_t)count;
    return 0;
}

/* Ask for the terms of one chunk that is not plain. */
static int ask_for_chunk(Chunks *chunks, Chunk *chunk, PyObject *of_chunk) {
    int is_full;
    PyObject *string = make_string(chunks, chunk, &is_full);
    PyObject *full = is_full ? Py_True : Py_False;
    PyObject *found =
        string ? PyObject_CallFunctionObjArgs(of_chunk, string, full, NULL) : NULL;
    PyObject *several = found ? PySequence_Fast(found, "terms are wanted") : NULL;
    int failed = several ? number_terms(chunks, chunk, several) : -1;
    Py_XDECREF(several);
    Py_XDECREF(found);
    Py_XDECREF(string);
    return failed;
}

/* List the plain words that wait. */
static PyObject *list_words(const Chunks *chunks) {
    PyObject *words = PyList_New(0);
    int is_full;
    for (size_t at = 0; words && at < COUNT(chunks->waiting, uint32_t); at++) {
        const Chunk *chunk = waiting_chunk(chunks, at);
        if (!is_plain(chunks, chunk))
            continue;
        PyObject *word = make_string(chunks, chunk, &is_full);
        if (word == NULL || PyList_Append(words, word) < 0)
            Py_CLEAR(words);
        Py_XDECREF(word);
    }
    return words;
}

/* Give plain words, in the order in which they wait, their terms, and ask for those of others. */
static int take_answers(Chunks *chunks, PyObject *terms, PyObject *of_chunk) {
    Py_ssize_t next = 0;
    for (size_t at = 0; at < COUNT(chunks->waiting, uint32_t); at++) {
        Chunk *chunk = waiting_chunk(chunks, at);
        if (!is_plain(chunks, chunk)) {
            if (ask_for_chunk(chunks, chunk, of_chunk) < 0)
                return -1;
            continue;
        }
        int64_t term =
            next < PyList_GET_SIZE(terms) ? find_term(chunks, PyList_GET_ITEM(terms, next++)) : -1;
        if (term < 0)
            return -1;
        chunk->first = (uint32_t)term;
        chunk->count = 1;
    }
    return 0;
}

int chunks_ask(Chunks *chunks, PyObject *of_words, PyObject *of_chunk) {
    PyObject *words = list_words(chunks);
    PyObject *terms = words ? PyObject_CallOneArg(of_words, words) : NULL;
    int failed = -1;
    if (terms && (!PyList_Check(terms) || PyList_GET_SIZE(terms) != PyList_GET_SIZE(words)))
        PyErr_SetString(PyExc_TypeError, "a term for each word is wanted");
    else if (terms)
        failed = take_answers(chunks, terms, of_chunk);
    if (failed && !PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(terms);
    Py_XDECREF(words);
    chunks->waiting.size = 0;
    return failed;
}
