/* The builder of segments as Python sees it. */
#include "postings_type.h"

#include "builder.h"

PyObject *explain(int failed) {
    if (failed == -2)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (failed == -3) {
        PyErr_SetString(PyExc_ValueError, "a segment of postings is damaged");
        return NULL;
    }
    return PyErr_NoMemory();
}

int take_numbers(PyObject *bytes, Py_ssize_t count, const double **numbers) {
    if (bytes == Py_None) {
        *numbers = NULL;
        return 0;
    }
    if (!PyBytes_Check(bytes) || PyBytes_GET_SIZE(bytes) != count * (Py_ssize_t)sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "numbers are wanted as bytes");
        return -1;
    }
    *numbers = (const double *)PyBytes_AS_STRING(bytes);
    return 0;
}

typedef struct {
    PyObject_HEAD Builder builder;
} BuilderObject;

static int builder_object_init(BuilderObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    Py_buffer lengths;
    unsigned default_view;
    if (!PyArg_ParseTuple(args, "y*I", &lengths, &default_view))
        return -1;
    int failed = 0;
    if (lengths.len != 256 * 4 || default_view >= MAX_VIEWS) {
        PyErr_SetString(PyExc_ValueError, "256 lengths and a view are wanted");
        failed = -1;
    } else {
        builder_free(&self->builder);
        failed = builder_init(&self->builder, lengths.buf, default_view);
        if (failed)
            PyErr_NoMemory();
    }
    PyBuffer_Release(&lengths);
    return failed;
}

static void builder_object_free(BuilderObject *self) {
    builder_free(&self->builder);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* A text of a document, and the view that it counts in. */
typedef struct {
    const uint8_t *data;
    size_t size;
    uint8_t view;
} ViewedText;

static int add_field(Bytes *texts, PyObject *name, PyObject *own, PyObject *views) {
    PyObject *number = PyDict_GetItemWithError(views, name);
    long view = number ? PyLong_AsLong(number) : NO_VIEW;
    if (PyErr_Occurred())
        return -1;
    if (!PyList_Check(own)) {
        PyErr_SetString(PyExc_TypeError, "a list of texts is wanted");
        return -1;
    }
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(own); at++) {
        Py_ssize_t size;
        const char *data = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(own, at), &size);
        ViewedText text = {(const uint8_t *)data, data ? (size_t)size : 0,
            view >= 0 && view < MAX_VIEWS ? (uint8_t)view : NO_VIEW};
        if (data == NULL)
            return -1;
        if (bytes_add(texts, &text, sizeof text) < 0) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* Gather the texts of documents from `start` on, and where those of each end. */
static int gather_texts(
    PyObject *documents, Py_ssize_t start, PyObject *views, Bytes *texts, Bytes *ends) {
    for (Py_ssize_t at = start; at < PyTuple_GET_SIZE(documents); at++) {
        PyObject *fields = PyTuple_GET_ITEM(documents, at), *name, *own;
        Py_ssize_t next = 0;
        if (!PyDict_Check(fields)) {
            PyErr_SetString(PyExc_TypeError, "the texts of fields are wanted");
            return -1;
        }
        while (PyDict_Next(fields, &next, &name, &own))
            if (add_field(texts, name, own, views) < 0)
                return -1;
        size_t end = texts->size / sizeof(ViewedText);
        if (bytes_add(ends, &end, sizeof end) < 0) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* Add documents until they take so much memory; returns how many, -1 where there is too little. */
static Py_ssize_t add_documents(
    Builder *builder, const int64_t *rows, const Bytes *texts, const Bytes *ends, size_t most) {
    const ViewedText *text = (const ViewedText *)texts->data;
    size_t count = ends->size / sizeof(size_t), added = 0;
    while (added < count && !(added && builder_size(builder) >= most)) {
        builder_begin(builder);
        const ViewedText *end =
            (const ViewedText *)texts->data + ((const size_t *)ends->data)[added];
        for (; text < end; text++)
            if (builder_text(builder, text->data, text->size, text->view) < 0)
                return -1;
        if (builder_end(builder, rows[added++]) < 0)
            return -1;
    }
    return (Py_ssize_t)added;
}

/* add(rows, documents, views, start, most): how many documents were added from `start` on until
 * `most` bytes were taken; rows as int64, documents as {field: [text, ...]}. */
static PyObject *builder_object_add(BuilderObject *self, PyObject *args) {
    Py_buffer rows;
    PyObject *documents, *views;
    Py_ssize_t start, added = -1;
    unsigned long long most;
    if (!PyArg_ParseTuple(args, "y*O!O!nK", &rows, &PyTuple_Type, &documents, &PyDict_Type, &views,
            &start, &most))
        return NULL;
    Bytes texts = {0}, ends = {0};
    if (start < 0 || rows.len != PyTuple_GET_SIZE(documents) * (Py_ssize_t)sizeof(int64_t))
        PyErr_SetString(PyExc_ValueError, "a row for each document is wanted");
    else if (gather_texts(documents, start, views, &texts, &ends) == 0) {
        const int64_t *first = (const int64_t *)rows.buf + start;
        Py_BEGIN_ALLOW_THREADS added = add_documents(&self->builder, first, &texts, &ends, most);
        Py_END_ALLOW_THREADS if (added < 0) PyErr_NoMemory();
    }
    bytes_free(&texts);
    bytes_free(&ends);
    PyBuffer_Release(&rows);
    return added < 0 ? NULL : PyLong_FromSsize_t(added);
}

static PyObject *builder_object_size(BuilderObject *self, PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(builder_size(&self->builder));
}

static PyObject *builder_object_count(BuilderObject *self, PyObject *Py_UNUSED(none)) {
    return PyLong_FromUnsignedLong(builder_num_documents(&self->builder));
}

/* write(handle, k1, averages or None) */
static PyObject *builder_object_write(BuilderObject *self, PyObject *args) {
    int handle, failed;
    double k1;
    PyObject *given;
    const double *averages;
    if (!PyArg_ParseTuple(args, "idO", &handle, &k1, &given)
        || take_numbers(given, NUM_VIEWS, &averages) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS failed = builder_write(&self->builder, handle, k1, averages);
    Py_END_ALLOW_THREADS if (failed) return explain(failed);
    Py_RETURN_NONE;
}

static PyMethodDef builder_methods[] = {
    {"add", (PyCFunction)builder_object_add, METH_VARARGS, NULL},
    {"size", (PyCFunction)builder_object_size, METH_NOARGS, NULL},
    {"count", (PyCFunction)builder_object_count, METH_NOARGS, NULL},
    {"write", (PyCFunction)builder_object_write, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyTypeObject BuilderType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "quoth.native.PostingsBuilder",
    .tp_basicsize = sizeof(BuilderObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)builder_object_init,
    .tp_dealloc = (destructor)builder_object_free,
    .tp_methods = builder_methods,
};

int add_builder_type(PyObject *module) {
    if (PyType_Ready(&BuilderType) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "PostingsBuilder", (PyObject *)&BuilderType);
}
