/* Binary search among keys that are bytes, and the look-up of a record in a BIN, described in core.pyi. General twins:
 * bisect, tree.find_bin.
 *
 * Keys are compared in place: no calls and no reference counts, which would write to the memory of every key that a
 * search examines. Most of the remaining time is waiting for memory.
 */
#include "entries.h"
#include "keys.h"
#include <stddef.h>

/* Number of references in one cache line. */
#define REFERENCES 8
/* Number of search steps in a bottom node that are prefetched before the first: covers most of the keys examined. */
#define STEPS_AHEAD 4

/* Prefetch the bytes of a key, if it has any; nothing is read yet. */
static inline void ask_for(PyObject *key)
{
    __builtin_prefetch((const char *)key + offsetof(PyBytesObject, ob_sval));
}

/* Prefetch the keys that the next steps of a search between two places may examine: 2 ** steps - 1 of them. */
static void ask_ahead(PyObject *keys, Py_ssize_t low, Py_ssize_t high, int steps)
{
    if (low < high && steps) {
        Py_ssize_t middle = low + (high - low) / 2;
        ask_for(PyList_GET_ITEM(keys, middle));
        ask_ahead(keys, low, middle, steps - 1);
        ask_ahead(keys, middle + 1, high, steps - 1);
    }
}

/* The first place from ``low`` on whose key is above ``key``, or, with ``or_equal``, not below it; -1 if an examined
 * key is not bytes. */
static Py_ssize_t bisected(PyObject *keys, PyObject *key, Py_ssize_t low, int or_equal)
{
    Py_ssize_t high = PyList_GET_SIZE(keys);
    /* References are prefetched all at once, and keys one step ahead: whichever way the search continues, the next key
     * is already on its way from memory. */
    for (Py_ssize_t line = low; line < high; line += REFERENCES) {
        __builtin_prefetch(&PyList_GET_ITEM(keys, line));
    }
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        PyObject *there = PyList_GET_ITEM(keys, middle);
        ask_for(PyList_GET_ITEM(keys, low + (middle - low) / 2));
        ask_for(PyList_GET_ITEM(keys, middle + (high - middle) / 2));
        if (!PyBytes_CheckExact(there)) {
            return -1;
        }
        int order = compared(there, key);
        if (order < 0 || (order == 0 && !or_equal)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int are_bytes(PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "a search takes a list of keys and a key");
        return 0;
    }
    return PyBytes_CheckExact(args[1]);
}

PyObject *find(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t index = are_bytes(args, count) ? bisected(args[0], args[1], 0, 1) : -1;
    if (index < 0) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    if (index < PyList_GET_SIZE(args[0])) {
        PyObject *there = PyList_GET_ITEM(args[0], index);
        if (PyBytes_CheckExact(there) && compared(there, args[1]) == 0) {
            return PyLong_FromSsize_t(index);
        }
    }
    return PyLong_FromSsize_t(~index);
}

PyObject *covering(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t index = are_bytes(args, count) ? bisected(args[0], args[1], 1, 0) : -1;
    if (index < 0) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return PyLong_FromSsize_t(index - 1);
}

PyObject *ascends(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "ascends takes a list of keys and where to begin");
        return NULL;
    }
    Py_ssize_t first = PyLong_AsSsize_t(args[1]);
    if (first < 0) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    int is_ascending = 1;
    for (Py_ssize_t index = first; index < PyList_GET_SIZE(args[0]); index++) {
        PyObject *there = PyList_GET_ITEM(args[0], index);
        if (!PyBytes_CheckExact(there)) {
            Py_RETURN_NONE;
        }
        is_ascending = is_ascending && (index == first || compared(PyList_GET_ITEM(args[0], index - 1), there) < 0);
    }
    return PyBool_FromLong(is_ascending);
}

/* The lists of a BIN that a look-up reads, in the order of the arguments of live_slot. */
enum { KEYS, LSNS, STATES, VALUES, EXPIRATIONS, LISTS };

static long known_deleted, pending_deleted, null_lsn;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.entry.node", "KNOWN_DELETED", &known_deleted},
    {"engine.format.entry.node", "PENDING_DELETED", &pending_deleted},
    {"engine.format.lsn", "NULL_LSN", &null_lsn},
};

/* Whether a numeric attribute in a list differs from a number; also 1 if it is not a number. */
static int is_other(PyObject *there, long number)
{
    int is_long = 0;
    return !PyLong_CheckExact(there) || PyLong_AsLongAndOverflow(there, &is_long) != number || is_long;
}

/* Whether the lists have one element per key. */
static int are_lists(PyObject *const *lists)
{
    for (int list = KEYS; list < LISTS; list++) {
        __builtin_prefetch(lists[list]);
    }
    for (int list = KEYS; list < LISTS; list++) {
        if (!(list == STATES ? PyByteArray_CheckExact(lists[list]) : PyList_CheckExact(lists[list]))
            || Py_SIZE(lists[list]) != Py_SIZE(lists[KEYS])) {
            return 0;
        }
    }
    return 1;
}

/* The index of a key among those of a BIN, in the form of ``bisected``. */
static Py_ssize_t place_in(PyObject *keys, PyObject *key)
{
    Py_ssize_t count = PyList_GET_SIZE(keys);
    for (Py_ssize_t line = 0; line < count; line += REFERENCES) {
        __builtin_prefetch(&PyList_GET_ITEM(keys, line));
    }
    ask_ahead(keys, 0, count, STEPS_AHEAD);
    return bisected(keys, key, 0, 1);
}

/* The data of a live record that does not expire: None if it is not in memory, NULL for any other record. */
static PyObject *plain_value(PyObject *const *lists, Py_ssize_t index)
{
    const char *state = PyByteArray_AS_STRING(lists[STATES]) + index;
    __builtin_prefetch(state);
    __builtin_prefetch(&PyList_GET_ITEM(lists[LSNS], index));
    __builtin_prefetch(&PyList_GET_ITEM(lists[VALUES], index));
    __builtin_prefetch(&PyList_GET_ITEM(lists[EXPIRATIONS], index));
    if (*state & (known_deleted | pending_deleted) || is_other(PyList_GET_ITEM(lists[EXPIRATIONS], index), 0)
        || !is_other(PyList_GET_ITEM(lists[LSNS], index), null_lsn)) {
        return NULL;
    }
    PyObject *value = PyList_GET_ITEM(lists[VALUES], index);
    return value == Py_None || PyBytes_CheckExact(value) ? value : NULL;
}

/* live_slot(keys, lsns, states, values, expirations, key) */
PyObject *live_slot(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (!READY()) {
        return NULL;
    }
    if (count != LISTS + 1) {
        PyErr_SetString(PyExc_TypeError, "live_slot takes the lists of a BIN and a key");
        return NULL;
    }
    PyObject *key = args[LISTS];
    Py_ssize_t index = PyBytes_CheckExact(key) && are_lists(args) ? place_in(args[KEYS], key) : -1;
    if (index < 0) {
        Py_RETURN_NONE;
    }
    PyObject *there = index < PyList_GET_SIZE(args[KEYS]) ? PyList_GET_ITEM(args[KEYS], index) : NULL;
    if (there && !PyBytes_CheckExact(there)) {
        Py_RETURN_NONE;
    }
    int is_there = there && compared(there, key) == 0;
    PyObject *value = is_there ? plain_value(args, index) : Py_None;
    if (!value) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("nO", is_there ? index : ~index, value);
}

PyObject *records_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *class;
    PyObject *keys, *data, *lsns, *chosen;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!", &PyType_Type, &class, &PyList_Type, &keys, &PyList_Type, &data, &PyList_Type,
                          &lsns, &PyList_Type, &chosen)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(chosen);
    if (!PyType_IsSubtype(class, &PyTuple_Type) || PyList_GET_SIZE(data) != count
        || PyList_GET_SIZE(keys) != PyList_GET_SIZE(lsns)) {
        PyErr_SetString(PyExc_ValueError, "records are tuples, with data for each chosen slot");
        return NULL;
    }
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found && at < count; at++) {
        Py_ssize_t slot = PyLong_AsSsize_t(PyList_GET_ITEM(chosen, at));
        if (slot < 0 || slot >= PyList_GET_SIZE(keys)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_IndexError, "no such slot");
            }
            Py_CLEAR(found);
            break;
        }
        if (PyList_GET_ITEM(data, at) == Py_None) {
            continue;
        }
        PyObject *record = class->tp_alloc(class, 3);
        if (record) {
            PyTuple_SET_ITEM(record, 0, Py_NewRef(PyList_GET_ITEM(keys, slot)));
            PyTuple_SET_ITEM(record, 1, Py_NewRef(PyList_GET_ITEM(data, at)));
            PyTuple_SET_ITEM(record, 2, Py_NewRef(PyList_GET_ITEM(lsns, slot)));
        }
        if (!record || PyList_Append(found, record) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(record);
    }
    return found;
}
