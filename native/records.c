/* Records made sooner: a frozen dataclass with slots sets each value by a call of its own, which
 * costs more than all else that is done with most records. */
#include "records.h"

#include <structmember.h>

typedef struct {
    PyObject_VAR_HEAD vectorcallfunc call;
    PyTypeObject *made;
    Py_ssize_t offsets[1]; /* of its slots, in order */
} MakerObject;

static void maker_free(MakerObject *self) {
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->made);
    PyObject_GC_Del(self);
}

static int maker_traverse(MakerObject *self, visitproc visit, void *arg) {
    Py_VISIT(self->made);
    return 0;
}

/* Make a record of all its values, in order. */
static PyObject *maker_call(
    PyObject *callable, PyObject *const *values, size_t flags, PyObject *names) {
    const MakerObject *self = (MakerObject *)callable;
    if (names != NULL || PyVectorcall_NARGS(flags) != Py_SIZE(self))
        return PyErr_Format(PyExc_TypeError, "%s is made of %zd values, in order",
            self->made->tp_name, Py_SIZE(self));
    PyObject *record = self->made->tp_alloc(self->made, 0);
    for (Py_ssize_t at = 0; record && at < Py_SIZE(self); at++)
        *(PyObject **)((char *)record + self->offsets[at]) = Py_NewRef(values[at]);
    return record;
}

static PyTypeObject MakerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "quoth.native.Maker",
    .tp_basicsize = offsetof(MakerObject, offsets),
    .tp_itemsize = sizeof(Py_ssize_t),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(MakerObject, call),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = (destructor)maker_free,
    .tp_traverse = (traverseproc)maker_traverse,
};

/* Return where in a record a slot lies, -1 with an error where it is no plain slot. */
static Py_ssize_t find_slot(PyTypeObject *type, PyObject *name) {
    PyObject *found = PyObject_GetAttr((PyObject *)type, name);
    Py_ssize_t offset = -1;
    if (found && Py_IS_TYPE(found, &PyMemberDescr_Type)
        && ((PyMemberDescrObject *)found)->d_common.d_type == type
        && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX)
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else if (found)
        PyErr_Format(PyExc_TypeError, "%S of %s is no slot", name, type->tp_name);
    Py_XDECREF(found);
    return offset;
}

/* maker(record): what makes records of a class of all their values, in order of its slots. */
static PyObject *maker(PyObject *Py_UNUSED(module), PyObject *type) {
    if (!PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "a class is wanted");
    PyObject *slots = PyObject_GetAttrString(type, "__slots__");
    if (slots == NULL || !PyTuple_Check(slots)) {
        Py_XDECREF(slots);
        return PyErr_Format(PyExc_TypeError, "a class with a tuple of slots is wanted");
    }
    MakerObject *self = PyObject_GC_NewVar(MakerObject, &MakerType, PyTuple_GET_SIZE(slots));
    if (self != NULL) {
        self->call = maker_call;
        self->made = (PyTypeObject *)Py_NewRef(type);
    }
    for (Py_ssize_t at = 0; self && at < PyTuple_GET_SIZE(slots); at++) {
        self->offsets[at] = find_slot(self->made, PyTuple_GET_ITEM(slots, at));
        if (self->offsets[at] < 0) {
            Py_DECREF(self->made);
            PyObject_GC_Del(self);
            self = NULL;
        }
    }
    if (self != NULL)
        PyObject_GC_Track(self);
    Py_DECREF(slots);
    return (PyObject *)self;
}

static PyMethodDef methods[] = {{"maker", maker, METH_O, NULL}, {NULL, NULL, 0, NULL}};

int add_record_functions(PyObject *module) {
    return PyType_Ready(&MakerType) < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
