/* The obsolete offsets of a FileSummaryLN, described in core.pyi; twin: entry.ln_content.unpacked_offsets_plain. */
#include "entries.h"

#define GROUP_BITS 15
/* More groups in a difference are left to the twin. */
#define MOST_GROUPS 4

static int32_t group_at(const unsigned char *at)
{
    return (int16_t)(at[0] | at[1] << 8);
}

/* unpacked_offsets(count, raw) */
PyObject *unpacked_offsets(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *raw;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "nS", &count, &raw)) {
        return NULL;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(raw);
    Py_ssize_t groups = PyBytes_GET_SIZE(raw) / 2, at = 0, made = 0;
    if (PyBytes_GET_SIZE(raw) % 2 || count < 0 || count > groups) {
        Py_RETURN_NONE;
    }
    PyObject *found = PyTuple_New(count);
    int64_t offset = 0;
    while (found && at < groups && made < count) {
        int64_t difference = 0;
        int32_t group;
        int number = 0;
        do {
            group = group_at(bytes + 2 * at++);
            difference |= (int64_t)(group < 0 ? -1 - group : group) << GROUP_BITS * number++;
        } while (group < 0 && at < groups && number < MOST_GROUPS);
        if (group < 0 || offset > INT64_MAX - difference) {
            break;
        }
        offset += difference;
        PyObject *value = PyLong_FromLongLong(offset);
        if (!value) {
            Py_CLEAR(found);
            break;
        }
        PyTuple_SET_ITEM(found, made++, value);
    }
    if (found && (at != groups || made != count)) {
        Py_DECREF(found);
        Py_RETURN_NONE;
    }
    return found;
}
