/* The order of keys that are bytes. */
#ifndef JETOOL_KEYS_H
#define JETOOL_KEYS_H
#include "core.h"
#include <string.h>

/* Less than 0, 0 or more than 0, as Python compares bytes: unsigned, the shorter first. */
static inline int compared(PyObject *one, PyObject *other)
{
    Py_ssize_t here = PyBytes_GET_SIZE(one), there = PyBytes_GET_SIZE(other);
    int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), (size_t)(here < there ? here : there));
    return order ? order : (here > there) - (here < there);
}

#endif
