/* The walks over headers, described in core.pyi.
 *
 * Each function is the twin of a loop of engine.format.fast.loops, which documents rules and results. They hold the
 * interpreter's lock and take bytes objects. While they go from entry to entry they touch no objects except the lists
 * with the actions for pairs of type and flags. The positions of the header's fields are read from engine.format.header
 * with the first call, so that the layout is written only once.
 */
#include "packed.h"

typedef const unsigned char *Bytes;

/* From engine.format.header, engine.format.fast.header and engine.format.fast.loops. */
static long checksum_bytes, header_bytes, long_header_bytes, type_at, flags_at, prev_at, size_at, vlsn_at;
static long replicated_in_pair, pairs, keep, count, stop, tally_numbers, null_lsn;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.header", "CHECKSUM_BYTES", &checksum_bytes},
    {"engine.format.header", "HEADER_BYTES", &header_bytes},
    {"engine.format.header", "HEADER_WITH_VLSN_BYTES", &long_header_bytes},
    {"engine.format.header", "TYPE_AT", &type_at},
    {"engine.format.header", "FLAGS_AT", &flags_at},
    {"engine.format.header", "PREV_AT", &prev_at},
    {"engine.format.header", "SIZE_AT", &size_at},
    {"engine.format.header", "VLSN_AT", &vlsn_at},
    {"engine.format.fast.header", "REPLICATED_IN_PAIR", &replicated_in_pair},
    {"engine.format.fast.header", "PAIRS", &pairs},
    {"engine.format.fast.loops", "KEEP", &keep},
    {"engine.format.fast.loops", "COUNT", &count},
    {"engine.format.fast.loops", "STOP", &stop},
    {"engine.format.fast.loops", "TALLY", &tally_numbers},
    {"engine.format.lsn", "NULL_LSN", &null_lsn},
};

static int64_t i64_at(Bytes at)
{
    return (int64_t)(u32_at(at) | (uint64_t)u32_at(at + 4) << 32);
}

static unsigned pair_at(Bytes header)
{
    return header[type_at] | (unsigned)header[flags_at] << 8;
}

/* Arguments of a walk: bytes, whole numbers, lists with a number for each pair of type and flags, and arrays. */
static int has_arguments(Py_ssize_t found, Py_ssize_t wanted, PyObject *data)
{
    if (found != wanted || !PyBytes_Check(data)) {
        PyErr_Format(PyExc_TypeError, "bytes and %zd more arguments are wanted", wanted - 1);
        return 0;
    }
    return 1;
}

static int is_by_pair(PyObject *list)
{
    if (!PyList_Check(list) || PyList_GET_SIZE(list) < pairs) {
        PyErr_SetString(PyExc_TypeError, "a list of a number for each pair of type and flags is wanted");
        return 0;
    }
    return 1;
}

static int to_numbers(PyObject *const *arguments, int how_many, long long *numbers)
{
    for (int at = 0; at < how_many; at++) {
        numbers[at] = PyLong_AsLongLong(arguments[at]);
        if (numbers[at] == -1 && PyErr_Occurred()) {
            return 0;
        }
    }
    return 1;
}

/* An array of 64-bit integers. */
static int get_array(PyObject *array, Py_buffer *view)
{
    if (PyObject_GetBuffer(array, view, PyBUF_WRITABLE) < 0) {
        return 0;
    }
    if (view->itemsize != sizeof(int64_t)) {
        PyErr_SetString(PyExc_TypeError, "an array of numbers of 64 bits is wanted");
        PyBuffer_Release(view);
        return 0;
    }
    return 1;
}

/* Adds an entry to the four numbers of a slot: entries, bytes, smallest, largest. */
static void add_to_slot(int64_t *slot, int64_t size)
{
    slot[0]++;
    slot[1] += size;
    slot[2] = size < slot[2] ? size : slot[2];
    slot[3] = size > slot[3] ? size : slot[3];
}

/* walk(data, pos, base, prev_offset, last_vlsn, with_vlsn, slots, tallies) */
PyObject *walk(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t found)
{
    long long numbers[5];
    Py_buffer slots, tallies;
    if (!READY() || !has_arguments(found, 8, found ? arguments[0] : Py_None) || !to_numbers(arguments + 1, 5, numbers)) {
        return NULL;
    }
    if (!get_array(arguments[6], &slots)) {
        return NULL;
    }
    if (!get_array(arguments[7], &tallies)) {
        PyBuffer_Release(&slots);
        return NULL;
    }
    Bytes data = (Bytes)PyBytes_AS_STRING(arguments[0]);
    const int64_t *slot_of = slots.buf;
    int64_t *counted = tallies.buf;
    int64_t known = slots.len / (int64_t)sizeof *slot_of, most = tallies.len / (int64_t)sizeof *counted - 4;
    int64_t end = PyBytes_GET_SIZE(arguments[0]), pos = numbers[0], base = numbers[1], prev_offset = numbers[2];
    int64_t last_vlsn = numbers[3], with_vlsn = numbers[4];
    while (pos >= 0 && pos + header_bytes <= end) {
        Bytes header = data + pos;
        unsigned pair = pair_at(header);
        int64_t slot = pair < known ? slot_of[pair] : 0;
        /* Slot 0 stops the walk. */
        if (slot <= 0 || slot > most || u32_at(header + prev_at) != prev_offset) {
            break;
        }
        int64_t size = u32_at(header + size_at);
        int64_t after = pos + (pair & with_vlsn ? long_header_bytes : header_bytes) + size;
        /* The size is checked before the checksum: the claim of a damaged size must not cost time. */
        if (after > end) {
            break;
        }
        if (adler32_of(header + checksum_bytes, (size_t)(after - pos - checksum_bytes)) != u32_at(header)) {
            break;
        }
        if (pair & replicated_in_pair) {
            if (pos + long_header_bytes > end || i64_at(header + vlsn_at) <= last_vlsn) {
                break;
            }
            last_vlsn = i64_at(header + vlsn_at);
        }
        add_to_slot(counted + slot, size);
        prev_offset = base + pos;
        pos = after;
    }
    PyBuffer_Release(&tallies);
    PyBuffer_Release(&slots);
    return Py_BuildValue("LLL", (long long)pos, (long long)prev_offset, (long long)last_vlsn);
}

/* follow(data, pos, end, base, prev_offset, last_vlsn, lengths); checks before it steps, so it never has to undo a
 * step. */
PyObject *follow(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t found)
{
    long long numbers[5];
    if (!READY() || !has_arguments(found, 7, found ? arguments[0] : Py_None) || !to_numbers(arguments + 1, 5, numbers)
        || !is_by_pair(arguments[6])) {
        return NULL;
    }
    Bytes data = (Bytes)PyBytes_AS_STRING(arguments[0]);
    int64_t pos = numbers[0], end = numbers[1], base = numbers[2], prev_offset = numbers[3], last_vlsn = numbers[4];
    int64_t entries = 0, replicated = 0;
    if (end > PyBytes_GET_SIZE(arguments[0])) {
        end = PyBytes_GET_SIZE(arguments[0]);
    }
    while (pos >= 0 && pos + long_header_bytes <= end) {
        Bytes header = data + pos;
        unsigned pair = pair_at(header);
        if (u32_at(header + prev_at) != prev_offset) {
            break;
        }
        long long length = PyLong_AsLongLong(PyList_GET_ITEM(arguments[6], pair));
        if (length <= 0) {
            break;
        }
        int64_t after = pos + length + u32_at(header + size_at);
        /* Also true for entries at which to stop: their length in the table exceeds every buffer. */
        if (after > end) {
            break;
        }
        if (pair & replicated_in_pair) {
            if (i64_at(header + vlsn_at) <= last_vlsn) {
                break;
            }
            last_vlsn = i64_at(header + vlsn_at);
            replicated++;
        }
        entries++;
        prev_offset = base + pos;
        pos = after;
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    return Py_BuildValue("LLLLL", (long long)pos, (long long)prev_offset, (long long)last_vlsn, (long long)entries,
                         (long long)replicated);
}

static int append(PyObject *list, int64_t number)
{
    PyObject *made = PyLong_FromLongLong(number);
    int is_done = made && PyList_Append(list, made) == 0;
    Py_XDECREF(made);
    return is_done;
}

/* The position where it stopped; -1 with an error set. */
static int64_t sift_bytes(PyObject *bytes, int64_t pos, int64_t until, PyObject *const *lists, Py_buffer *tallies)
{
    Bytes data = (Bytes)PyBytes_AS_STRING(bytes);
    PyObject *actions = lists[0], *lengths = lists[1], *kept = lists[2];
    int64_t *counted = tallies->buf, room = tallies->len / (int64_t)sizeof *counted;
    int64_t end = PyBytes_GET_SIZE(bytes);
    while (pos >= 0 && pos < until && pos + header_bytes <= end) {
        unsigned pair = pair_at(data + pos);
        int64_t slot = (pair & 0xFF) * tally_numbers;
        int64_t total = PyLong_AsLongLong(PyList_GET_ITEM(lengths, pair)) + (int64_t)u32_at(data + pos + size_at);
        long long action = PyLong_AsLongLong(PyList_GET_ITEM(actions, pair));
        if (pos + total > end) {
            break;
        }
        if (action & keep && !append(kept, pos)) {
            return -1;
        }
        if (action & count && slot + tally_numbers <= room) {
            counted[slot]++;
            counted[slot + 1] += total;
            counted[slot + 2] = total > counted[slot + 2] ? total : counted[slot + 2];
        }
        pos += total;
        if (total <= 0 || action & stop) {
            break;
        }
    }
    return PyErr_Occurred() ? -1 : pos;
}

/* sift(data, pos, until, actions, lengths, found, tallies) */
PyObject *sift(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t found)
{
    long long numbers[2];
    Py_buffer tallies;
    if (!READY() || !has_arguments(found, 7, found ? arguments[0] : Py_None) || !to_numbers(arguments + 1, 2, numbers)
        || !is_by_pair(arguments[3]) || !is_by_pair(arguments[4]) || !get_array(arguments[6], &tallies)) {
        return NULL;
    }
    int64_t pos = sift_bytes(arguments[0], numbers[0], numbers[1], arguments + 3, &tallies);
    PyBuffer_Release(&tallies);
    return pos < 0 ? NULL : PyLong_FromLongLong(pos);
}

/* The transactions that have ended: arrays of LSNs for neighbouring ids, by the upper bits of the id. */
typedef struct {
    PyObject *chunks;
    int bits;
    int64_t number; /* of the chunk in use */
    Py_buffer held;
    int is_held;
} Ended;

static void let_go(Ended *ended)
{
    if (ended->is_held) {
        PyBuffer_Release(&ended->held);
    }
    ended->is_held = 0;
}

/* Whether a transaction has ended; -1 with an error set. */
static int has_ended(Ended *ended, int64_t txn_id)
{
    int64_t number = txn_id >> ended->bits;
    if (!ended->is_held || number != ended->number) {
        let_go(ended);
        PyObject *key = PyLong_FromLongLong(number);
        PyObject *chunk = key ? PyDict_GetItemWithError(ended->chunks, key) : NULL;
        Py_XDECREF(key);
        if (!chunk) {
            return PyErr_Occurred() ? -1 : 0;
        }
        if (!get_array(chunk, &ended->held)) {
            return -1;
        }
        ended->is_held = 1;
        ended->number = number;
    }
    int64_t at = txn_id & (((int64_t)1 << ended->bits) - 1);
    return at < ended->held.len / (int64_t)sizeof(int64_t) && ((const int64_t *)ended->held.buf)[at] != null_lsn;
}

/* For the LNs of a log version: the number of flag bytes before the database id, and the flag for an LSN between
 * database id and transaction id. */
typedef struct {
    long long flag_bytes, has_abort_lsn;
} Fronts;

/* Whether an LN's body belongs to a transaction that has ended; -1 with an error set. */
static int is_of_ended(Bytes data, int64_t body, int64_t end, const Fronts *fronts, Ended *ended)
{
    if (body + fronts->flag_bytes > end) {
        return 0;
    }
    Fields fields = {.data = data, .at = (Py_ssize_t)(body + fronts->flag_bytes), .end = (Py_ssize_t)end};
    unpack(&fields); /* the database */
    if (data[body] & fronts->has_abort_lsn) {
        unpack(&fields);
    }
    int64_t txn_id = unpack(&fields);
    return fields.is_bad ? 0 : has_ended(ended, txn_id);
}

/* The number of entries that were examined and not picked; -1 with an error set. */
static int64_t pick_open_entries(PyObject *bytes, PyObject *actions, const Fronts *fronts, PyObject *lengths,
                                 Ended *ended, PyObject *found)
{
    Bytes data = (Bytes)PyBytes_AS_STRING(bytes);
    int64_t end = PyBytes_GET_SIZE(bytes), pos = 0, passed = 0;
    while (pos + header_bytes <= end) {
        unsigned pair = pair_at(data + pos);
        int64_t body = pos + PyLong_AsLongLong(PyList_GET_ITEM(lengths, pair));
        int64_t after = body + u32_at(data + pos + size_at);
        if (body <= pos || after > end) {
            break;
        }
        long action = PyLong_AsLong(PyList_GET_ITEM(actions, pair));
        if (action) {
            int is_passed = action & keep ? 0 : is_of_ended(data, body, end, fronts, ended);
            if (is_passed < 0 || (!is_passed && !append(found, pos))) {
                return -1;
            }
            passed += is_passed;
        }
        pos = after;
    }
    return PyErr_Occurred() ? -1 : passed;
}

/* pick_open(data, actions, lengths, flag_bytes, has_abort_lsn, chunks, bits, found) */
PyObject *pick_open(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t found)
{
    long long front[2], bits;
    if (!READY() || !has_arguments(found, 8, found ? arguments[0] : Py_None) || !is_by_pair(arguments[1])
        || !is_by_pair(arguments[2]) || !to_numbers(arguments + 3, 2, front) || !to_numbers(arguments + 6, 1, &bits)) {
        return NULL;
    }
    if (!PyDict_Check(arguments[5]) || front[0] < 1 || front[0] > header_bytes || bits < 0 || bits > 32
        || !PyList_Check(arguments[7])) {
        PyErr_SetString(PyExc_TypeError, "arrays by number, what stands in front of LNs, and a list are wanted");
        return NULL;
    }
    Fronts fronts = {.flag_bytes = front[0], .has_abort_lsn = front[1]};
    Ended ended = {.chunks = arguments[5], .bits = (int)bits};
    int64_t passed = pick_open_entries(arguments[0], arguments[1], &fronts, arguments[2], &ended, arguments[7]);
    let_go(&ended);
    return passed < 0 ? NULL : PyLong_FromLongLong(passed);
}
