/* Words of plain text and their terms: what words.py does with regular expressions and a cache.
 *
 * A word is a run of letters and digits, apostrophes between them included, in lower case. Its term
 * comes from Python the first time, and is kept.
 */
#include "words_type.h"

#include <stdint.h>

#define LONGEST 64 /* longer words are asked for every time */

typedef struct {
    uint32_t hash, string, size;
    PyObject *term;
} Word;

typedef struct {
    PyObject_HEAD PyObject *look_up; /* word to term */
    Word *words;
    uint32_t room, count, most;
    char *strings;
    size_t strings_size, strings_room;
} WordsObject;

/* What a byte counts as within words: 0 for none, itself in lower case for others. */
static unsigned char lowered[128];

static void make_lowered(void) {
    for (unsigned byte = 0; byte < 128; byte++) {
        int is_upper = byte >= 'A' && byte <= 'Z', is_lower = byte >= 'a' && byte <= 'z';
        int is_digit = byte >= '0' && byte <= '9';
        lowered[byte] = (unsigned char)(is_upper ? byte + 32 : is_lower || is_digit ? byte : 0);
    }
}

static void forget(WordsObject *self) {
    for (uint32_t at = 0; at < self->room; at++)
        Py_CLEAR(self->words[at].term);
    self->count = 0;
    self->strings_size = 0;
}

static void words_free(WordsObject *self) {
    PyObject_GC_UnTrack(self);
    if (self->words)
        forget(self);
    PyMem_Free(self->words);
    PyMem_Free(self->strings);
    Py_XDECREF(self->look_up);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int words_traverse(WordsObject *self, visitproc visit, void *arg) {
    Py_VISIT(self->look_up);
    return 0;
}

static int words_init(WordsObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    PyObject *look_up;
    unsigned most;
    if (!PyArg_ParseTuple(args, "OI", &look_up, &most))
        return -1;
    if (self->words != NULL) {
        PyErr_SetString(PyExc_TypeError, "words are made once");
        return -1;
    }
    self->room = 1 << 12;
    self->words = PyMem_Calloc(self->room, sizeof(Word));
    if (self->words == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->most = most;
    self->look_up = Py_NewRef(look_up);
    return 0;
}

static Word *find(const WordsObject *self, const char *word, uint32_t size, uint32_t hash) {
    uint32_t at = hash & (self->room - 1);
    for (; self->words[at].term; at = (at + 1) & (self->room - 1)) {
        Word *each = &self->words[at];
        if (each->hash == hash && each->size == size
            && memcmp(self->strings + each->string, word, size) == 0)
            break;
    }
    return &self->words[at];
}

static int grow(WordsObject *self) {
    uint32_t before = self->room;
    Word *old = self->words, *words = PyMem_Calloc((size_t)before * 2, sizeof(Word));
    if (words == NULL)
        return -1;
    for (uint32_t each = 0; each < before; each++) {
        uint32_t at = old[each].hash & (before * 2 - 1);
        if (!old[each].term)
            continue;
        while (words[at].term)
            at = (at + 1) & (before * 2 - 1);
        words[at] = old[each];
    }
    self->words = words;
    self->room = before * 2;
    PyMem_Free(old);
    return 0;
}

static int keep(WordsObject *self, const char *word, uint32_t size, uint32_t hash, PyObject *term) {
    if (self->count >= self->most)
        forget(self);
    if ((self->count + 1) * 2 > self->room && grow(self) < 0)
        return -1;
    if (self->strings_size + size > self->strings_room) {
        size_t room = self->strings_room * 2 + 4096;
        char *strings = PyMem_Realloc(self->strings, room);
        if (strings == NULL)
            return -1;
        self->strings = strings;
        self->strings_room = room;
    }
    Word *place = find(self, word, size, hash);
    if (place->term) /* another thread was here meanwhile */
        return 0;
    memcpy(self->strings + self->strings_size, word, size);
    Word fresh = {hash, (uint32_t)self->strings_size, size, Py_NewRef(term)};
    *place = fresh;
    self->strings_size += size;
    self->count++;
    return 0;
}

/* Return the term of a word, a new reference. */
static PyObject *term_of(WordsObject *self, const char *word, size_t size) {
    uint32_t hash = 2166136261u;
    for (size_t at = 0; at < size; at++)
        hash = (hash ^ (unsigned char)word[at]) * 16777619u;
    if (size <= LONGEST) {
        Word *known = find(self, word, (uint32_t)size, hash);
        if (known->term)
            return Py_NewRef(known->term);
    }
    PyObject *text = PyUnicode_FromStringAndSize(word, (Py_ssize_t)size);
    PyObject *term = text ? PyObject_CallOneArg(self->look_up, text) : NULL;
    Py_XDECREF(text);
    if (term && size <= LONGEST && keep(self, word, (uint32_t)size, hash, term) < 0) {
        Py_DECREF(term);
        return PyErr_NoMemory();
    }
    return term;
}

/* Find the next word at a place or behind it, and copy it in lower case where there is room for it;
 * 0 where there is none. */
static size_t next_word(const char *text, size_t size, size_t *at, char *word) {
    size_t next = *at, length = 0;
    while (next < size && !lowered[(unsigned char)text[next]])
        next++;
    *at = next;
    while (next < size) {
        unsigned char byte = lowered[(unsigned char)text[next]];
        int joins = !byte && text[next] == '\'' && next + 1 < size
                    && lowered[(unsigned char)text[next + 1]];
        if (!byte && !joins)
            break;
        if (word)
            word[length] = joins ? '\'' : (char)byte;
        length++;
        next++;
    }
    return length;
}

/* Return the bytes of plain text, and room for the longest word in it. */
static const char *plain(PyObject *text, size_t *size, char **word) {
    if (!PyUnicode_Check(text) || !PyUnicode_IS_ASCII(text)) {
        PyErr_SetString(PyExc_ValueError, "plain text is wanted");
        return NULL;
    }
    *size = (size_t)PyUnicode_GET_LENGTH(text);
    *word = PyMem_Malloc(*size + 1);
    if (*word == NULL)
        PyErr_NoMemory();
    return *word ? (const char *)PyUnicode_1BYTE_DATA(text) : NULL;
}

/* terms(text): the term of each word, in order. */
static PyObject *words_terms(WordsObject *self, PyObject *text) {
    size_t size, length;
    char *word;
    const char *data = plain(text, &size, &word);
    PyObject *terms = data ? PyList_New(0) : NULL;
    for (size_t at = 0; terms && (length = next_word(data, size, &at, word)); at += length) {
        PyObject *term = term_of(self, word, length);
        if (term == NULL || PyList_Append(terms, term) < 0)
            Py_CLEAR(terms);
        Py_XDECREF(term);
    }
    if (data)
        PyMem_Free(word);
    return terms;
}

/* Return a bit for the hash of each wanted term, so that most others need not be looked for; 0 with
 * an error. */
static uint64_t mark_hashes(PyObject *wanted) {
    uint64_t marks = 0;
    PyObject *terms = PyObject_GetIter(wanted), *term;
    while (terms && (term = PyIter_Next(terms))) {
        marks |= (uint64_t)1 << (PyObject_Hash(term) & 63);
        Py_DECREF(term);
    }
    Py_XDECREF(terms);
    return PyErr_Occurred() ? 0 : marks;
}

static int is_among(PyObject *wanted, uint64_t marks, PyObject *term) {
    Py_hash_t hash = PyObject_Hash(term);
    if (hash == -1)
        return -1;
    return marks >> (hash & 63) & 1 ? PySequence_Contains(wanted, term) : 0;
}

/* Add start, end and term of a word if its term is wanted. */
static int place_word(WordsObject *self, const char *word, size_t at, size_t length,
    PyObject *wanted, uint64_t marks, PyObject *placed) {
    PyObject *term = term_of(self, word, length);
    int is_wanted = term ? is_among(wanted, marks, term) : -1;
    PyObject *found = is_wanted > 0 ? Py_BuildValue("nnO", at, at + length, term) : NULL;
    int failed = is_wanted < 0 || (is_wanted && (!found || PyList_Append(placed, found) < 0));
    Py_XDECREF(found);
    Py_XDECREF(term);
    return failed ? -1 : 0;
}

/* place(text, wanted): start, end and term of each word whose term is wanted. */
static PyObject *words_place(WordsObject *self, PyObject *args) {
    PyObject *text, *wanted;
    size_t size, length;
    char *word;
    if (!PyArg_ParseTuple(args, "UO", &text, &wanted))
        return NULL;
    uint64_t marks = mark_hashes(wanted);
    if (PyErr_Occurred())
        return NULL;
    const char *data = plain(text, &size, &word);
    PyObject *placed = data ? PyList_New(0) : NULL;
    for (size_t at = 0; placed && (length = next_word(data, size, &at, word)); at += length)
        if (place_word(self, word, at, length, wanted, marks, placed) < 0)
            Py_CLEAR(placed);
    if (data)
        PyMem_Free(word);
    return placed;
}

static int is_key(const char *keys, size_t count, uint32_t key) {
    for (size_t at = 0; at < count; at++)
        if (memcmp(keys + 4 * at, &key, sizeof key) == 0)
            return 1;
    return 0;
}

/* place_known(text, wanted, keys, wanted_keys): what `place` finds, looking only at words whose key
 * is one of those wanted; `keys` has that of each word. None where it has not. */
static PyObject *words_place_known(WordsObject *self, PyObject *args) {
    PyObject *text, *wanted;
    const char *keys, *wanted_keys;
    Py_ssize_t keys_size, wanted_size;
    size_t size, length, words = 0;
    char *word;
    if (!PyArg_ParseTuple(
            args, "UOy#y#", &text, &wanted, &keys, &keys_size, &wanted_keys, &wanted_size))
        return NULL;
    const char *data = plain(text, &size, &word);
    PyObject *placed = data ? PyList_New(0) : NULL;
    size_t count = (size_t)keys_size / 4;
    for (size_t at = 0; placed && (length = next_word(data, size, &at, NULL)); at += length) {
        uint32_t key;
        if (words++ >= count)
            break;
        memcpy(&key, keys + 4 * (words - 1), sizeof key);
        if (!is_key(wanted_keys, (size_t)wanted_size / 4, key))
            continue;
        next_word(data, size, &at, word);
        if (place_word(self, word, at, length, wanted, UINT64_MAX, placed) < 0)
            Py_CLEAR(placed);
    }
    if (data)
        PyMem_Free(word);
    if (placed && words != count)
        Py_SETREF(placed, Py_NewRef(Py_None));
    return placed;
}

static PyMethodDef words_methods[] = {{"terms", (PyCFunction)words_terms, METH_O, NULL},
    {"place", (PyCFunction)words_place, METH_VARARGS, NULL},
    {"place_known", (PyCFunction)words_place_known, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyTypeObject WordsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "quoth.native.Words",
    .tp_basicsize = sizeof(WordsObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)words_init,
    .tp_dealloc = (destructor)words_free,
    .tp_traverse = (traverseproc)words_traverse,
    .tp_methods = words_methods,
};

int add_words_type(PyObject *module) {
    make_lowered();
    if (PyType_Ready(&WordsType) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Words", (PyObject *)&WordsType);
}
