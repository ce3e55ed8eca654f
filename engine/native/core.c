/* The extension engine.native.core: one table of all functions, and the classes FileMap and ReadAhead. Importing it reads
 * nothing but this file; each part takes its numbers of the format with its first call (READY in entries.h).
 */
#include "core.h"

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    FAST(walk),
    FAST(follow),
    FAST(sift),
    FAST(pick_open),
    FAST(value_at),
    FAST(find),
    FAST(covering),
    FAST(ascends),
    FAST(live_slot),
    {"sift_expirations", sift_expirations, METH_VARARGS, NULL},
    {"read_slots", read_slots, METH_VARARGS, NULL},
    {"entry_lines", entry_lines, METH_VARARGS, NULL},
    {"txn_rows", txn_rows, METH_VARARGS, NULL},
    {"encode_lns", encode_lns, METH_VARARGS, NULL},
    {"values_at", values_at, METH_VARARGS, NULL},
    {"queue_slots", queue_slots, METH_VARARGS, NULL},
    {"unlike_slots", unlike_slots, METH_VARARGS, NULL},
    {"tally_slots", tally_slots, METH_VARARGS, NULL},
    {"unpacked_offsets", unpacked_offsets, METH_VARARGS, NULL},
    {"records_of", records_of, METH_VARARGS, NULL},
    {"merged_rows", merged_rows, METH_VARARGS, NULL},
    {"keep_at_most", keep_at_most, METH_O, NULL},
    {"most_bytes", most_bytes, METH_NOARGS, NULL},
    {"kept_bytes", kept_bytes, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "engine.native.core", .m_size = -1, .m_methods = functions,
};

static int add_class(PyObject *module, const char *name, PyTypeObject *class)
{
    return PyType_Ready(class) < 0 ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)class);
}

PyMODINIT_FUNC PyInit_core(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module
        && (add_class(module, "FileMap", &file_map_type) < 0 || add_class(module, "ReadAhead", &read_ahead_type) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
