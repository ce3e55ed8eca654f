/* Sorted runs of redo, merged; described in core.pyi. Twin: recovery.redo_batch.merged_plain.
 *
 * The heads of all runs are in a heap. All keys between the smallest head and the bound begin with the bytes that these
 * two have in common; the eight bytes after those decide most comparisons, and no other key is touched. Rows of one key
 * come in the order of their runs, which is log order.
 *
 * Example: heads user0017, user0019 and the bound user0023 have user00 in common; "17" and "19" are compared as numbers.
 */
#include "keys.h"
#include <stddef.h>
#include <stdint.h>

enum { KEYS, LSNS, SIZES, COLUMNS };

#define LEADING_BYTES 8

/* A run: its columns, and the rows that are still to be taken. */
typedef struct {
    PyObject *keys; /* a list that is held */
    Py_buffer lsns, sizes;
    Py_ssize_t at, end;
    uint64_t leading; /* of the key at that place: the bytes after those that all keys have in common */
} Run;

static Py_ssize_t in_common(PyObject *one, PyObject *other)
{
    Py_ssize_t here = PyBytes_GET_SIZE(one), there = PyBytes_GET_SIZE(other), length = 0;
    while (length < here && length < there && PyBytes_AS_STRING(one)[length] == PyBytes_AS_STRING(other)[length]) {
        length++;
    }
    return length;
}

static PyObject *key_of(const Run *run)
{
    return PyList_GET_ITEM(run->keys, run->at);
}

/* Whether the head of a run comes before that of another. Runs are in one array, in their order. */
static int is_before(const Run *one, const Run *other)
{
    if (one->leading != other->leading) {
        return one->leading < other->leading;
    }
    int order = compared(key_of(one), key_of(other));
    return order ? order < 0 : one < other;
}

/* Note the leading bytes of the key at the place of a run, and ask for the memory of the next key; 0 if the key is not
 * bytes. */
static int note_leading(Run *run, Py_ssize_t common)
{
    if (run->at + 1 < run->end) {
        __builtin_prefetch((const char *)PyList_GET_ITEM(run->keys, run->at + 1) + offsetof(PyBytesObject, ob_sval));
    }
    PyObject *key = key_of(run);
    if (!PyBytes_CheckExact(key)) {
        return 0;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(key) + common;
    Py_ssize_t length = PyBytes_GET_SIZE(key) - common;
    run->leading = 0;
    for (int byte = 0; byte < LEADING_BYTES; byte++) {
        run->leading = run->leading << 8 | (byte < length ? bytes[byte] : 0);
    }
    return 1;
}

/* Let the run at a place of a heap sink until both runs below it come after it. */
static void sink(Run **heap, Py_ssize_t count, Py_ssize_t place)
{
    Run *run = heap[place];
    for (;;) {
        Py_ssize_t below = 2 * place + 1;
        if (below + 1 < count && is_before(heap[below + 1], heap[below])) {
            below++;
        }
        if (below >= count || !is_before(heap[below], run)) {
            break;
        }
        heap[place] = heap[below];
        place = below;
    }
    heap[place] = run;
}

/* Take the columns of a run and the place that it has reached, and find the end of what is not above the bound: 1; 0 if
 * the twin is needed, -1 with an error set. The run is to be released in any case. */
static int open_run(Run *run, PyObject *columns, int64_t at, PyObject *bound)
{
    if (!PyTuple_CheckExact(columns) || PyTuple_GET_SIZE(columns) != COLUMNS
        || !PyList_CheckExact(PyTuple_GET_ITEM(columns, KEYS))) {
        PyErr_SetString(PyExc_TypeError, "a run has a list of keys, LSNs and sizes");
        return -1;
    }
    if (PyObject_GetBuffer(PyTuple_GET_ITEM(columns, LSNS), &run->lsns, PyBUF_SIMPLE) < 0
        || PyObject_GetBuffer(PyTuple_GET_ITEM(columns, SIZES), &run->sizes, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    run->keys = Py_NewRef(PyTuple_GET_ITEM(columns, KEYS));
    Py_ssize_t count = PyList_GET_SIZE(run->keys), low, high = count;
    if (run->lsns.len / (Py_ssize_t)sizeof(int64_t) != count || run->sizes.len / (Py_ssize_t)sizeof(int64_t) != count
        || at < 0 || at > count) {
        PyErr_SetString(PyExc_ValueError, "the columns of a run are equally long, and its place is in them");
        return -1;
    }
    for (low = run->at = (Py_ssize_t)at; low < high;) {
        Py_ssize_t middle = low + (high - low) / 2;
        PyObject *key = PyList_GET_ITEM(run->keys, middle);
        if (!PyBytes_CheckExact(key)) {
            return 0;
        }
        if (compared(key, bound) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    run->end = low;
    return run->at == count || PyBytes_CheckExact(key_of(run));
}

static void release(Run *run)
{
    Py_CLEAR(run->keys);
    PyBuffer_Release(&run->lsns);
    PyBuffer_Release(&run->sizes);
}

/* The row at the place of a run: key, LSN, size and None; NULL with an error set. */
static PyObject *row_of(const Run *run)
{
    PyObject *row = PyTuple_New(COLUMNS + 1);
    PyObject *lsn = PyLong_FromLongLong(((const int64_t *)run->lsns.buf)[run->at]);
    PyObject *size = PyLong_FromLongLong(((const int64_t *)run->sizes.buf)[run->at]);
    if (!row || !lsn || !size) {
        Py_XDECREF(row);
        Py_XDECREF(lsn);
        Py_XDECREF(size);
        return NULL;
    }
    PyTuple_SET_ITEM(row, KEYS, Py_NewRef(key_of(run)));
    PyTuple_SET_ITEM(row, LSNS, lsn);
    PyTuple_SET_ITEM(row, SIZES, size);
    PyTuple_SET_ITEM(row, COLUMNS, Py_NewRef(Py_None));
    return row;
}

/* A heap of the runs that have rows up to their ends; returns their number. */
static Py_ssize_t heaped(Run *runs, Py_ssize_t count, PyObject *bound, Run **heap, Py_ssize_t *common)
{
    Py_ssize_t open = 0;
    *common = PyBytes_GET_SIZE(bound);
    for (Run *run = runs; run < runs + count; run++) {
        if (run->at < run->end) {
            Py_ssize_t shared = in_common(key_of(run), bound);
            *common = shared < *common ? shared : *common;
            heap[open++] = run;
        }
    }
    for (Py_ssize_t place = open - 1; place >= 0; place--) {
        note_leading(heap[place], *common);
    }
    for (Py_ssize_t place = open / 2 - 1; place >= 0; place--) {
        sink(heap, open, place);
    }
    return open;
}

/* The rows of all runs up to their ends, in order; None if the twin is needed. The lists of keys belong to the caller's
 * columns, and are not known to any code that a garbage collection could run. */
static PyObject *rows_of(Run *runs, Py_ssize_t count, PyObject *bound, Run **heap)
{
    Py_ssize_t total = 0, common, open = heaped(runs, count, bound, heap, &common);
    for (Py_ssize_t index = 0; index < open; index++) {
        total += heap[index]->end - heap[index]->at;
    }
    PyObject *rows = PyList_New(total);
    for (Py_ssize_t made = 0; rows && made < total; made++) {
        Run *run = heap[0];
        PyObject *row = row_of(run);
        if (!row) {
            Py_CLEAR(rows);
            break;
        }
        PyList_SET_ITEM(rows, made, row);
        if (++run->at == run->end) {
            heap[0] = heap[--open];
        } else if (!note_leading(run, common)) {
            Py_DECREF(rows);
            Py_RETURN_NONE;
        }
        if (open) {
            sink(heap, open, 0);
        }
    }
    return rows;
}

/* merged_rows(columns, places, bound) */
PyObject *merged_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *columns, *bound, *rows = NULL;
    Py_buffer places;
    if (!PyArg_ParseTuple(args, "O!w*O", &PyList_Type, &columns, &places, &bound)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(columns), opened = 0;
    int64_t *reached = places.buf;
    Run *runs = PyMem_Calloc((size_t)count + 1, sizeof *runs);
    Run **heap = PyMem_Calloc((size_t)count + 1, sizeof *heap);
    int is_good = PyBytes_CheckExact(bound);
    if (!runs || !heap) {
        PyErr_NoMemory();
        is_good = -1;
    } else if (places.len / (Py_ssize_t)sizeof *reached != count) {
        PyErr_SetString(PyExc_ValueError, "each run has a place");
        is_good = -1;
    }
    while (is_good > 0 && opened < count) {
        is_good = open_run(&runs[opened], PyList_GET_ITEM(columns, opened), reached[opened], bound);
        opened++;
    }
    if (is_good > 0) {
        rows = rows_of(runs, count, bound, heap);
    } else if (!is_good) {
        rows = Py_NewRef(Py_None);
    }
    for (Py_ssize_t index = 0; index < opened; index++) {
        if (rows && rows != Py_None) {
            reached[index] = runs[index].end;
        }
        release(&runs[index]);
    }
    PyMem_Free(heap);
    PyMem_Free(runs);
    PyBuffer_Release(&places);
    return rows;
}
