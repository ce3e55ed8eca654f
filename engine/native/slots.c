/* The slots of a BIN or a delta as lists, described in core.pyi. General twin: bin.read_records. */
#include "packed.h"

#define LSN_BYTES 4
#define WHOLE_LSN_BYTES 8
/* Expirations farther from now are left to the twin, whose numbers have no limit. */
#define FARTHEST ((int64_t)1 << 40)

static long null_offset, null_lsn, least_slot_bytes, slot_embedded, slot_no_data, persistent, most_files, no_base;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.entry.node", "NULL_OFFSET", &null_offset},
    {"engine.format.entry.node", "LEAST_SLOT_BYTES", &least_slot_bytes},
    {"engine.format.entry.node", "SLOT_EMBEDDED", &slot_embedded},
    {"engine.format.entry.node", "SLOT_NO_DATA", &slot_no_data},
    {"engine.format.lsn", "NULL_LSN", &null_lsn},
    {"engine.format.fast.bin", "PERSISTENT", &persistent},
    {"engine.format.fast.bin", "MOST_FILES", &most_files},
    {"engine.format.fast.bin", "NO_BASE", &no_base},
};

/* Values shared by all slots of a node. */
typedef struct {
    const char *prefix;
    Py_ssize_t prefix_bytes;
    int64_t base, expiration_base;
    int has_sizes, in_hours, is_whole; /* whole LSNs, instead of compact ones relative to the base */
} Shared;

/* One element of each list. */
enum { KEYS, LSNS, VALUES, SIZES, EXPIRATIONS, LISTS };

/* The length of the first part of a two-part key, stored backwards at its end; -1 if it does not fit. */
static Py_ssize_t first_part(const unsigned char *key, Py_ssize_t length, Py_ssize_t *end)
{
    unsigned char turned[LONG_BYTES + 1];
    Py_ssize_t most = length < LONG_BYTES + 1 ? length : LONG_BYTES + 1;
    for (Py_ssize_t byte = 0; byte < most; byte++) {
        turned[byte] = key[length - 1 - byte];
    }
    Fields tail = {.data = turned, .end = most};
    int64_t first = unpack(&tail);
    *end = length - tail.at;
    return tail.is_bad || first < 0 || first > *end ? -1 : (Py_ssize_t)first;
}

static PyObject *joined(const Shared *shared, const unsigned char *suffix, Py_ssize_t length)
{
    PyObject *key = PyBytes_FromStringAndSize(NULL, shared->prefix_bytes + length);
    if (key) {
        memcpy(PyBytes_AS_STRING(key), shared->prefix, (size_t)shared->prefix_bytes);
        memcpy(PyBytes_AS_STRING(key) + shared->prefix_bytes, suffix, (size_t)length);
    }
    return key;
}

static int64_t whole_lsn(const unsigned char *bytes)
{
    uint64_t lsn = 0;
    for (int byte = WHOLE_LSN_BYTES - 1; byte >= 0; byte--) {
        lsn = lsn << 8 | bytes[byte];
    }
    return (int64_t)lsn;
}

static int64_t compact_lsn(const unsigned char *bytes, int64_t base)
{
    int64_t files = bytes[0] > most_files ? (int64_t)bytes[0] - 256 : bytes[0];
    int64_t offset = bytes[1] | bytes[2] << 8 | bytes[3] << 16;
    return offset == null_offset ? null_lsn : (int64_t)((uint64_t)(base + files) << 32) | offset;
}

/* Read one slot into the lists; returns its state, or -1 if it is not a valid slot (or memory is short: an error is
 * set). */
static int read_slot(Fields *from, const Shared *shared, PyObject **lists, Py_ssize_t index, Py_ssize_t *data_bytes)
{
    int64_t length = unpack(from);
    int lsn_bytes = shared->is_whole ? WHOLE_LSN_BYTES : LSN_BYTES;
    if (from->is_bad || length < 0 || length > from->end - from->at - lsn_bytes - 1) {
        return -1;
    }
    const unsigned char *key = from->data + from->at, *lsn = key + length;
    Py_ssize_t key_bytes = (Py_ssize_t)length;
    int state = lsn[lsn_bytes];
    from->at += key_bytes + lsn_bytes + 1;
    int64_t size = 0, expiration = 0;
    PyObject *value = NULL;
    if (state & slot_embedded) {
        Py_ssize_t end = key_bytes;
        if (!(state & slot_no_data)) {
            key_bytes = first_part(key, key_bytes, &end);
            if (key_bytes < 0) {
                return -1;
            }
        }
        value = PyBytes_FromStringAndSize((const char *)key + key_bytes, end - key_bytes);
        *data_bytes += end - key_bytes;
    } else {
        size = shared->has_sizes ? unpack(from) : 0;
        value = Py_NewRef(Py_None);
    }
    if (shared->expiration_base != no_base) {
        expiration = unpack(from);
        if (expiration < -FARTHEST || expiration > FARTHEST) {
            from->is_bad = 1;
        }
        /* 0 means none; otherwise the distance from the base plus one. */
        if (expiration && !from->is_bad) {
            expiration = (shared->expiration_base + expiration - 1) * (shared->in_hours ? -1 : 1);
        }
    }
    PyList_SET_ITEM(lists[VALUES], index, value);
    PyList_SET_ITEM(lists[KEYS], index, joined(shared, key, key_bytes));
    PyList_SET_ITEM(lists[LSNS], index, PyLong_FromLongLong(shared->is_whole ? whole_lsn(lsn) : compact_lsn(lsn, shared->base)));
    PyList_SET_ITEM(lists[SIZES], index, PyLong_FromLongLong(size));
    PyList_SET_ITEM(lists[EXPIRATIONS], index, PyLong_FromLongLong(expiration));
    return from->is_bad || PyErr_Occurred() ? -1 : (int)(state & persistent);
}

PyObject *read_slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *body, *prefix, *base;
    Py_ssize_t at, count, data_bytes = 0;
    long long expiration_base;
    Shared shared = {0};
    if (!READY() || !PyArg_ParseTuple(args, "SnnSOpLp", &body, &at, &count, &prefix, &base, &shared.has_sizes, &expiration_base,
                          &shared.in_hours)) {
        return NULL;
    }
    Fields from = {(const unsigned char *)PyBytes_AS_STRING(body), at, PyBytes_GET_SIZE(body), 0};
    if (at < 0 || at > from.end || count < 0 || count > (from.end - at) / least_slot_bytes
        || expiration_base < -FARTHEST || expiration_base > FARTHEST) {
        Py_RETURN_NONE;
    }
    shared.prefix = PyBytes_AS_STRING(prefix);
    shared.prefix_bytes = PyBytes_GET_SIZE(prefix);
    shared.is_whole = base == Py_None;
    int is_long = 0;
    shared.base = shared.is_whole ? 0 : PyLong_AsLongLongAndOverflow(base, &is_long);
    if (PyErr_Occurred()) {
        return NULL;
    }
    /* In a log the base has four bytes. Only a caller can pass larger ones, which are left to the twin. */
    if (is_long || shared.base != (int32_t)shared.base) {
        Py_RETURN_NONE;
    }
    shared.expiration_base = expiration_base;
    PyObject *lists[LISTS] = {NULL}, *found = NULL;
    PyObject *states = PyByteArray_FromStringAndSize(NULL, count);
    int is_whole = states != NULL;
    for (int list = 0; list < LISTS; list++) {
        lists[list] = PyList_New(count);
        is_whole = is_whole && lists[list];
    }
    for (Py_ssize_t index = 0; is_whole && index < count; index++) {
        int state = read_slot(&from, &shared, lists, index, &data_bytes);
        is_whole = state >= 0;
        PyByteArray_AS_STRING(states)[index] = (char)state;
    }
    if (is_whole) {
        found = Py_BuildValue("OOOOOOnn", lists[KEYS], lists[LSNS], states, lists[VALUES], lists[SIZES],
                              lists[EXPIRATIONS], data_bytes, from.at);
    } else if (!PyErr_Occurred()) {
        found = Py_NewRef(Py_None);
    }
    for (int list = 0; list < LISTS; list++) {
        Py_XDECREF(lists[list]);
    }
    Py_XDECREF(states);
    return found;
}
