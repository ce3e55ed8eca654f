/* Queued slots, as engine.format.fast.queued_slots has them. */
#ifndef JETOOL_QUEUES_H
#define JETOOL_QUEUES_H
#include "core.h"
#include <stdint.h>

typedef struct {
    int64_t place, hash;
} QueuedSlot;

/* Append a number to a list; 0 with an error set. */
static inline int append_number(PyObject *list, int64_t number)
{
    PyObject *made = PyLong_FromLongLong(number);
    int is_good = made && !PyList_Append(list, made);
    Py_XDECREF(made);
    return is_good;
}

#endif
