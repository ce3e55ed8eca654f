/* Users' records: their data straight from maps of log files, and whether queued slots refer to them; described in
 * core.pyi.
 *
 * An entry in a map is copied to the stack before it is examined, since the file may change while it is read. The same
 * conditions are checked as in the twins, fast.ln.is_user_entry and fast.ln.plain_data; entries that do not meet them
 * are left to the twins.
 */
#include "packed.h"

/* Longer entries would not get faster. */
#define LONGEST 4096
/* Bytes in one cache line. */
#define LINE 64

static unsigned char is_common[256], is_transactional[256], is_put[256];
static long header_bytes, header_with_vlsn_bytes, type_at, flags_at, size_at, checksum_bytes;
static long invisible, replicated, vlsn_present;
static long flags_first, key_first, prior_version;
static long uncommon, has_abort_lsn, has_prior_size, has_prior_file;
static long range_bits, most_bytes_of_slot;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.header", "HEADER_BYTES", &header_bytes},
    {"engine.format.header", "HEADER_WITH_VLSN_BYTES", &header_with_vlsn_bytes},
    {"engine.format.header", "CHECKSUM_BYTES", &checksum_bytes},
    {"engine.format.header", "TYPE_AT", &type_at},
    {"engine.format.header", "FLAGS_AT", &flags_at},
    {"engine.format.header", "SIZE_AT", &size_at},
    {"engine.format.header", "INVISIBLE", &invisible},
    {"engine.format.header", "REPLICATED", &replicated},
    {"engine.format.header", "VLSN_PRESENT", &vlsn_present},
    {"engine.format.versions", "LN_FLAGS_FIRST", &flags_first},
    {"engine.format.versions", "LN_KEY_FIRST", &key_first},
    {"engine.format.versions", "PRIOR_VERSION", &prior_version},
    {"engine.format.fast.ln", "UNCOMMON_FLAGS", &uncommon},
    {"engine.format.entry.ln", "HAS_ABORT_LSN", &has_abort_lsn},
    {"engine.format.entry.ln", "HAS_PRIOR_SIZE", &has_prior_size},
    {"engine.format.entry.ln", "HAS_PRIOR_FILE", &has_prior_file},
    {"engine.format.fast.queued_slots", "RANGE_BITS", &range_bits},
    {"engine.format.fast.queued_slots", "MOST_BYTES", &most_bytes_of_slot},
};

/* READY, and the types of LNs. */
static int is_ready(void)
{
    return has_numbers
        || (take_types("COMMON_LNS", is_common) && take_types("TRANSACTIONAL", is_transactional)
            && take_types("COMMON_PUTS", is_put) && READY());
}

/* The data within a whole entry; NULL if the general decoder is needed. */
static const unsigned char *data_of(const unsigned char *entry, size_t size, long version, int64_t db_id, size_t *length)
{
    int type = entry[type_at], bits = entry[flags_at];
    size_t head = (size_t)(bits & (replicated | vlsn_present) ? header_with_vlsn_bytes : header_bytes);
    if (!is_common[type] || bits & invisible || size < head || u32_at(entry + size_at) != size - head
        || adler32_of(entry + checksum_bytes, size - (size_t)checksum_bytes) != u32_at(entry)) {
        return NULL;
    }
    Fields from = {entry, (Py_ssize_t)head, (Py_ssize_t)size, 0};
    int has_second = version >= prior_version;
    if (from.end - from.at < 1 + has_second) {
        return NULL;
    }
    int flags = entry[from.at++], second = has_second ? entry[from.at++] : 0;
    if (flags & uncommon || unpack(&from) != db_id) {
        return NULL;
    }
    int others = is_transactional[type] ? 2 + !!(flags & has_abort_lsn) : 0;
    others += !!(second & has_prior_size) + !!(second & has_prior_file);
    while (others--) {
        unpack(&from);
    }
    int64_t bytes = unpack(&from);
    if (from.is_bad || bytes < 0 || bytes > from.end - from.at) {
        return NULL;
    }
    *length = (size_t)bytes;
    return entry + from.at;
}

/* The data of the entry at a position of a map, or None. */
static PyObject *data_at(const char *place, size_t size, long version, int64_t db_id)
{
    unsigned char entry[LONGEST];
    size_t length;
    if (copied_from_map((char *)entry, place, size)) {
        const unsigned char *data = data_of(entry, size, version, db_id, &length);
        if (data) {
            return PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)length);
        }
    }
    Py_RETURN_NONE;
}

/* The position of the entry of an LSN in the map of its file, and its log version; NULL if its file is not mapped. */
static const char *place_of(PyObject *files, PyObject *lsn, PyObject *size, long *version)
{
    if (!PyLong_Check(lsn) || !PyLong_Check(size)) {
        return NULL;
    }
    int64_t where = PyLong_AsLongLong(lsn), bytes = PyLong_AsLongLong(size);
    if (PyErr_Occurred() || where < 0 || bytes < header_with_vlsn_bytes || bytes > LONGEST) {
        return NULL;
    }
    PyObject *number = PyLong_FromLongLong(where >> 32);
    PyObject *file = number ? PyDict_GetItemWithError(files, number) : NULL;
    Py_XDECREF(number);
    if (!file || !PyTuple_CheckExact(file) || PyTuple_GET_SIZE(file) != 2
        || !Py_IS_TYPE(PyTuple_GET_ITEM(file, 0), &file_map_type)) {
        return NULL;
    }
    *version = PyLong_AsLong(PyTuple_GET_ITEM(file, 1));
    if (*version < flags_first || *version >= key_first) {
        return NULL;
    }
    return place_in_map(PyTuple_GET_ITEM(file, 0), (size_t)(where & 0xFFFFFFFF), (size_t)bytes);
}

static int is_dict_and_lists(PyObject *files, PyObject *lsns, PyObject *sizes, PyObject *chosen)
{
    return PyDict_CheckExact(files) && PyList_CheckExact(lsns) && PyList_CheckExact(sizes)
        && PyList_CheckExact(chosen) && PyList_GET_SIZE(lsns) == PyList_GET_SIZE(sizes);
}

PyObject *value_at(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (!is_ready()) {
        return NULL;
    }
    if (count != 4 || !PyDict_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "value_at takes files, an LSN, a size and a database id");
        return NULL;
    }
    long version;
    int64_t db_id = PyLong_AsLongLong(args[3]);
    const char *place = PyErr_Occurred() ? NULL : place_of(args[0], args[1], args[2], &version);
    if (!place) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return data_at(place, (size_t)PyLong_AsSsize_t(args[2]), version, db_id);
}

PyObject *values_at(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *files, *lsns, *sizes, *chosen;
    long long db_id;
    if (!is_ready() || !PyArg_ParseTuple(args, "OOOOL", &files, &lsns, &sizes, &chosen, &db_id)) {
        return NULL;
    }
    if (!is_dict_and_lists(files, lsns, sizes, chosen)) {
        PyErr_SetString(PyExc_TypeError, "values_at takes a dict, and lists of LSNs, sizes and slots");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(chosen);
    /* No Python code runs from here on, so no map is closed while positions in it are in use. */
    PyObject *found = PyList_New(count);
    struct Entry {
        const char *place;
        size_t size;
        long version;
    } *entries = PyMem_Calloc((size_t)count + 1, sizeof *entries);
    int is_good = found && entries;
    if (found && !entries) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t at = 0; is_good && at < count; at++) {
        Py_ssize_t slot = PyLong_AsSsize_t(PyList_GET_ITEM(chosen, at));
        if (slot < 0 || slot >= PyList_GET_SIZE(lsns)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_IndexError, "no such slot");
            }
            is_good = 0;
            break;
        }
        struct Entry *entry = &entries[at];
        entry->place = place_of(files, PyList_GET_ITEM(lsns, slot), PyList_GET_ITEM(sizes, slot), &entry->version);
        is_good = !PyErr_Occurred();
        if (entry->place) {
            entry->size = (size_t)PyLong_AsSsize_t(PyList_GET_ITEM(sizes, slot));
            /* Records of one node are spread over the log: prefetch their memory. */
            for (size_t line = 0; line < entry->size && line < 4 * LINE; line += LINE) {
                __builtin_prefetch(entry->place + line);
            }
        }
    }
    for (Py_ssize_t at = 0; is_good && at < count; at++) {
        struct Entry *entry = &entries[at];
        PyObject *data = entry->place ? data_at(entry->place, entry->size, entry->version, db_id) : Py_NewRef(Py_None);
        is_good = data != NULL;
        PyList_SET_ITEM(found, at, data);
    }
    PyMem_Free(entries);
    if (!is_good) {
        Py_CLEAR(found);
    }
    return found;
}

/* Whether an entry is a plain insertion or update whose key has a hash; -1 with an error set. */
static int has_key(const unsigned char *entry, size_t size, long version, int64_t db_id, int64_t hash)
{
    size_t length;
    if (!is_put[entry[type_at]] || entry[flags_at] & ~(replicated | vlsn_present)) {
        return 0;
    }
    const unsigned char *data = data_of(entry, size, version, db_id, &length);
    if (!data) {
        return 0;
    }
    PyObject *key = PyBytes_FromStringAndSize((const char *)data + length, entry + size - data - (Py_ssize_t)length);
    Py_hash_t found = key ? PyObject_Hash(key) : -1;
    Py_XDECREF(key);
    return PyErr_Occurred() ? -1 : found == hash;
}

/* Append a number to a list; 0 with an error set. */
static int append_number(PyObject *list, int64_t number)
{
    PyObject *made = PyLong_FromLongLong(number);
    int is_good = made && !PyList_Append(list, made);
    Py_XDECREF(made);
    return is_good;
}

/* A queued slot, as engine.format.fast.queued_slots has it. */
typedef struct {
    int64_t place, hash;
} QueuedSlot;

/* unlike_slots(data, start, queue, version, db_id) */
PyObject *unlike_slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *found = NULL;
    Py_buffer queue;
    long long start, db_id;
    long version;
    if (!is_ready() || !PyArg_ParseTuple(args, "SLy*lL", &data, &start, &queue, &version, &db_id)) {
        return NULL;
    }
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data);
    int64_t end = PyBytes_GET_SIZE(data);
    int is_plain = version >= flags_first && version < key_first, is_good = 0;
    if (start < 0 || queue.len % (Py_ssize_t)sizeof(QueuedSlot)) {
        PyErr_SetString(PyExc_ValueError, "an offset in the range, and whole slots are wanted");
    } else {
        found = PyList_New(0);
        is_good = found != NULL;
    }
    for (Py_ssize_t index = 0; is_good && index < queue.len / (Py_ssize_t)sizeof(QueuedSlot); index++) {
        QueuedSlot slot;
        memcpy(&slot, (const char *)queue.buf + index * (Py_ssize_t)sizeof slot, sizeof slot);
        int64_t at = (slot.place >> 32) - start, size = slot.place & most_bytes_of_slot;
        int has = 0;
        if (is_plain && at >= 0 && at <= end && size >= header_with_vlsn_bytes && size <= end - at) {
            has = has_key(bytes + at, (size_t)size, version, db_id, slot.hash);
        }
        is_good = has > 0 || (has == 0 && append_number(found, index));
    }
    PyBuffer_Release(&queue);
    if (!is_good) {
        Py_CLEAR(found);
    }
    return found;
}

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
    if (is_beyond || is_large || bytes <= 0 || bytes > most_bytes_of_slot || where < 0 || where >= end
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
    if (!is_ready() || !PyArg_ParseTuple(args, "O!O!YO!O!lLOO!", &PyList_Type, &lsns, &PyList_Type, &sizes, &states,
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
