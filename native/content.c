/* Fields of a document as the JSON that the store keeps: what json.dumps writes of them, without
 * spaces and with all characters as they are. */
#include "preparing.h"

#include <stdint.h>

static const char digits[] = "0123456789abcdef";

/* How a character is written: 1 as it is, 2 behind a backslash, 6 by its number. */
static inline unsigned size_of(Py_UCS4 each) {
    if (each >= 0x20)
        return each == '"' || each == '\\' ? 2 : 1;
    return each == '\n' || each == '\r' || each == '\t' || each == '\f' || each == '\b' ? 2 : 6;
}

static Py_UCS4 letter_of(Py_UCS4 each) {
    switch (each) {
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\f':
        return 'f';
    case '\b':
        return 'b';
    default:
        return each;
    }
}

/* What is written so far; first its length is counted, then the text is made. */
typedef struct {
    PyObject *text; /* NULL while counting */
    Py_ssize_t size;
    Py_UCS4 most;
} Written;

static void put(Written *written, Py_UCS4 each) {
    if (written->text)
        PyUnicode_WRITE(PyUnicode_KIND(written->text), PyUnicode_DATA(written->text), written->size,
            each);
    written->size++;
}

static void put_plain(Written *written, const char *text) {
    while (*text)
        put(written, (Py_UCS4)*text++);
}

static void put_escaped(Written *written, Py_UCS4 each) {
    unsigned size = size_of(each);
    if (size > 1)
        put(written, '\\');
    if (size < 6) {
        put(written, letter_of(each));
        return;
    }
    put_plain(written, "u00");
    put(written, (Py_UCS4)digits[each >> 4]);
    put(written, (Py_UCS4)digits[each & 15]);
}

/* Return how long the part of a string from `at` on is that is written as it is. */
static Py_ssize_t count_usual(PyObject *string, Py_ssize_t at) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(string), start = at;
    const void *data = PyUnicode_DATA(string);
    int kind = (int)PyUnicode_KIND(string);
    if (kind == PyUnicode_1BYTE_KIND)
        while (at < size && size_of(((const uint8_t *)data)[at]) == 1)
            at++;
    else
        while (at < size && size_of(PyUnicode_READ(kind, data, at)) == 1)
            at++;
    return at - start;
}

static int put_string(Written *written, PyObject *string) {
    if (!PyUnicode_Check(string)) {
        PyErr_SetString(PyExc_TypeError, "a text is wanted");
        return -1;
    }
    if (PyUnicode_MAX_CHAR_VALUE(string) > written->most)
        written->most = PyUnicode_MAX_CHAR_VALUE(string);
    put(written, '"');
    for (Py_ssize_t at = 0; at < PyUnicode_GET_LENGTH(string); at++) {
        Py_ssize_t usual = count_usual(string, at);
        if (usual && written->text
            && PyUnicode_CopyCharacters(written->text, written->size, string, at, usual) < 0)
            return -1;
        written->size += usual;
        at += usual;
        if (at < PyUnicode_GET_LENGTH(string))
            put_escaped(written, PyUnicode_READ_CHAR(string, at));
    }
    put(written, '"');
    return 0;
}

static int put_field(Written *written, PyObject *name, PyObject *texts) {
    if (!PyTuple_Check(texts)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of texts is wanted");
        return -1;
    }
    if (put_string(written, name) < 0)
        return -1;
    put_plain(written, ":[");
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(texts); at++) {
        if (at)
            put(written, ',');
        if (put_string(written, PyTuple_GET_ITEM(texts, at)) < 0)
            return -1;
    }
    put(written, ']');
    return 0;
}

static int put_all(Written *written, PyObject *fields) {
    PyObject *name, *texts;
    Py_ssize_t at = 0;
    int is_first = 1;
    put_plain(written, "{\"fields\":{");
    while (PyDict_Next(fields, &at, &name, &texts)) {
        if (!is_first)
            put(written, ',');
        is_first = 0;
        if (put_field(written, name, texts) < 0)
            return -1;
    }
    put_plain(written, "},\"metadata\":");
    return 0;
}

/* write_content(fields, metadata): fields, and metadata that is written already, as one text. */
PyObject *write_content(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *fields, *metadata;
    if (!PyArg_ParseTuple(args, "O!U", &PyDict_Type, &fields, &metadata))
        return NULL;
    Written counted = {NULL, 0, PyUnicode_MAX_CHAR_VALUE(metadata)}, written = {NULL, 0, 0};
    if (put_all(&counted, fields) < 0)
        return NULL;
    Py_ssize_t size = counted.size + PyUnicode_GET_LENGTH(metadata) + 1;
    written.text = PyUnicode_New(size, counted.most);
    if (written.text == NULL)
        return NULL;
    if (put_all(&written, fields) < 0
        || PyUnicode_CopyCharacters(written.text, written.size, metadata, 0,
               PyUnicode_GET_LENGTH(metadata))
               < 0) {
        Py_DECREF(written.text);
        return NULL;
    }
    written.size += PyUnicode_GET_LENGTH(metadata);
    put(&written, '}');
    return written.text;
}
