/* Fields of a document as the JSON that the store keeps: what json.dumps writes of them, without
 * spaces and with all characters as they are; and what json.loads reads of that. */
#include "preparing.h"

#include <stdint.h>
#include <string.h>

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

#define EACH_BYTE(byte) (0x0101010101010101ULL * (byte))

/* Whether any of eight bytes is a quotation mark, a backslash or a control character. */
static inline int has_unusual(uint64_t bytes) {
    uint64_t quotes = bytes ^ EACH_BYTE('"'), slashes = bytes ^ EACH_BYTE('\\');
    uint64_t found = ((quotes - EACH_BYTE(1)) & ~quotes) | ((slashes - EACH_BYTE(1)) & ~slashes)
                     | ((bytes - EACH_BYTE(0x20)) & ~bytes);
    return (found & EACH_BYTE(0x80)) != 0;
}

/* Return how long the part of a string from `at` on is that is written as it is. */
static Py_ssize_t count_usual(PyObject *string, Py_ssize_t at) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(string), start = at;
    const void *data = PyUnicode_DATA(string);
    int kind = (int)PyUnicode_KIND(string);
    uint64_t bytes = 0;
    for (; kind == PyUnicode_1BYTE_KIND && size - at >= 8; at += 8) {
        memcpy(&bytes, (const uint8_t *)data + at, sizeof bytes);
        if (has_unusual(bytes))
            break;
    }
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

static PyObject *make_content(PyObject *fields, PyObject *metadata) {
    Written counted = {NULL, 0, PyUnicode_MAX_CHAR_VALUE(metadata)}, written = {NULL, 0, 0};
    if (put_all(&counted, fields) < 0)
        return NULL;
    Py_ssize_t size = PyUnicode_GET_LENGTH(metadata);
    written.text = PyUnicode_New(counted.size + size + 1, counted.most);
    if (written.text == NULL)
        return NULL;
    if (put_all(&written, fields) < 0
        || PyUnicode_CopyCharacters(written.text, written.size, metadata, 0, size) < 0) {
        Py_DECREF(written.text);
        return NULL;
    }
    written.size += size;
    put(&written, '}');
    return written.text;
}

/* write_content(fields, metadata): fields, and metadata that is written already, as one text. */
PyObject *write_content(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *fields, *metadata;
    if (!PyArg_ParseTuple(args, "O!U", &PyDict_Type, &fields, &metadata))
        return NULL;
    return make_content(fields, metadata);
}

/* Whether this is a text that UTF-8 can write: none with halves of characters. */
static int is_usual_text(PyObject *text) {
    if (!PyUnicode_CheckExact(text))
        return 0;
    int kind = (int)PyUnicode_KIND(text);
    for (Py_ssize_t at = 0; kind != PyUnicode_1BYTE_KIND && at < PyUnicode_GET_LENGTH(text); at++)
        if (Py_UNICODE_IS_SURROGATE(PyUnicode_READ(kind, PyUnicode_DATA(text), at)))
            return 0;
    return 1;
}

static int is_usual_name(PyObject *name) {
    return is_usual_text(name) && PyUnicode_GET_LENGTH(name)
           && !(PyUnicode_GET_LENGTH(name) == 1 && PyUnicode_READ_CHAR(name, 0) == '*');
}

static int is_usual_docid(PyObject *docid, Py_ssize_t longest) {
    if (!PyUnicode_CheckExact(docid) || !PyUnicode_IS_ASCII(docid)
        || PyUnicode_GET_LENGTH(docid) > longest || !PyUnicode_GET_LENGTH(docid))
        return 0;
    size_t size = (size_t)PyUnicode_GET_LENGTH(docid);
    return memchr(PyUnicode_1BYTE_DATA(docid), 0, size) == NULL;
}

static int are_usual(PyObject *fields) {
    PyObject *name, *texts;
    Py_ssize_t at = 0, size = 0;
    while (PyDict_Next(fields, &at, &name, &texts)) {
        if (!is_usual_name(name) || !PyTuple_CheckExact(texts))
            return 0;
        for (Py_ssize_t each = 0; each < PyTuple_GET_SIZE(texts); each++) {
            if (!is_usual_text(PyTuple_GET_ITEM(texts, each)))
                return 0;
            size |= PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(texts, each));
        }
    }
    return size > 0;
}

/* write_usual(docid, fields, longest): the same of a document without metadata that surely can be
 * stored; None where Python has to look. */
PyObject *write_usual(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *docid, *fields;
    Py_ssize_t longest;
    if (!PyArg_ParseTuple(args, "OOn", &docid, &fields, &longest))
        return NULL;
    if (!PyDict_CheckExact(fields) || !is_usual_docid(docid, longest) || !are_usual(fields))
        return Py_NewRef(Py_None);
    PyObject *none = PyUnicode_FromString("{}");
    PyObject *content = none ? make_content(fields, none) : NULL;
    Py_XDECREF(none);
    return content;
}

/* Reading back -------------------------------------------------------------------------------- */

/* Go past plain text, if it stands there. */
static int skip(PyObject *content, Py_ssize_t *at, const char *text) {
    Py_ssize_t next = *at;
    for (; *text; text++, next++)
        if (next >= PyUnicode_GET_LENGTH(content)
            || PyUnicode_READ_CHAR(content, next) != (Py_UCS4)*text)
            return 0;
    *at = next;
    return 1;
}

/* Return the character that stands behind a backslash; 0 where Python has to say. */
static Py_UCS4 unescaped(PyObject *content, Py_ssize_t at) {
    static const char letters[] = "nrtfb\"\\/", meant[] = "\n\r\t\f\b\"\\/";
    Py_UCS4 each = at < PyUnicode_GET_LENGTH(content) ? PyUnicode_READ_CHAR(content, at) : 0;
    const char *found = each && each < 128 ? strchr(letters, (int)each) : NULL;
    return found ? (Py_UCS4)meant[found - letters] : 0;
}

/* Return the text of a string from `at` up to `end`, in which so many characters are escaped. */
static PyObject *unescape(PyObject *content, Py_ssize_t at, Py_ssize_t end, Py_ssize_t escaped) {
    Py_ssize_t size = end - at - escaped;
    PyObject *wide = PyUnicode_New(size, PyUnicode_MAX_CHAR_VALUE(content));
    for (Py_ssize_t next = 0; wide && at < end;) {
        Py_ssize_t usual = count_usual(content, at);
        if (usual && PyUnicode_CopyCharacters(wide, next, content, at, usual) < 0)
            Py_CLEAR(wide);
        next += usual;
        at += usual;
        if (wide && at < end) {
            PyUnicode_WRITE(
                PyUnicode_KIND(wide), PyUnicode_DATA(wide), next, unescaped(content, at + 1));
            next++;
            at += 2;
        }
    }
    if (wide == NULL || PyUnicode_IS_ASCII(wide))
        return wide;
    PyObject *text =
        PyUnicode_FromKindAndData((int)PyUnicode_KIND(wide), PyUnicode_DATA(wide), size);
    Py_DECREF(wide); /* as wide as all of the content: perhaps too wide */
    return text;
}

/* Read a string without characters that are written by their numbers; NULL where it is no such. */
static PyObject *read_string(PyObject *content, Py_ssize_t *at) {
    Py_ssize_t escaped = 0;
    if (!skip(content, at, "\""))
        return NULL;
    Py_ssize_t start = *at, end = start + count_usual(content, start);
    while (end < PyUnicode_GET_LENGTH(content) && PyUnicode_READ_CHAR(content, end) == '\\') {
        if (!unescaped(content, end + 1))
            return NULL;
        escaped++;
        end += 2;
        end += count_usual(content, end);
    }
    *at = end;
    return !skip(content, at, "\"") ? NULL
           : escaped               ? unescape(content, start, end, escaped)
                                   : PyUnicode_Substring(content, start, end);
}

/* Read a list of such strings. */
static PyObject *read_strings(PyObject *content, Py_ssize_t *at) {
    PyObject *texts = skip(content, at, "[") ? PyList_New(0) : NULL;
    if (texts == NULL || skip(content, at, "]"))
        return texts;
    do {
        PyObject *text = read_string(content, at);
        int failed = text == NULL || PyList_Append(texts, text) < 0;
        Py_XDECREF(text);
        if (failed) {
            Py_DECREF(texts);
            return NULL;
        }
    } while (skip(content, at, ","));
    if (!skip(content, at, "]"))
        Py_CLEAR(texts);
    return texts;
}

static int read_field(PyObject *content, Py_ssize_t *at, PyObject *fields) {
    PyObject *name = read_string(content, at);
    PyObject *texts = name && skip(content, at, ":") ? read_strings(content, at) : NULL;
    int failed = texts == NULL || PyDict_SetItem(fields, name, texts) < 0;
    Py_XDECREF(name);
    Py_XDECREF(texts);
    return failed ? -1 : 0;
}

/* read_fields(content): the fields of what write_content wrote without metadata; None where Python
 * has to read it. */
PyObject *read_fields(PyObject *Py_UNUSED(module), PyObject *content) {
    Py_ssize_t at = 0;
    PyObject *fields = PyDict_New();
    if (fields == NULL)
        return NULL;
    int failed = !PyUnicode_Check(content) || !skip(content, &at, "{\"fields\":{");
    if (!failed && !skip(content, &at, "}")) {
        do
            failed = read_field(content, &at, fields) < 0;
        while (!failed && skip(content, &at, ","));
        failed = failed || !skip(content, &at, "}");
    }
    failed = failed || !skip(content, &at, ",\"metadata\":{}}")
             || at != PyUnicode_GET_LENGTH(content);
    if (!failed)
        return fields;
    Py_DECREF(fields);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
