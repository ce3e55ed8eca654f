/* The slots of a BIN: those that are queued for a check, and what they count for; described in core.pyi. */
#include "entries.h"
#include "queues.h"

/* Files whose counts are held until the end of a node; a power of two. */
#define FILES 64
/* The numbers of files have 32 bits. */
#define FILE_MASK 0xFFFFFFFF

static long range_bits, most_of_slot;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.fast.queued_slots", "RANGE_BITS", &range_bits},
    {"engine.format.fast.queued_slots", "MOST_BYTES", &most_of_slot},
};

/* The queue of an LSN, a new one if its file is there; None if not, NULL with an error set. Borrowed. */
static PyObject *queue_of(PyObject *queues, PyObject *files, int64_t lsn)
{
    PyObject *name = PyLong_FromLongLong(lsn >> range_bits), *queue = NULL;
    queue = name ? PyDict_GetItemWithError(queues, name) : NULL;
    if (name && !queue && !PyErr_Occurred()) {
        PyObject *number = PyLong_FromLongLong(lsn >> 32);
        int is_there = number ? PySet_Contains(files, number) : -1;
        Py_XDECREF(number);
        if (is_there == 0) {
            queue = Py_None;
        } else if (is_there > 0) {
            PyObject *made = PyByteArray_FromStringAndSize(NULL, 0);
            queue = made && !PyDict_SetItem(queues, name, made) ? made : NULL;
            Py_XDECREF(made);
        }
    }
    Py_XDECREF(name);
    return queue;
}

/* Queue a slot: 1; 0 if it is not plain, -1 with an error set. */
static int queue_slot(PyObject *lsn, PyObject *size, PyObject *expiration, PyObject *key, int64_t end, PyObject *files,
                      PyObject *queues)
{
    /* None of these runs Python code. */
    if (!PyLong_CheckExact(lsn) || !PyLong_CheckExact(size) || !PyLong_CheckExact(expiration) || !PyBytes_CheckExact(key)) {
        PyErr_SetString(PyExc_TypeError, "a slot has numbers, and a key of bytes");
        return -1;
    }
    int is_beyond = 0, is_large = 0;
    int64_t where = PyLong_AsLongLongAndOverflow(lsn, &is_beyond);
    int64_t bytes = PyLong_AsLongLongAndOverflow(size, &is_large);
    if (is_beyond || is_large || bytes <= 0 || bytes > most_of_slot || where < 0 || where >= end
        || PyObject_IsTrue(expiration)) {
        return 0;
    }
    PyObject *queue = queue_of(queues, files, where);
    if (!queue || queue == Py_None) {
        return queue ? 0 : -1;
    }
    if (!PyByteArray_CheckExact(queue)) {
        PyErr_SetString(PyExc_TypeError, "a queue is a bytearray");
        return -1;
    }
    QueuedSlot slot = {(where & (((int64_t)1 << range_bits) - 1)) << 32 | bytes, PyObject_Hash(key)};
    Py_ssize_t length = PyByteArray_GET_SIZE(queue);
    if (PyByteArray_Resize(queue, length + (Py_ssize_t)sizeof slot) < 0) {
        return -1;
    }
    memcpy(PyByteArray_AS_STRING(queue) + length, &slot, sizeof slot);
    return 1;
}

/* queue_slots(lsns, sizes, states, expirations, keys, not_plain, end_lsn, files, queues) */
PyObject *queue_slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *lsns, *sizes, *states, *expirations, *keys, *files, *queues;
    long not_plain;
    long long end;
    if (!READY() || !PyArg_ParseTuple(args, "O!O!YO!O!lLOO!", &PyList_Type, &lsns, &PyList_Type, &sizes, &states,
                                         &PyList_Type, &expirations, &PyList_Type, &keys, &not_plain, &end, &files,
                                         &PyDict_Type, &queues)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(lsns);
    if (!PyAnySet_Check(files) || PyList_GET_SIZE(sizes) != count || PyByteArray_GET_SIZE(states) != count
        || PyList_GET_SIZE(expirations) != count || PyList_GET_SIZE(keys) != count) {
        PyErr_SetString(PyExc_ValueError, "lists of equal length, and a set of file numbers are wanted");
        return NULL;
    }
    PyObject *rest = PyList_New(0);
    for (Py_ssize_t index = 0; rest && index < count; index++) {
        int is_queued = PyByteArray_AS_STRING(states)[index] & not_plain
            ? 0
            : queue_slot(PyList_GET_ITEM(lsns, index), PyList_GET_ITEM(sizes, index), PyList_GET_ITEM(expirations, index),
                         PyList_GET_ITEM(keys, index), end, files, queues);
        if (is_queued < 0 || (!is_queued && !append_number(rest, index))) {
            Py_CLEAR(rest);
        }
    }
    return rest;
}

typedef struct {
    int64_t file, counts[3];
} FileCounts;

/* Add the counts of a file to those in the dict; 0 with an error set. */
static int flush_counts(PyObject *tally, FileCounts *from)
{
    if (!from->counts[0]) {
        return 1;
    }
    PyObject *number = PyLong_FromLongLong(from->file), *known = NULL;
    known = number ? Py_XNewRef(PyDict_GetItemWithError(tally, number)) : NULL;
    int is_good = number && !PyErr_Occurred();
    if (is_good && !known) {
        known = Py_BuildValue("[iii]", 0, 0, 0);
        is_good = known && !PyDict_SetItem(tally, number, known);
    }
    if (is_good && !(PyList_CheckExact(known) && PyList_GET_SIZE(known) == 3)) {
        PyErr_SetString(PyExc_TypeError, "counts are lists of three numbers");
        is_good = 0;
    }
    for (Py_ssize_t at = 0; is_good && at < 3; at++) {
        PyObject *added = PyLong_FromLongLong(from->counts[at]);
        PyObject *sum = added ? PyNumber_Add(PyList_GET_ITEM(known, at), added) : NULL;
        Py_XDECREF(added);
        is_good = sum && !PyList_SetItem(known, at, sum);
    }
    Py_XDECREF(known);
    Py_XDECREF(number);
    *from = (FileCounts){0};
    return is_good;
}

/* tally_slots(lsns, sizes, states, expirations, not_counted, tally) */
PyObject *tally_slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *lsns, *sizes, *states, *expirations, *tally;
    long not_counted;
    FileCounts files[FILES] = {{0}};
    if (!READY() || !PyArg_ParseTuple(args, "O!O!YO!lO!", &PyList_Type, &lsns, &PyList_Type, &sizes, &states,
                                      &PyList_Type, &expirations, &not_counted, &PyDict_Type, &tally)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(lsns);
    if (PyList_GET_SIZE(sizes) != count || PyByteArray_GET_SIZE(states) != count || PyList_GET_SIZE(expirations) != count) {
        PyErr_SetString(PyExc_ValueError, "lists of equal length are wanted");
        return NULL;
    }
    int is_good = 1;
    for (Py_ssize_t index = 0; is_good && index < count; index++) {
        PyObject *lsn = PyList_GET_ITEM(lsns, index), *size = PyList_GET_ITEM(sizes, index);
        PyObject *expiration = PyList_GET_ITEM(expirations, index);
        if (PyByteArray_AS_STRING(states)[index] & not_counted) {
            continue;
        }
        if (!PyLong_CheckExact(lsn) || !PyLong_CheckExact(size) || !PyLong_CheckExact(expiration)) {
            PyErr_SetString(PyExc_TypeError, "a slot has numbers");
            is_good = 0;
            break;
        }
        int64_t where = PyLong_AsLongLong(lsn), bytes = PyLong_AsLongLong(size), file = (where >> 32) & FILE_MASK;
        if (PyErr_Occurred()) {
            is_good = 0;
            break;
        }
        /* NULL, and transient ones. */
        if (file == FILE_MASK) {
            continue;
        }
        FileCounts *counts = &files[file & (FILES - 1)];
        if (counts->file != file) {
            is_good = flush_counts(tally, counts);
            counts->file = file;
        }
        int64_t sum;
        if (__builtin_add_overflow(counts->counts[1], bytes, &sum)) {
            /* Sizes that no log has; Python's numbers have no limit. */
            is_good = flush_counts(tally, counts);
            counts->file = file;
            sum = bytes;
        }
        counts->counts[0]++;
        counts->counts[1] = sum;
        counts->counts[2] += PyObject_IsTrue(expiration);
    }
    for (int at = 0; is_good && at < FILES; at++) {
        is_good = flush_counts(tally, &files[at]);
    }
    return is_good ? Py_NewRef(Py_None) : NULL;
}
