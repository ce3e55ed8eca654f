/* Finds entries of a buffer that may hold expiring records. Twin: expiration_scan.sift, which documents the rules.
 */
#include "packed.h"

/* Level and capacity follow the number of slots. */
#define FIELDS_AFTER_COUNT 2
#define BASE_FILE_BYTES 4

static long header_bytes, type_at, flags_at, size_at, types, pairs, has_expiration, has_prefix;
static long least_slot_bytes, no_base, by_flags, by_head, always;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.header", "HEADER_BYTES", &header_bytes},
    {"engine.format.header", "TYPE_AT", &type_at},
    {"engine.format.header", "FLAGS_AT", &flags_at},
    {"engine.format.header", "SIZE_AT", &size_at},
    {"engine.format.fast.header", "TYPES", &types},
    {"engine.format.fast.header", "PAIRS", &pairs},
    {"engine.format.entry.ln", "HAS_EXPIRATION", &has_expiration},
    {"engine.format.entry.node", "HAS_PREFIX", &has_prefix},
    {"engine.format.entry.node", "LEAST_SLOT_BYTES", &least_slot_bytes},
    {"engine.format.fast.bin", "NO_BASE", &no_base},
    {"engine.format.fast.expiration_scan", "BY_FLAGS", &by_flags},
    {"engine.format.fast.expiration_scan", "BY_HEAD", &by_head},
    {"engine.format.fast.expiration_scan", "ALWAYS", &always},
};

/* Skips a length and that number of bytes. */
static void pass_bytes(Fields *from)
{
    int64_t length = unpack(from);
    if (length < 0 || length > from->end - from->at) {
        from->is_bad = 1;
    } else {
        from->at += (Py_ssize_t)length;
    }
}

static int byte_at(Fields *from)
{
    if (from->is_bad || from->at >= from->end) {
        from->is_bad = 1;
        return 0;
    }
    return from->data[from->at++];
}

/* Number of packed integers in the head of a BIN, by log version. */
typedef struct {
    int before_base, after_base, before_count, has_form;
} Layout;

static void pass_numbers(Fields *from, int how_many)
{
    for (int field = 0; field < how_many; field++) {
        unpack(from);
    }
}

/* Whether the head of a BIN is complete and shows that nothing in it expires. */
static int is_lasting(const unsigned char *body, int64_t size, const Layout *layout)
{
    Fields head = {.data = body, .end = (Py_ssize_t)size};
    pass_numbers(&head, layout->before_base);
    if (unpack(&head) != no_base) {
        return 0;
    }
    pass_numbers(&head, layout->after_base);
    pass_bytes(&head);
    if (byte_at(&head) & has_prefix) {
        pass_bytes(&head);
    }
    pass_numbers(&head, layout->before_count);
    int64_t slots = unpack(&head);
    pass_numbers(&head, FIELDS_AFTER_COUNT);
    if (layout->has_form && byte_at(&head) == 1) {
        head.at += BASE_FILE_BYTES;
    }
    return !head.is_bad && head.at <= head.end && slots >= 0 && slots <= (head.end - head.at) / least_slot_bytes;
}

static int may_expire(long kind, const unsigned char *body, int64_t size, const Layout *layout)
{
    if (kind == by_flags) {
        return size <= 0 || body[0] & has_expiration;
    }
    return kind == by_head ? !is_lasting(body, size, layout) : kind == always;
}

/* sift_expirations(data, kinds, layout, lengths, found) */
PyObject *sift_expirations(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *bytes, *kinds, *lengths, *found;
    Layout layout;
    if (!READY() || !PyArg_ParseTuple(args, "SS(iiip)O!O!", &bytes, &kinds, &layout.before_base, &layout.after_base,
                          &layout.before_count, &layout.has_form, &PyList_Type, &lengths, &PyList_Type, &found)) {
        return NULL;
    }
    if (PyBytes_GET_SIZE(kinds) != types || PyList_GET_SIZE(lengths) < pairs) {
        PyErr_SetString(PyExc_TypeError, "a kind for each type and a length for each pair of type and flags are wanted");
        return NULL;
    }
    const unsigned char *data = (const unsigned char *)PyBytes_AS_STRING(bytes);
    const unsigned char *kind_of = (const unsigned char *)PyBytes_AS_STRING(kinds);
    int64_t end = PyBytes_GET_SIZE(bytes), pos = 0;
    while (pos + header_bytes <= end) {
        unsigned type = data[pos + type_at];
        int64_t length = PyLong_AsLongLong(PyList_GET_ITEM(lengths, type | (unsigned)data[pos + flags_at] << 8));
        int64_t size = u32_at(data + pos + size_at);
        if (length <= 0 || pos + length + size > end) {
            break;
        }
        if (kind_of[type] && may_expire(kind_of[type], data + pos + length, size, &layout)) {
            PyObject *place = PyLong_FromLongLong(pos);
            if (!place || PyList_Append(found, place) < 0) {
                Py_XDECREF(place);
                return NULL;
            }
            Py_DECREF(place);
        }
        pos += length + size;
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(pos);
}
