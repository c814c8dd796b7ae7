/* What a page shows: which of its hits are near-identical, and the stretch cut from a passage. */
#include "showing.h"

#include "searcher.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_KEYS 64 /* smallest hashes by which signatures meet */
#define MOST_COMPARED 100000
#define MOST_TERMS 64 /* distinct terms of a query whose weights are added up */
#define MOST_WORDS 64 /* words of a cluster */

/* Near-identical hits -------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *data;
    size_t count;
} signature_t;

static uint32_t hash_at(const signature_t *signature, size_t at) {
    uint32_t hash;
    memcpy(&hash, signature->data + 4 * at, sizeof hash);
    return hash;
}

/* Count the hashes that two signatures share, as far as the `most` smallest of both together. */
static size_t count_common(
    const signature_t *one, const signature_t *other, size_t most, size_t *seen) {
    size_t left = 0, right = 0, common = 0;
    for (*seen = 0; *seen < most && (left < one->count || right < other->count); ++*seen) {
        if (left == one->count)
            right++;
        else if (right == other->count)
            left++;
        else {
            uint32_t own = hash_at(one, left), others = hash_at(other, right);
            common += own == others;
            left += own <= others;
            right += others <= own;
        }
    }
    return common;
}

static int are_similar(
    const signature_t *one, const signature_t *other, size_t sketch_size, double least) {
    size_t seen, all, common = count_common(one, other, SIZE_MAX, &all);
    size_t size = all < sketch_size ? all : sketch_size;
    if (!size || (double)common / (double)size < least)
        return 0;
    if (one->count == other->count && memcmp(one->data, other->data, 4 * one->count) == 0)
        return 1.0 >= least;
    common = count_common(one, other, sketch_size, &seen);
    return (double)common / (double)seen >= least;
}

typedef struct {
    uint32_t hash, at; /* a smallest hash, and whose it is */
} smallest_t;

static int compare_keys(const void *one, const void *other) {
    const smallest_t *left = one, *right = other;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return left->at < right->at ? -1 : left->at > right->at;
}

typedef struct {
    const signature_t *signatures;
    size_t count, keys, sketch_size;
    double least;
    smallest_t *sorted; /* the keys of all signatures */
    size_t num_sorted;
    uint32_t *groups; /* of each signature so far */
    uint8_t *is_first;
} grouping_t;

static void sort_keys(grouping_t *self) {
    for (uint32_t at = 0; at < self->count; at++)
        for (size_t key = 0; key < self->keys && key < self->signatures[at].count; key++)
            self->sorted[self->num_sorted++] = (smallest_t){hash_at(&self->signatures[at], key), at};
    qsort(self->sorted, self->num_sorted, sizeof *self->sorted, compare_keys);
}

static size_t find_key(const grouping_t *self, uint32_t hash) {
    size_t low = 0, high = self->num_sorted;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->sorted[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Find the first of a group that a signature is similar to: by its keys, then as groups began. */
static int find_first(const grouping_t *self, uint32_t own, uint32_t *first) {
    const signature_t *signature = &self->signatures[own];
    for (size_t key = 0; key < self->keys && key < signature->count; key++) {
        uint32_t hash = hash_at(signature, key);
        for (size_t at = find_key(self, hash); at < self->num_sorted; at++) {
            *first = self->sorted[at].at;
            if (self->sorted[at].hash != hash || *first >= own)
                break;
            if (self->is_first[*first]
                && are_similar(
                    &self->signatures[*first], signature, self->sketch_size, self->least))
                return 1;
        }
    }
    return 0;
}

static PyObject *group_all(grouping_t *self) {
    PyObject *found = PyList_New((Py_ssize_t)self->count);
    uint32_t count = 0, first;
    sort_keys(self);
    for (uint32_t at = 0; found && at < self->count; at++) {
        int is_known = find_first(self, at, &first);
        self->is_first[at] = !is_known;
        self->groups[at] = is_known ? self->groups[first] : count++;
        PyObject *number = PyLong_FromUnsignedLong(self->groups[at]);
        if (number == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, (Py_ssize_t)at, number);
    }
    return found;
}

static int read_signatures(PyObject *list, signature_t *signatures) {
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(list); at++) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GET_ITEM(list, at), &data, &size) < 0)
            return -1;
        signatures[at] = (signature_t){(const uint8_t *)data, (size_t)size / 4};
    }
    return 0;
}

/* group(signatures, keys, sketch_size, least): the number of the group that each signature falls
 * into. Two meet where they share one of their smallest hashes; groups are those of their first. */
static PyObject *group(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *list, *found = NULL;
    Py_ssize_t keys, sketch_size;
    grouping_t self = {0};
    if (!PyArg_ParseTuple(
            args, "O!nnd", &PyList_Type, &list, &keys, &sketch_size, &self.least))
        return NULL;
    if (keys < 0 || keys > MOST_KEYS || sketch_size < 0 || PyList_GET_SIZE(list) > MOST_COMPARED)
        return PyErr_Format(PyExc_ValueError, "signatures cannot be compared so");
    self.count = (size_t)PyList_GET_SIZE(list);
    self.keys = (size_t)keys;
    self.sketch_size = (size_t)sketch_size;
    size_t room = self.count + 1;
    signature_t *signatures = PyMem_Calloc(room, sizeof *signatures);
    self.signatures = signatures;
    self.sorted = PyMem_Calloc(room * (self.keys + 1), sizeof *self.sorted);
    self.groups = PyMem_Calloc(room, sizeof *self.groups);
    self.is_first = PyMem_Calloc(room, sizeof *self.is_first);
    if (!signatures || !self.sorted || !self.groups || !self.is_first)
        PyErr_NoMemory();
    else if (read_signatures(list, signatures) == 0)
        found = group_all(&self);
    PyMem_Free(signatures);
    PyMem_Free(self.sorted);
    PyMem_Free(self.groups);
    PyMem_Free(self.is_first);
    return found;
}

/* Snippets ------------------------------------------------------------------------------------- */

typedef struct {
    Py_ssize_t start, end;
    uint32_t term; /* its number among the distinct ones */
} word_t;

typedef struct {
    word_t *words;
    size_t count, terms;
    PyObject *names[MOST_TERMS];
    double weights[MOST_TERMS];
} placed_t;

static int read_weight(placed_t *placed, PyObject *weights, PyObject *term) {
    if (placed->terms == MOST_TERMS) {
        PyErr_SetString(PyExc_ValueError, "too many terms");
        return -1;
    }
    PyObject *weight = PyObject_GetItem(weights, term);
    if (weight == NULL)
        return -1;
    placed->names[placed->terms] = term;
    placed->weights[placed->terms++] = PyFloat_AsDouble(weight);
    Py_DECREF(weight);
    return PyErr_Occurred() ? -1 : 0;
}

/* Return the number of a term among the distinct ones, -1 with an error. */
static int number_term(placed_t *placed, PyObject *weights, PyObject *term) {
    for (size_t at = 0; at < placed->terms; at++)
        if (placed->names[at] == term)
            return (int)at;
    for (size_t at = 0; at < placed->terms; at++) {
        int is_same = PyObject_RichCompareBool(placed->names[at], term, Py_EQ);
        if (is_same)
            return is_same < 0 ? -1 : (int)at;
    }
    return read_weight(placed, weights, term) < 0 ? -1 : (int)placed->terms - 1;
}

static int read_words(PyObject *list, PyObject *weights, placed_t *placed) {
    for (size_t at = 0; at < placed->count; at++) {
        PyObject *word = PyList_GET_ITEM(list, (Py_ssize_t)at);
        word_t *own = &placed->words[at];
        if (!PyTuple_Check(word) || PyTuple_GET_SIZE(word) != 3) {
            PyErr_SetString(PyExc_TypeError, "a word is its start, end and term");
            return -1;
        }
        own->start = PyLong_AsSsize_t(PyTuple_GET_ITEM(word, 0));
        own->end = PyLong_AsSsize_t(PyTuple_GET_ITEM(word, 1));
        int number = PyErr_Occurred() ? -1 : number_term(placed, weights, PyTuple_GET_ITEM(word, 2));
        if (number < 0)
            return -1;
        own->term = (uint32_t)number;
    }
    return 0;
}

/* Add up the weights of the terms that stand in a stretch, rounded once. */
static double weigh_cluster(const placed_t *placed, const uint32_t *tfs) {
    double own[MOST_TERMS], partials[MOST_TERMS + 1];
    size_t count = 0;
    for (size_t term = 0; term < placed->terms; term++)
        if (tfs == NULL || tfs[term])
            own[count++] = placed->weights[term];
    return exact_sum(own, count, partials);
}

/* Find the stretch from one word to another that holds the most distinct weight. */
static void find_cluster(
    const placed_t *placed, Py_ssize_t max_chars, Py_ssize_t *first, Py_ssize_t *last) {
    const word_t *words = placed->words;
    size_t count = placed->count, until = 0;
    *first = *last = 0;
    if (count && count <= MOST_WORDS && words[count - 1].end <= words[0].start + max_chars) {
        *first = words[0].start;
        *last = words[count - 1].end;
        return;
    }
    double best = 0.0, most = weigh_cluster(placed, NULL);
    uint32_t tfs[MOST_TERMS] = {0};
    for (size_t at = 0; at < count; at++) {
        Py_ssize_t limit = words[at].start + max_chars;
        size_t stop = at + MOST_WORDS < count ? at + MOST_WORDS : count;
        int is_new = 0;
        for (; until < stop && words[until].end <= limit; until++)
            is_new |= !tfs[words[until].term]++;
        if (is_new) { /* or else it weighs no more than the stretch before */
            double weight = weigh_cluster(placed, tfs);
            if (weight > best) {
                best = weight;
                *first = words[at].start;
                *last = words[until - 1].end;
                if (weight >= most)
                    return;
            }
        }
        if (until == at) /* a word longer than what is shown */
            until++;
        else
            tfs[words[at].term]--;
    }
}

/* Widen a stretch to the left for context, and end it at a word's end, within the allowance. */
static int widen(
    PyObject *text, Py_ssize_t max_chars, Py_ssize_t *first, Py_ssize_t *last) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(text), lead = *first - max_chars / 6, space;
    if (lead < *last - max_chars)
        lead = *last - max_chars;
    if (lead > 0) {
        space = PyUnicode_FindChar(text, ' ', lead, *first, 1);
        lead = space >= 0 ? space + 1 : *first;
    } else
        lead = 0;
    Py_ssize_t end = size < lead + max_chars ? size : lead + max_chars;
    if (end < size) {
        Py_ssize_t after = lead + max_chars / 2;
        space = PyUnicode_FindChar(text, ' ', *last > after ? *last : after, end, -1);
        end = space >= 0 ? space : end;
    }
    *first = lead;
    *last = end;
    return PyErr_Occurred() ? -1 : 0;
}

/* Join words within a stretch that overlap, and drop the others; returns how many are left. */
static size_t keep_within(placed_t *placed, Py_ssize_t start, Py_ssize_t end) {
    word_t *kept = placed->words; /* read further on than written */
    size_t count = 0;
    Py_ssize_t last = 0;
    for (size_t at = 0; at < placed->count; at++) {
        word_t own = placed->words[at];
        if (own.start < start || own.end > end)
            continue;
        if (count && own.start < last)
            kept[count - 1].end = own.end > last ? own.end : last;
        else
            kept[count++] = own;
        last = own.end > last ? own.end : last;
    }
    return count;
}

/* What makes the records of a page. */
typedef struct {
    PyObject *span, *snippet;
} makers_t;

static PyObject *make_span(const makers_t *make, Py_ssize_t start, Py_ssize_t end) {
    PyObject *places[2] = {PyLong_FromSsize_t(start), PyLong_FromSsize_t(end)}, *span = NULL;
    if (places[0] && places[1])
        span = PyObject_Vectorcall(make->span, places, 2, NULL);
    Py_XDECREF(places[0]);
    Py_XDECREF(places[1]);
    return span;
}

/* Return the spans of the words within a stretch, counted from its start. */
static PyObject *highlight(
    const makers_t *make, placed_t *placed, Py_ssize_t start, Py_ssize_t end) {
    size_t count = keep_within(placed, start, end);
    PyObject *marks = PyTuple_New((Py_ssize_t)count);
    for (size_t at = 0; marks && at < count; at++) {
        const word_t *own = &placed->words[at];
        PyObject *span = make_span(make, own->start - start, own->end - start);
        if (span == NULL)
            Py_CLEAR(marks);
        else
            PyTuple_SET_ITEM(marks, (Py_ssize_t)at, span);
    }
    return marks;
}

/* Return the span of a stretch within a field, of which the passage has one. */
static PyObject *shift(const makers_t *make, PyObject *span, Py_ssize_t start, Py_ssize_t end) {
    PyObject *begin = PyObject_GetAttrString(span, "start");
    Py_ssize_t first = begin ? PyLong_AsSsize_t(begin) : -1;
    Py_XDECREF(begin);
    return PyErr_Occurred() ? NULL : make_span(make, first + start, first + end);
}

static PyObject *cut(const makers_t *make, PyObject *text, PyObject *span, placed_t *placed,
    Py_ssize_t max_chars) {
    Py_ssize_t start = 0, end = PyUnicode_GET_LENGTH(text);
    int is_whole = end <= max_chars;
    if (!is_whole) {
        find_cluster(placed, max_chars, &start, &end);
        if (widen(text, max_chars, &start, &end) < 0)
            return NULL;
    }
    PyObject *made[3] = {is_whole ? Py_NewRef(text) : PyUnicode_Substring(text, start, end),
        is_whole ? Py_NewRef(span) : shift(make, span, start, end),
        highlight(make, placed, start, end)};
    PyObject *snippet = NULL;
    if (made[0] && made[1] && made[2])
        snippet = PyObject_Vectorcall(make->snippet, made, 3, NULL);
    for (size_t at = 0; at < 3; at++)
        Py_XDECREF(made[at]);
    return snippet;
}

/* Cut a snippet around the words of a text that were found in it. */
static PyObject *cut_around(const makers_t *make, PyObject *text, PyObject *span, PyObject *words,
    PyObject *weights, Py_ssize_t max_chars) {
    if (!PyUnicode_Check(text) || !PyList_Check(words))
        return PyErr_Format(PyExc_TypeError, "a text and a list of its words are wanted");
    word_t few[MOST_WORDS];
    placed_t placed = {.words = few, .count = (size_t)PyList_GET_SIZE(words)};
    if (placed.count > MOST_WORDS)
        placed.words = PyMem_Calloc(placed.count, sizeof *placed.words);
    if (placed.words == NULL)
        return PyErr_NoMemory();
    PyObject *found = read_words(words, weights, &placed) < 0
                          ? NULL
                          : cut(make, text, span, &placed, max_chars);
    if (placed.words != few)
        PyMem_Free(placed.words);
    return found;
}

static PyObject *show_passage(const makers_t *make, PyObject *passage, PyObject *keys,
    PyObject *place, PyObject *weights, Py_ssize_t max_chars) {
    PyObject *text = PyObject_GetAttrString(passage, "text"), *words = NULL, *found = NULL;
    PyObject *span = text ? PyObject_GetAttrString(passage, "span") : NULL;
    if (span)
        words = PyObject_CallFunctionObjArgs(place, text, keys, NULL);
    if (words)
        found = cut_around(make, text, span, words, weights, max_chars);
    Py_XDECREF(text);
    Py_XDECREF(span);
    Py_XDECREF(words);
    return found;
}

/* snippets(passages, place, weights, max_chars, make_span, make_snippet): a snippet of each
 * passage, which comes with the keys of its terms, where the heaviest cluster of words stands;
 * `place` finds those with a weight. */
static PyObject *snippets(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *passages, *place, *weights;
    Py_ssize_t max_chars;
    makers_t make;
    if (!PyArg_ParseTuple(args, "O!OOnOO", &PyList_Type, &passages, &place, &weights, &max_chars,
            &make.span, &make.snippet))
        return NULL;
    PyObject *list = PyList_New(PyList_GET_SIZE(passages));
    for (Py_ssize_t at = 0; list && at < PyList_GET_SIZE(list); at++) {
        PyObject *pair = at < PyList_GET_SIZE(passages) ? PyList_GET_ITEM(passages, at) : Py_None;
        PyObject *found = NULL;
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
            PyErr_SetString(PyExc_TypeError, "a passage comes with the keys of its terms");
        else
            found = show_passage(&make, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1),
                place, weights, max_chars);
        if (found == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, at, found);
    }
    return list;
}

static PyMethodDef methods[] = {{"group", group, METH_VARARGS, NULL},
    {"snippets", snippets, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int add_showing_functions(PyObject *module) {
    return PyModule_AddFunctions(module, methods);
}
