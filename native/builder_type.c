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

/* add(row, ((view, text), ...)) */
static PyObject *builder_object_add(BuilderObject *self, PyObject *args) {
    long long row;
    PyObject *texts;
    if (!PyArg_ParseTuple(args, "LO!", &row, &PyList_Type, &texts))
        return NULL;
    builder_begin(&self->builder);
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(texts); at++) {
        PyObject *text;
        unsigned char view;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(texts, at), "bU", &view, &text))
            return NULL;
        const char *data = PyUnicode_AsUTF8AndSize(text, &size);
        if (data == NULL)
            return NULL;
        if (builder_text(&self->builder, (const uint8_t *)data, (size_t)size,
                view < MAX_VIEWS ? view : NO_VIEW)
            < 0)
            return PyErr_NoMemory();
    }
    if (builder_end(&self->builder, row) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
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
