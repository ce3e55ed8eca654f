/* Users' records: their data straight from log files and maps of them, and whether queued slots refer to them;
 * described in core.pyi.
 *
 * An entry in a map is copied to the stack before it is examined, since the file may change while it is read. The same
 * conditions are checked as in the twins, fast.ln.is_user_entry and fast.ln.plain_data; entries that do not meet them
 * are left to the twins.
 */
#include "packed.h"
#include "queues.h"
#include "values.h"
#include <stdlib.h>
#include <unistd.h>

/* Bytes in one cache line. */
#define LINE 64
/* Entries with a smaller gap between them are read together, up to the size of the buffer. */
#define MOST_GAP 4096
#define BUFFER (256 << 10)

static unsigned char is_common[256], is_transactional[256], is_put[256];
static long header_bytes, header_with_vlsn_bytes, type_at, flags_at, size_at, checksum_bytes;
static long invisible, replicated, vlsn_present;
static long flags_first, key_first, prior_version;
static long uncommon, has_abort_lsn, has_prior_size, has_prior_file;
static long most_of_slot;

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
    {"engine.format.fast.queued_slots", "MOST_BYTES", &most_of_slot},
};

int values_are_ready(void)
{
    return has_numbers
        || (take_types("COMMON_LNS", is_common) && take_types("TRANSACTIONAL", is_transactional)
            && take_types("COMMON_PUTS", is_put) && READY());
}

const unsigned char *data_of(const unsigned char *entry, size_t size, long version, int64_t db_id, size_t *length)
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

PyObject *data_at(const char *place, size_t size, long version, int64_t db_id)
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

int find_entry(PyObject *files, PyObject *lsn, PyObject *size, Wanted *entry)
{
    entry->map = NULL;
    entry->place = NULL;
    if (!PyLong_Check(lsn) || !PyLong_Check(size)) {
        return 0;
    }
    int64_t where = PyLong_AsLongLong(lsn), bytes = PyLong_AsLongLong(size);
    if (PyErr_Occurred() || where < 0 || bytes < header_with_vlsn_bytes || bytes > LONGEST) {
        return 0;
    }
    PyObject *number = PyLong_FromLongLong(where >> 32);
    PyObject *file = number ? PyDict_GetItemWithError(files, number) : NULL;
    Py_XDECREF(number);
    if (!file || !PyTuple_CheckExact(file) || PyTuple_GET_SIZE(file) != 2
        || !Py_IS_TYPE(PyTuple_GET_ITEM(file, 0), &file_map_type)) {
        return 0;
    }
    entry->version = PyLong_AsLong(PyTuple_GET_ITEM(file, 1));
    if (entry->version < flags_first || entry->version >= key_first) {
        return 0;
    }
    entry->map = PyTuple_GET_ITEM(file, 0);
    entry->offset = (size_t)(where & 0xFFFFFFFF);
    entry->size = (size_t)bytes;
    entry->place = place_in_map(entry->map, entry->offset, entry->size);
    return 1;
}

static int is_dict_and_lists(PyObject *files, PyObject *lsns, PyObject *sizes, PyObject *chosen)
{
    return PyDict_CheckExact(files) && PyList_CheckExact(lsns) && PyList_CheckExact(sizes)
        && PyList_CheckExact(chosen) && PyList_GET_SIZE(lsns) == PyList_GET_SIZE(sizes);
}

PyObject *value_at(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (!values_are_ready()) {
        return NULL;
    }
    if (count != 4 || !PyDict_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "value_at takes files, an LSN, a size and a database id");
        return NULL;
    }
    Wanted entry;
    int64_t db_id = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred() || !find_entry(args[0], args[1], args[2], &entry) || !entry.place) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return data_at(entry.place, entry.size, entry.version, db_id);
}

int by_place(const void *one, const void *other)
{
    const Wanted *left = one, *right = other;
    if (left->map != right->map) {
        return (uintptr_t)left->map < (uintptr_t)right->map ? -1 : 1;
    }
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

Py_ssize_t neighbours(const Wanted *entries, Py_ssize_t count, size_t *length)
{
    Py_ssize_t taken = 1;
    size_t start = entries->offset, end = start + entries->size;
    while (taken < count && entries[taken].map == entries->map) {
        size_t next = entries[taken].offset + entries[taken].size;
        if ((entries[taken].offset > end && entries[taken].offset - end > MOST_GAP) || next - start > BUFFER) {
            break;
        }
        end = next > end ? next : end;
        taken++;
    }
    *length = end - start;
    return taken;
}

/* Read entries of one file that are close together, and put their data into the result; 0 with an error set. */
static int read_together(const Wanted *entries, Py_ssize_t count, size_t length, int64_t db_id, char *buffer,
                         PyObject *found)
{
    int handle = handle_of_map(entries->map);
    ssize_t got = -1;
    if (handle >= 0) {
        Py_BEGIN_ALLOW_THREADS
        got = pread(handle, buffer, length, (off_t)entries->offset);
        Py_END_ALLOW_THREADS
    }
    /* Another thread may have closed the file meanwhile, and its descriptor may be that of another file now. */
    if (got < 0 || handle_of_map(entries->map) != handle) {
        return 1;
    }
    note_read(entries->map, entries->offset, (size_t)got);
    for (Py_ssize_t at = 0; at < count; at++) {
        size_t from = entries[at].offset - entries->offset, bytes = 0;
        if (from > (size_t)got || entries[at].size > (size_t)got - from) {
            continue;
        }
        const unsigned char *entry = (const unsigned char *)buffer + from;
        const unsigned char *data = data_of(entry, entries[at].size, entries[at].version, db_id, &bytes);
        if (data) {
            PyObject *value = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)bytes);
            if (!value || PyList_SetItem(found, entries[at].index, value) < 0) {
                return 0;
            }
        }
    }
    return 1;
}

int read_rest(Wanted *entries, Py_ssize_t count, int64_t db_id, PyObject *found)
{
    char *buffer = PyMem_Malloc(BUFFER);
    if (!buffer) {
        PyErr_NoMemory();
        return 0;
    }
    qsort(entries, (size_t)count, sizeof *entries, by_place);
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_INCREF(entries[at].map);
    }
    int is_good = 1;
    for (Py_ssize_t at = 0; is_good && at < count;) {
        size_t length;
        Py_ssize_t taken = neighbours(entries + at, count - at, &length);
        is_good = read_together(entries + at, taken, length, db_id, buffer, found);
        at += taken;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_DECREF(entries[at].map);
    }
    PyMem_Free(buffer);
    return is_good;
}

PyObject *values_at(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *files, *lsns, *sizes, *chosen;
    long long db_id;
    int in_memory = 0;
    if (!values_are_ready() || !PyArg_ParseTuple(args, "OOOOL|p", &files, &lsns, &sizes, &chosen, &db_id, &in_memory)) {
        return NULL;
    }
    if (!is_dict_and_lists(files, lsns, sizes, chosen)) {
        PyErr_SetString(PyExc_TypeError, "values_at takes a dict, and lists of LSNs, sizes and slots");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(chosen);
    PyObject *found = PyList_New(count);
    Wanted *entries = PyMem_Calloc((size_t)count + 1, sizeof *entries);
    int is_good = found && entries;
    if (found && !entries) {
        PyErr_NoMemory();
    }
    /* No Python code runs in the next two loops, so no map is closed while positions in it are in use. */
    for (Py_ssize_t at = 0; is_good && at < count; at++) {
        PyList_SET_ITEM(found, at, Py_NewRef(Py_None));
        Py_ssize_t slot = PyLong_AsSsize_t(PyList_GET_ITEM(chosen, at));
        if (slot < 0 || slot >= PyList_GET_SIZE(lsns)) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_IndexError, "no such slot");
            }
            is_good = 0;
            break;
        }
        Wanted *entry = &entries[at];
        find_entry(files, PyList_GET_ITEM(lsns, slot), PyList_GET_ITEM(sizes, slot), entry);
        entry->index = at;
        is_good = !PyErr_Occurred();
        /* Records of one node are spread over the log: prefetch their memory. */
        for (size_t line = 0; entry->place && line < entry->size && line < 4 * LINE; line += LINE) {
            __builtin_prefetch(entry->place + line);
        }
    }
    Py_ssize_t rest = 0;
    for (Py_ssize_t at = 0; is_good && at < count; at++) {
        Wanted *entry = &entries[at];
        if (entry->place) {
            PyObject *data = data_at(entry->place, entry->size, entry->version, db_id);
            is_good = data && PyList_SetItem(found, at, data) == 0;
        } else if (entry->map) {
            entries[rest++] = *entry;
        }
    }
    if (is_good && rest && !in_memory) {
        is_good = read_rest(entries, rest, db_id, found);
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

/* Whether an offset is among ascending ones. */
static int is_among(const uint64_t *offsets, Py_ssize_t count, uint64_t offset)
{
    Py_ssize_t first = 0;
    while (count > 0) {
        Py_ssize_t half = count / 2;
        if (offsets[first + half] < offset) {
            first += half + 1;
            count -= half + 1;
        } else if (offsets[first + half] == offset) {
            return 1;
        } else {
            count = half;
        }
    }
    return 0;
}

/* The part of the log with which a queue is compared. */
typedef struct {
    const unsigned char *bytes;
    int64_t start, end;
    long version;
    int64_t db_id;
    const uint64_t *obsolete;
    Py_ssize_t obsolete_count;
} Range;

/* Append the indexes of slots that are not plainly right; 0 with an error set. */
static int add_unlike(const Range *range, const char *slots, Py_ssize_t count, PyObject *found)
{
    int is_plain = range->version >= flags_first && range->version < key_first;
    for (Py_ssize_t index = 0; index < count; index++) {
        QueuedSlot slot;
        memcpy(&slot, slots + index * (Py_ssize_t)sizeof slot, sizeof slot);
        int64_t place = slot.place >> 32, at = place - range->start, size = slot.place & most_of_slot;
        int has = 0;
        if (is_plain && at >= 0 && at <= range->end && size >= header_with_vlsn_bytes && size <= range->end - at
            && !is_among(range->obsolete, range->obsolete_count, (uint64_t)place)) {
            has = has_key(range->bytes + at, (size_t)size, range->version, range->db_id, slot.hash);
        }
        if (has < 0 || (has == 0 && !append_number(found, index))) {
            return 0;
        }
    }
    return 1;
}

/* unlike_slots(data, start, queue, version, db_id, obsolete) */
PyObject *unlike_slots(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *found = NULL;
    Py_buffer queue, obsolete;
    long long start, db_id;
    long version;
    if (!values_are_ready() || !PyArg_ParseTuple(args, "SLy*lLy*", &data, &start, &queue, &version, &db_id, &obsolete)) {
        return NULL;
    }
    if (start < 0 || queue.len % (Py_ssize_t)sizeof(QueuedSlot) || obsolete.len % (Py_ssize_t)sizeof(uint64_t)) {
        PyErr_SetString(PyExc_ValueError, "an offset in the range, whole slots and whole offsets are wanted");
    } else {
        Range range = {
            (const unsigned char *)PyBytes_AS_STRING(data), start, PyBytes_GET_SIZE(data), version, db_id,
            obsolete.buf, obsolete.len / (Py_ssize_t)sizeof(uint64_t),
        };
        found = PyList_New(0);
        if (found && !add_unlike(&range, queue.buf, queue.len / (Py_ssize_t)sizeof(QueuedSlot), found)) {
            Py_CLEAR(found);
        }
    }
    PyBuffer_Release(&queue);
    PyBuffer_Release(&obsolete);
    return found;
}
