/* Documents as Python has them become runs of texts to be read. What is not as the store writes it
 * is left to Python, which says what is wrong with it. */
#include "intake.h"

#define MOST_OFFSET 0x7fffffff

typedef struct {
    PyObject *name;
    long long instance, start, end;
} Place;

/* Look at the next passage of a document; 0 where there is none. */
static int next_place(const Intake *intake, Place *place) {
    if (intake->next >= PyList_GET_SIZE(intake->places))
        return 0;
    PyObject *given = PyList_GET_ITEM(intake->places, intake->next);
    long long numbers[3];
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 5
        || !PyUnicode_Check(PyTuple_GET_ITEM(given, 1)))
        return RAISED;
    for (int at = 0; at < 3; at++) {
        PyObject *number = PyTuple_GET_ITEM(given, at + 2);
        numbers[at] = PyLong_CheckExact(number) ? PyLong_AsLongLong(number) : -1;
        if (numbers[at] < 0 || numbers[at] > MOST_OFFSET) {
            PyErr_Clear();
            return RAISED;
        }
    }
    *place = (Place){PyTuple_GET_ITEM(given, 1), numbers[0], numbers[1], numbers[2]};
    return 1;
}

static int add_run(Portion *portion, PyObject *text, size_t start, size_t end) {
    Run run = {PyUnicode_DATA(text), (int)PyUnicode_KIND(text), PyUnicode_IS_ASCII(text), 0, start,
        end, 0, 0};
    run.is_full = is_beyond_european(&run);
    return bytes_add(&portion->runs, &run, sizeof run) < 0 ? NO_MEMORY : 0;
}

/* Take in the passages of one text, in order. */
static int take_passages(
    Intake *intake, PyObject *name, uint32_t field, uint32_t number, PyObject *text) {
    Portion *portion = &intake->portion;
    Place place;
    int found;
    while ((found = next_place(intake, &place)) > 0 && place.instance == number
           && (place.name == name || PyUnicode_Compare(place.name, name) == 0)) {
        if (place.start > place.end || place.end > PyUnicode_GET_LENGTH(text))
            return UNUSUAL;
        size_t run = COUNT(portion->runs, Run);
        Placed placed = {field, number, (uint32_t)place.start, (uint32_t)place.end, run};
        if (bytes_add(&portion->placed, &placed, sizeof placed) < 0
            || (intake->is_single
                       ? add_run(portion, text, 0, (size_t)PyUnicode_GET_LENGTH(text))
                       : add_run(portion, text, placed.start, placed.end)))
            return NO_MEMORY;
        intake->next++;
    }
    return found < 0 ? UNUSUAL : 0;
}

/* Whether passages together have all the words of a text: there are some, and they cut no word and
 * repeat none. */
static int are_whole(const Portion *portion, size_t first, const Run *text) {
    if (first == COUNT(portion->placed, Placed) || is_beyond_european(text))
        return 0;
    for (size_t at = first + 1; at < COUNT(portion->placed, Placed); at++)
        if (PLACED(portion, at - 1)->end >= PLACED(portion, at)->start)
            return 0;
    return 1;
}

static int take_text(
    Intake *intake, PyObject *name, uint32_t field, uint32_t number, PyObject *text) {
    Portion *portion = &intake->portion;
    if (!PyUnicode_Check(text) || PyUnicode_GET_LENGTH(text) > MOST_OFFSET)
        return UNUSUAL;
    if (PyList_Append(intake->texts, text) < 0)
        return RAISED;
    size_t placed = COUNT(portion->placed, Placed), run = COUNT(portion->runs, Run);
    int failed = take_passages(intake, name, field, number, text);
    if (failed)
        return failed;
    Run whole = {PyUnicode_DATA(text), (int)PyUnicode_KIND(text), 0, 0, 0,
        (size_t)PyUnicode_GET_LENGTH(text), 0, 0};
    Instance instance = {run, COUNT(portion->runs, Run) - run, 0, 0};
    if (!intake->is_single && !are_whole(portion, placed, &whole)) {
        instance = (Instance){COUNT(portion->runs, Run), 1, 0, 0};
        if (add_run(portion, text, 0, whole.end))
            return NO_MEMORY;
    }
    return bytes_add(&portion->instances, &instance, sizeof instance) < 0 ? NO_MEMORY : 0;
}

/* Return the number of a field's name, a new one where it has none; -1 where that failed. */
static long number_name(Intake *intake, PyObject *name) {
    PyObject *known = PyDict_GetItemWithError(intake->names, name);
    if (known != NULL)
        return PyLong_AsLong(known);
    static const View fresh[2];
    long number = (long)PyDict_GET_SIZE(intake->names);
    PyObject *own = PyErr_Occurred() ? NULL : PyLong_FromLong(number);
    int failed = own == NULL || PyDict_SetItem(intake->names, name, own) < 0;
    Py_XDECREF(own);
    if (!failed && bytes_add(&intake->portion.views, fresh, sizeof fresh) < 0) {
        PyErr_NoMemory();
        failed = 1;
    }
    return failed ? -1 : number;
}

static int take_field(Intake *intake, PyObject *name, uint32_t number, PyObject *texts) {
    Portion *portion = &intake->portion;
    if (!PyUnicode_Check(name) || !PyList_Check(texts) || PyList_GET_SIZE(texts) > MOST_OFFSET)
        return UNUSUAL;
    long view = number_name(intake, name);
    if (view < 0)
        return RAISED;
    Field field = {(uint32_t)view, COUNT(portion->instances, Instance),
        (size_t)PyList_GET_SIZE(texts)};
    if (bytes_add(&portion->fields, &field, sizeof field) < 0)
        return NO_MEMORY;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(texts); at++) {
        int failed = take_text(intake, name, number, (uint32_t)at, PyList_GET_ITEM(texts, at));
        if (failed)
            return failed;
    }
    return 0;
}

static int is_single(PyObject *fields, PyObject *places) {
    Py_ssize_t at = 0;
    PyObject *name, *texts;
    return PyDict_GET_SIZE(fields) == 1 && PyList_GET_SIZE(places) == 1
           && PyDict_Next(fields, &at, &name, &texts) && PyList_Check(texts)
           && PyList_GET_SIZE(texts) == 1;
}

static int take_document(Intake *intake, PyObject *fields, PyObject *places) {
    Portion *portion = &intake->portion;
    if (!PyDict_Check(fields) || !PyList_Check(places))
        return UNUSUAL;
    PortionDocument document = {COUNT(portion->fields, Field), (size_t)PyDict_GET_SIZE(fields),
        COUNT(portion->placed, Placed), (size_t)PyList_GET_SIZE(places), 0, 0};
    if (bytes_add(&portion->documents, &document, sizeof document) < 0)
        return NO_MEMORY;
    intake->places = places;
    intake->next = 0;
    intake->is_single = is_single(fields, places);
    Py_ssize_t at = 0;
    uint32_t number = 0;
    PyObject *name, *texts;
    while (PyDict_Next(fields, &at, &name, &texts)) {
        int failed = take_field(intake, name, number++, texts);
        if (failed)
            return failed;
    }
    return intake->next == PyList_GET_SIZE(places) ? 0 : UNUSUAL;
}

int intake_take(Intake *intake, PyObject *documents, PyObject *places) {
    if (PyList_GET_SIZE(documents) != PyList_GET_SIZE(places))
        return UNUSUAL;
    intake->names = PyDict_New();
    intake->texts = PyList_New(0);
    if (intake->names == NULL || intake->texts == NULL)
        return RAISED;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(documents); at++) {
        int failed =
            take_document(intake, PyList_GET_ITEM(documents, at), PyList_GET_ITEM(places, at));
        if (failed)
            return failed;
    }
    return 0;
}

void intake_free(Intake *intake) {
    portion_free(&intake->portion);
    Py_XDECREF(intake->names);
    Py_XDECREF(intake->texts);
}
