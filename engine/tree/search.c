/* Binary search among keys that are bytes: engine.tree.search, described in search.pyi. General twin: bisect.
 *
 * Keys are compared where they are: no call, no reference counts, which would write to the memory of every key that
 * a search looks at. Most of the rest is waiting for memory.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

/* So many references are in what the processor takes from memory at once. */
#define REFERENCES 8

/* Less than 0, 0 or more than 0, as in Python: unsigned bytes, the shorter first. */
static inline int compared(PyObject *one, PyObject *other)
{
    Py_ssize_t here = PyBytes_GET_SIZE(one), there = PyBytes_GET_SIZE(other);
    int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), (size_t)(here < there ? here : there));
    return order ? order : (here > there) - (here < there);
}

/* Have the bytes of a key brought from memory, if it has any; nothing is read yet. */
static inline void ask_for(PyObject *key)
{
    __builtin_prefetch((const char *)key + offsetof(PyBytesObject, ob_sval));
}

/* The first place from ``low`` on whose key is above ``key``, or, with ``or_equal``, not below it; -1 where something
 * that was looked at is not bytes. */
static Py_ssize_t bisected(PyObject *keys, PyObject *key, Py_ssize_t low, int or_equal)
{
    Py_ssize_t high = PyList_GET_SIZE(keys);
    /* References are asked for all at once, and keys one step ahead: whichever way the search goes on, the next key is
     * on its way from memory by then. */
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

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
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

static PyObject *covering(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t index = are_bytes(args, count) ? bisected(args[0], args[1], 1, 0) : -1;
    if (index < 0) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return PyLong_FromSsize_t(index - 1);
}

static PyObject *ascends(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
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

static PyMethodDef functions[] = {
    {"find", (PyCFunction)(void (*)(void))find, METH_FASTCALL, NULL},
    {"covering", (PyCFunction)(void (*)(void))covering, METH_FASTCALL, NULL},
    {"ascends", (PyCFunction)(void (*)(void))ascends, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "search", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_search(void)
{
    return PyModule_Create(&definition);
}
