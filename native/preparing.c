/* What is stored of documents and follows from their texts alone: where passages stand, and
 * signatures. What compiled code does not know how to cut or sign is left to Python. */
#include "preparing.h"

#include "signing.h"

/* A text of a field; its passages are stretches from `first` to `last`. */
typedef struct {
    Text text;
    PyObject *field;
    Py_ssize_t instance;
    int is_cut; /* its field has passages */
    size_t first, last;
} FieldText;

/* A document: its texts, and its signature. */
typedef struct {
    size_t first_text, num_texts;
    size_t signature, signature_end;
    int is_cut, is_signed;
} Derived;

typedef struct {
    Bytes documents, texts, stretches, signatures, all;
    Signer signer;
    PyObject *held;
} Work;

#define NUM(bytes, type) ((bytes).size / sizeof(type))

static void free_work(Work *work) {
    bytes_free(&work->documents);
    bytes_free(&work->texts);
    bytes_free(&work->stretches);
    bytes_free(&work->signatures);
    bytes_free(&work->all);
    signer_free(&work->signer);
    Py_XDECREF(work->held);
}

/* Texts in ------------------------------------------------------------------------------------ */

static int take_texts(Work *work, PyObject *field, PyObject *texts, int is_cut) {
    if (!PyUnicode_Check(field) || !PyTuple_Check(texts)) {
        PyErr_SetString(PyExc_TypeError, "a field's name and a tuple of texts are wanted");
        return -1;
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(texts); at++) {
        PyObject *text = PyTuple_GET_ITEM(texts, at);
        if (!PyUnicode_Check(text)) {
            PyErr_SetString(PyExc_TypeError, "a text is wanted");
            return -1;
        }
        Text own = {PyUnicode_DATA(text), (int)PyUnicode_KIND(text),
            (size_t)PyUnicode_GET_LENGTH(text), PyUnicode_IS_ASCII(text)};
        FieldText taken = {own, field, at, is_cut, 0, 0};
        if (bytes_add(&work->texts, &taken, sizeof taken) < 0) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return PyList_Append(work->held, texts) < 0 || PyList_Append(work->held, field) < 0 ? -1 : 0;
}

/* Take in a document; `only` names the fields that have passages, none for all of them. */
static int take_document(Work *work, PyObject *fields, PyObject *only) {
    Derived derived = {NUM(work->texts, FieldText), 0, 0, 0, 1, 1};
    PyObject *field, *texts;
    Py_ssize_t at = 0;
    if (!PyDict_Check(fields)) {
        PyErr_SetString(PyExc_TypeError, "fields are wanted");
        return -1;
    }
    while (PyDict_Next(fields, &at, &field, &texts)) {
        int is_cut = PyTuple_GET_SIZE(only) ? PySequence_Contains(only, field) : 1;
        if (is_cut < 0 || take_texts(work, field, texts, is_cut) < 0)
            return -1;
    }
    derived.num_texts = NUM(work->texts, FieldText) - derived.first_text;
    if (bytes_add(&work->documents, &derived, sizeof derived) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Working, without Python --------------------------------------------------------------------- */

static int cut_document(Work *work, Derived *derived, size_t max_words) {
    FieldText *texts = (FieldText *)work->texts.data + derived->first_text;
    for (size_t at = 0; at < derived->num_texts && derived->is_cut; at++) {
        texts[at].first = NUM(work->stretches, Stretch);
        int failed =
            texts[at].is_cut ? cut_text(&texts[at].text, max_words, &work->stretches) : 0;
        if (failed < 0)
            return -1;
        derived->is_cut = !failed;
        texts[at].last = NUM(work->stretches, Stretch);
    }
    return 0;
}

static int sign_document(Work *work, Derived *derived, const SignatureForm *form) {
    const FieldText *texts = (const FieldText *)work->texts.data + derived->first_text;
    work->all.size = 0;
    for (size_t at = 0; at < derived->num_texts; at++)
        if (bytes_add(&work->all, &texts[at].text, sizeof(Text)) < 0)
            return -1;
    derived->signature = work->signatures.size;
    int failed = sign(&work->signer, (const Text *)work->all.data, derived->num_texts, form,
        &work->signatures);
    derived->is_signed = !failed;
    derived->signature_end = work->signatures.size;
    return failed < 0 ? -1 : 0;
}

static int derive_all(Work *work, size_t max_words, const SignatureForm *form) {
    for (size_t at = 0; at < NUM(work->documents, Derived); at++) {
        Derived *derived = (Derived *)work->documents.data + at;
        derived->is_cut = max_words > 0;
        if (cut_document(work, derived, max_words) < 0 || sign_document(work, derived, form) < 0)
            return -1;
    }
    return 0;
}

/* Places and signatures out ------------------------------------------------------------------- */

static PyObject *make_places(const Work *work, const Derived *derived) {
    const FieldText *texts = (const FieldText *)work->texts.data + derived->first_text;
    size_t count = 0;
    for (size_t at = 0; at < derived->num_texts; at++)
        count += texts[at].last - texts[at].first;
    PyObject *places = PyTuple_New((Py_ssize_t)count);
    Py_ssize_t next = 0;
    for (size_t at = 0; at < derived->num_texts; at++)
        for (size_t each = texts[at].first; places && each < texts[at].last; each++) {
            const Stretch *own = (const Stretch *)work->stretches.data + each;
            PyObject *place = Py_BuildValue("Onnn", texts[at].field, texts[at].instance,
                (Py_ssize_t)own->start, (Py_ssize_t)own->end);
            if (place == NULL)
                Py_CLEAR(places);
            else
                PyTuple_SET_ITEM(places, next++, place);
        }
    return places;
}

static PyObject *make_derived(const Work *work, const Derived *derived) {
    PyObject *places = derived->is_cut ? make_places(work, derived) : Py_NewRef(Py_None);
    const char *signature = (const char *)work->signatures.data + derived->signature;
    PyObject *made =
        !derived->is_signed ? Py_NewRef(Py_None)
                            : PyBytes_FromStringAndSize(signature,
                                (Py_ssize_t)(derived->signature_end - derived->signature));
    PyObject *pair = places && made ? PyTuple_Pack(2, places, made) : NULL;
    Py_XDECREF(places);
    Py_XDECREF(made);
    return pair;
}

static PyObject *make_all(const Work *work) {
    Py_ssize_t count = (Py_ssize_t)NUM(work->documents, Derived);
    PyObject *all = PyList_New(count);
    for (Py_ssize_t at = 0; all && at < count; at++) {
        PyObject *pair = make_derived(work, (const Derived *)work->documents.data + at);
        if (pair == NULL)
            Py_CLEAR(all);
        else
            PyList_SET_ITEM(all, at, pair);
    }
    return all;
}

/* derive(documents, only, max_words, (run, size, least, most_characters)): where the passages of
 * each stand and its signature, None for what Python has to do; 0 words for no passages. */
static PyObject *derive(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *documents, *only, *all = NULL;
    Py_ssize_t max_words, run, size, least, most;
    if (!PyArg_ParseTuple(args, "O!O!n(nnnn)", &PyList_Type, &documents, &PyTuple_Type, &only,
            &max_words, &run, &size, &least, &most))
        return NULL;
    if (max_words < 0 || run < 1 || size < 0 || least < 0 || most < 0 || most > INT32_MAX / 4)
        return PyErr_Format(PyExc_ValueError, "numbers of words are wanted");
    SignatureForm form = {(size_t)run, (size_t)size, (size_t)least, (size_t)most};
    Work work = {0};
    int failed = (work.held = PyList_New(0)) == NULL;
    for (Py_ssize_t at = 0; !failed && at < PyList_GET_SIZE(documents); at++)
        failed = take_document(&work, PyList_GET_ITEM(documents, at), only) < 0;
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS failed = derive_all(&work, (size_t)max_words, &form) < 0;
        Py_END_ALLOW_THREADS if (failed) PyErr_NoMemory();
        else all = make_all(&work);
    }
    free_work(&work);
    return all;
}

static PyMethodDef methods[] = {{"derive", derive, METH_VARARGS, NULL},
    {"write_content", write_content, METH_VARARGS, NULL},
    {"write_usual", write_usual, METH_VARARGS, NULL},
    {"read_fields", read_fields, METH_O, NULL}, {NULL, NULL, 0, NULL}};

int add_preparing_functions(PyObject *module) {
    make_traits();
    return PyModule_AddFunctions(module, methods);
}
