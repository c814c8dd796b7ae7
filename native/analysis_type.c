/* The analysis of portions as Python sees it: documents and passages in, texts, records and counts
 * out. */
#include "analysis_type.h"

#include "intake.h"

#define MOST_STRINGS (16u << 20) /* bytes of chunks that are kept from one portion to the next */

typedef struct {
    PyObject_HEAD PyObject *of_words, *of_chunk;
    Chunks chunks;
    uint32_t most;
    int is_busy;
} AnalysisObject;

static int analysis_init(AnalysisObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    PyObject *of_words, *of_chunk;
    unsigned most;
    if (!PyArg_ParseTuple(args, "OOI", &of_words, &of_chunk, &most))
        return -1;
    if (self->of_words != NULL) {
        PyErr_SetString(PyExc_TypeError, "an analysis is made once");
        return -1;
    }
    if (chunks_init(&self->chunks) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    self->of_words = Py_NewRef(of_words);
    self->of_chunk = Py_NewRef(of_chunk);
    self->most = most;
    return 0;
}

static void analysis_free(AnalysisObject *self) {
    PyObject_GC_UnTrack(self);
    chunks_free(&self->chunks);
    Py_XDECREF(self->of_words);
    Py_XDECREF(self->of_chunk);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int analysis_traverse(AnalysisObject *self, visitproc visit, void *arg) {
    Py_VISIT(self->of_words);
    Py_VISIT(self->of_chunk);
    return 0;
}

/* Work on a portion; Python waits for none of it but the asking. */
static int work_on(AnalysisObject *self, Portion *portion) {
    int failed;
    Py_BEGIN_ALLOW_THREADS failed = portion_read(portion, &self->chunks);
    Py_END_ALLOW_THREADS if (failed) return NO_MEMORY;
    if (chunks_ask(&self->chunks, self->of_words, self->of_chunk) < 0)
        return RAISED;
    Py_BEGIN_ALLOW_THREADS failed = portion_write(portion, &self->chunks);
    Py_END_ALLOW_THREADS return failed ? NO_MEMORY : 0;
}

/* Texts, records and counts out --------------------------------------------------------------- */

/* Return text that is UTF-8 of whole terms, with one space between them. */
static PyObject *make_text(const uint8_t *data, size_t size) {
    size_t at = 0;
    while (at < size && data[at] < 128)
        at++;
    if (at < size)
        return PyUnicode_DecodeUTF8((const char *)data, (Py_ssize_t)size, NULL);
    PyObject *text = PyUnicode_New((Py_ssize_t)size, 127);
    if (text && size)
        memcpy(PyUnicode_1BYTE_DATA(text), data, size);
    return text;
}

static PyObject *make_texts(const Portion *portion, const Field *field) {
    PyObject *texts = PyList_New((Py_ssize_t)field->num_instances);
    for (size_t at = 0; texts && at < field->num_instances; at++) {
        const Instance *own = INSTANCE(portion, field->first_instance + at);
        PyObject *text =
            make_text(portion->joined.data + own->joined, own->joined_end - own->joined);
        if (text == NULL)
            Py_CLEAR(texts);
        else
            PyList_SET_ITEM(texts, (Py_ssize_t)at, text);
    }
    return texts;
}

static PyObject *make_document(
    const Portion *portion, const PortionDocument *document, PyObject *fields) {
    PyObject *made = PyDict_New(), *name, *given;
    Py_ssize_t at = 0;
    size_t number = document->first_field, end = number + document->num_fields;
    while (made && PyDict_Next(fields, &at, &name, &given) && number < end) {
        PyObject *texts = make_texts(portion, FIELD(portion, number++));
        if (texts == NULL || PyDict_SetItem(made, name, texts) < 0)
            Py_CLEAR(made);
        Py_XDECREF(texts);
    }
    return made;
}

/* Return the joined texts of all documents, and their records. */
static int make_documents(
    const Portion *portion, PyObject *documents, PyObject **texts, PyObject **records) {
    Py_ssize_t count = (Py_ssize_t)COUNT(portion->documents, PortionDocument);
    *texts = PyTuple_New(count);
    *records = PyTuple_New(count);
    for (Py_ssize_t at = 0; *texts && *records && at < count; at++) {
        const PortionDocument *own = DOCUMENT(portion, at);
        PyObject *text = make_document(portion, own, PyList_GET_ITEM(documents, at));
        PyObject *record =
            PyBytes_FromStringAndSize((const char *)portion->records.data + own->record,
                (Py_ssize_t)(own->record_end - own->record));
        if (text == NULL || record == NULL) {
            Py_XDECREF(text);
            Py_XDECREF(record);
            return -1;
        }
        PyTuple_SET_ITEM(*texts, at, text);
        PyTuple_SET_ITEM(*records, at, record);
    }
    return *texts && *records ? 0 : -1;
}

/* Return in how many documents each term of a view is. */
static PyObject *make_frequencies(const Chunks *chunks, const View *view) {
    const uint32_t *met = (const uint32_t *)view->met.data;
    size_t count = COUNT(view->met, uint32_t);
    PyObject *frequencies = PyDict_New();
    for (size_t at = 0; at < count; at++)
        chunks_term(chunks, met[at])->counted++;
    for (size_t at = 0; at < count; at++) {
        NumberedTerm *term = chunks_term(chunks, met[at]);
        if (!term->counted)
            continue;
        PyObject *number = frequencies ? PyLong_FromUnsignedLong(term->counted) : NULL;
        term->counted = 0;
        if (number == NULL || PyDict_SetItem(frequencies, term->text, number) < 0)
            Py_CLEAR(frequencies);
        Py_XDECREF(number);
    }
    return frequencies;
}

static int add_counts(PyObject *counts, const Chunks *chunks, PyObject *name, const View *view,
    int is_alone) {
    if (!view->is_met)
        return 0;
    PyObject *frequencies = make_frequencies(chunks, view);
    PyObject *entry = frequencies ? Py_BuildValue("OiKN", name, is_alone,
                                        (unsigned long long)view->length, frequencies)
                                  : NULL;
    int failed = entry == NULL || PyList_Append(counts, entry) < 0;
    Py_XDECREF(entry);
    return failed ? -1 : 0;
}

/* Return what is counted, view by view; the last one, of all fields together, has no name. */
static PyObject *make_counts(const Intake *intake, const Chunks *chunks) {
    const Portion *portion = &intake->portion;
    PyObject *counts = PyList_New(0), *name, *number;
    Py_ssize_t at = 0;
    size_t view = 0;
    while (counts && PyDict_Next(intake->names, &at, &name, &number)) {
        if (add_counts(counts, chunks, name, VIEW(portion, view, ALONE), 1) < 0
            || add_counts(counts, chunks, name, VIEW(portion, view, SHARED), 0) < 0)
            Py_CLEAR(counts);
        view++;
    }
    if (counts && add_counts(counts, chunks, Py_None, &portion->everything, 0) < 0)
        Py_CLEAR(counts);
    return counts;
}

static PyObject *make_all(const Intake *intake, const Chunks *chunks, PyObject *documents) {
    PyObject *texts = NULL, *records = NULL, *counts = NULL, *made = NULL;
    if (make_documents(&intake->portion, documents, &texts, &records) == 0
        && (counts = make_counts(intake, chunks)) != NULL)
        made = PyTuple_Pack(3, texts, records, counts);
    Py_XDECREF(texts);
    Py_XDECREF(records);
    Py_XDECREF(counts);
    return made;
}

/* read(documents, places): the joined texts of each document, its record, and what is counted in
 * all; None where something is not as the store writes it. */
static PyObject *analysis_read(AnalysisObject *self, PyObject *args) {
    PyObject *documents, *places, *made = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &documents, &PyList_Type, &places))
        return NULL;
    if (self->of_words == NULL || self->is_busy)
        return PyErr_Format(PyExc_RuntimeError, "an analysis does one portion at a time");
    Intake intake = {0};
    self->is_busy = 1;
    int failed = intake_take(&intake, documents, places);
    if (!failed)
        failed = work_on(self, &intake.portion);
    if (!failed)
        made = make_all(&intake, &self->chunks, documents);
    if (failed == NO_MEMORY)
        PyErr_NoMemory();
    if (made == NULL || chunks_count(&self->chunks) >= self->most
        || self->chunks.strings.size > MOST_STRINGS)
        chunks_forget(&self->chunks);
    self->is_busy = 0;
    intake_free(&intake);
    return failed == UNUSUAL ? Py_NewRef(Py_None) : made;
}

static PyMethodDef analysis_methods[] = {
    {"read", (PyCFunction)analysis_read, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyTypeObject AnalysisType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "quoth.native.Analysis",
    .tp_basicsize = sizeof(AnalysisObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)analysis_init,
    .tp_dealloc = (destructor)analysis_free,
    .tp_traverse = (traverseproc)analysis_traverse,
    .tp_methods = analysis_methods,
};

int add_analysis_type(PyObject *module) {
    if (PyType_Ready(&AnalysisType) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Analysis", (PyObject *)&AnalysisType);
}
