/* Segments as Python sees them. */
#include "postings_type.h"

#include "merger.h"
#include "searcher.h"

typedef struct {
    PyObject_HEAD unsigned count;
    Py_buffer *buffers;
    Segment *segments;
    uint8_t **gone; /* per segment: bits of the documents that are gone, or NULL */
} SegmentsObject;

static void segments_clear(SegmentsObject *self) {
    for (unsigned each = 0; each < self->count; each++) {
        PyBuffer_Release(&self->buffers[each]);
        PyMem_Free(self->gone[each]);
    }
    PyMem_Free(self->buffers);
    PyMem_Free(self->segments);
    PyMem_Free(self->gone);
    self->buffers = NULL;
    self->segments = NULL;
    self->gone = NULL;
    self->count = 0;
}

static void segments_free(SegmentsObject *self) {
    segments_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int take_segment(SegmentsObject *self, PyObject *data) {
    unsigned at = self->count;
    if (PyObject_GetBuffer(data, &self->buffers[at], PyBUF_SIMPLE) < 0)
        return -1;
    self->gone[at] = NULL;
    self->count++;
    const char *reason =
        segment_open(&self->segments[at], self->buffers[at].buf, (size_t)self->buffers[at].len);
    if (reason == NULL)
        return 0;
    PyErr_Format(PyExc_ValueError, "a segment of postings is damaged: %s", reason);
    return -1;
}

/* Mark the documents of some rows, ascending, as gone. */
static int mark_gone(SegmentsObject *self, const int64_t *rows, size_t count) {
    for (unsigned each = 0; each < self->count; each++) {
        const Segment *segment = &self->segments[each];
        uint64_t documents = segment->footer.num_documents;
        for (size_t at = 0; at < count && documents; at++) {
            if (rows[at] < segment->rows[0] || rows[at] > segment->rows[documents - 1])
                continue;
            int64_t document = segment_find_row(segment, rows[at]);
            if (document < 0)
                continue;
            if (!self->gone[each] && !(self->gone[each] = PyMem_Calloc(documents / 8 + 1, 1))) {
                PyErr_NoMemory();
                return -1;
            }
            self->gone[each][document >> 3] |= (uint8_t)(1 << (document & 7));
        }
    }
    return 0;
}

static int segments_init(SegmentsObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    PyObject *data, *given;
    Py_buffer gone = {0};
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &data, &given))
        return -1;
    size_t count = (size_t)PyList_GET_SIZE(data);
    segments_clear(self);
    self->buffers = PyMem_Calloc(count + 1, sizeof(Py_buffer));
    self->segments = PyMem_Calloc(count + 1, sizeof(Segment));
    self->gone = PyMem_Calloc(count + 1, sizeof(uint8_t *));
    if (!self->buffers || !self->segments || !self->gone) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t at = 0; at < count; at++)
        if (take_segment(self, PyList_GET_ITEM(data, (Py_ssize_t)at)) < 0)
            return -1;
    if (given == Py_None)
        return 0;
    if (PyObject_GetBuffer(given, &gone, PyBUF_SIMPLE) < 0)
        return -1;
    int failed = mark_gone(self, gone.buf, (size_t)gone.len / sizeof(int64_t));
    PyBuffer_Release(&gone);
    return failed;
}

static const uint8_t *const *gone_of(const SegmentsObject *self) {
    return (const uint8_t *const *)self->gone;
}

/* merge(start, end, handle, k1, averages, lengths) */
static PyObject *segments_merge(SegmentsObject *self, PyObject *args) {
    int handle, failed;
    unsigned start, end;
    PyObject *given;
    Py_buffer lengths;
    const double *averages;
    Scale scale;
    if (!PyArg_ParseTuple(args, "IIidOy*", &start, &end, &handle, &scale.k1, &given, &lengths))
        return NULL;
    if (lengths.len == sizeof scale.kept_lengths)
        memcpy(scale.kept_lengths, lengths.buf, sizeof scale.kept_lengths);
    int is_fit = lengths.len == sizeof scale.kept_lengths;
    PyBuffer_Release(&lengths);
    if (take_numbers(given, NUM_VIEWS, &averages) < 0)
        return NULL;
    if (!is_fit || averages == NULL)
        return PyErr_Format(PyExc_ValueError, "256 lengths and mean lengths are wanted");
    memcpy(scale.averages, averages, sizeof scale.averages);
    if (start >= end || end > self->count) {
        PyErr_SetString(PyExc_ValueError, "there are no such segments");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS failed =
        merge_segments(self->segments + start, gone_of(self) + start, end - start, handle, &scale);
    Py_END_ALLOW_THREADS if (failed) return explain(failed);
    Py_RETURN_NONE;
}

static PyObject *segments_digest(SegmentsObject *self, PyObject *Py_UNUSED(none)) {
    uint64_t digest = 0;
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS for (unsigned each = 0; !failed && each < self->count; each++) failed =
        digest_segment(&self->segments[each], self->gone[each], &digest);
    Py_END_ALLOW_THREADS return failed ? explain(failed) : PyLong_FromUnsignedLongLong(digest);
}

static PyObject *segments_counts(SegmentsObject *self, PyObject *Py_UNUSED(none)) {
    PyObject *counts = PyList_New(self->count);
    for (unsigned each = 0; counts != NULL && each < self->count; each++)
        PyList_SET_ITEM(
            counts, each, PyLong_FromUnsignedLongLong(self->segments[each].footer.num_documents));
    return counts;
}

static PyObject *segments_averages(SegmentsObject *self, PyObject *Py_UNUSED(none)) {
    PyObject *all = PyList_New(self->count);
    for (unsigned each = 0; all != NULL && each < self->count; each++) {
        const char *own = (const char *)self->segments[each].footer.averages;
        PyObject *bytes = PyBytes_FromStringAndSize(own, sizeof(double) * NUM_VIEWS);
        if (bytes == NULL)
            Py_CLEAR(all);
        else
            PyList_SET_ITEM(all, each, bytes);
    }
    return all;
}

/* Searching ----------------------------------------------------------------------------------- */

typedef struct {
    Wanted *wanted;
    Condition *conditions;
} Parsed;

static const uint8_t *take_text(PyObject *text, size_t *size) {
    Py_ssize_t length;
    const char *data = PyUnicode_AsUTF8AndSize(text, &length);
    *size = data ? (size_t)length : 0;
    return (const uint8_t *)data;
}

/* (term, weights, idf or None), ... */
static int parse_wanted(PyObject *tuple, Wanted *wanted) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(tuple); at++) {
        PyObject *term, *weights, *idf;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(tuple, at), "UOO", &term, &weights, &idf))
            return -1;
        wanted[at].term = take_text(term, &wanted[at].size);
        if (wanted[at].term == NULL || take_numbers(weights, NUM_VIEWS, &wanted[at].weights) < 0
            || take_numbers(idf, NUM_VIEWS, &wanted[at].idf) < 0)
            return -1;
        if (wanted[at].weights == NULL) {
            PyErr_SetString(PyExc_ValueError, "a term needs weights");
            return -1;
        }
    }
    return 0;
}

/* (term, view, is_required), ... */
static int parse_conditions(PyObject *tuple, Condition *conditions) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(tuple); at++) {
        PyObject *term;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(tuple, at), "UIp", &term, &conditions[at].view,
                &conditions[at].is_required))
            return -1;
        conditions[at].term = take_text(term, &conditions[at].size);
        if (conditions[at].term == NULL)
            return -1;
    }
    return 0;
}

static PyObject *as_list(const Bytes *found) {
    size_t count = found->size / sizeof(Found);
    const Found *each = (const Found *)found->data;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t at = 0; list != NULL && at < count; at++) {
        PyObject *pair = Py_BuildValue("Ld", (long long)each[at].row, each[at].score);
        if (pair == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)at, pair);
    }
    return list;
}

/* search(wanted, conditions, allowed, num_documents, norms, averages, k1, k) */
static PyObject *segments_search(SegmentsObject *self, PyObject *args) {
    PyObject *wanted, *conditions, *allowed, *norms, *found = NULL;
    unsigned long long num_documents;
    Py_ssize_t k;
    PyObject *averages;
    Search search = {0};
    if (!PyArg_ParseTuple(args, "O!O!OKO!Odn", &PyList_Type, &wanted, &PyList_Type, &conditions,
            &allowed, &num_documents, &PyTuple_Type, &norms, &averages, &search.k1, &k)
        || take_numbers(averages, NUM_VIEWS, &search.averages) < 0)
        return NULL;
    if (k < 0 || PyTuple_GET_SIZE(norms) != NUM_VIEWS || search.averages == NULL)
        return PyErr_Format(PyExc_ValueError, "a positive k and %d norms are wanted", NUM_VIEWS);
    for (unsigned view = 0; view < NUM_VIEWS; view++) {
        if (take_numbers(PyTuple_GET_ITEM(norms, view), 256, &search.norms[view]) < 0)
            return NULL;
        if (search.norms[view] == NULL)
            return PyErr_Format(PyExc_ValueError, "norms of every view are wanted");
    }
    Py_buffer rows = {0};
    if (allowed != Py_None && PyObject_GetBuffer(allowed, &rows, PyBUF_SIMPLE) < 0)
        return NULL;
    Bytes best = {0};
    search.num_wanted = (unsigned)PyList_GET_SIZE(wanted);
    search.num_conditions = (unsigned)PyList_GET_SIZE(conditions);
    Wanted *own = PyMem_Calloc(search.num_wanted + 1, sizeof *own);
    Condition *checks = PyMem_Calloc(search.num_conditions + 1, sizeof *checks);
    if (own == NULL || checks == NULL)
        PyErr_NoMemory();
    else if (parse_wanted(wanted, own) == 0 && parse_conditions(conditions, checks) == 0) {
        search.segments = self->segments;
        search.gone = gone_of(self);
        search.num_segments = self->count;
        search.wanted = own;
        search.conditions = checks;
        search.allowed = rows.buf;
        search.num_allowed = (size_t)rows.len / sizeof(int64_t);
        search.is_restricted = allowed != Py_None;
        search.num_documents = num_documents;
        search.k = (size_t)k;
        int failed;
        Py_BEGIN_ALLOW_THREADS failed = search_segments(&search, &best);
        Py_END_ALLOW_THREADS found = failed ? explain(failed) : as_list(&best);
    }
    PyMem_Free(own);
    PyMem_Free(checks);
    PyBuffer_Release(&rows);
    bytes_free(&best);
    return found;
}

static PyMethodDef segments_methods[] = {
    {"search", (PyCFunction)segments_search, METH_VARARGS, NULL},
    {"merge", (PyCFunction)segments_merge, METH_VARARGS, NULL},
    {"digest", (PyCFunction)segments_digest, METH_NOARGS, NULL},
    {"counts", (PyCFunction)segments_counts, METH_NOARGS, NULL},
    {"averages", (PyCFunction)segments_averages, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyTypeObject SegmentsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "quoth.native.Segments",
    .tp_basicsize = sizeof(SegmentsObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)segments_init,
    .tp_dealloc = (destructor)segments_free,
    .tp_methods = segments_methods,
};

int add_segments_type(PyObject *module) {
    if (PyType_Ready(&SegmentsType) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Segments", (PyObject *)&SegmentsType);
}
