/* LNs of many records at once, described in core.pyi; twin: engine.pipeline.load.blocks.LNBlock. */
#include "packed.h"
#include <string.h>

static long header_bytes, checksum_bytes, type_at, flags_at, prev_at, size_at, ins_ln;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.header", "HEADER_BYTES", &header_bytes},
    {"engine.format.header", "CHECKSUM_BYTES", &checksum_bytes},
    {"engine.format.header", "TYPE_AT", &type_at},
    {"engine.format.header", "FLAGS_AT", &flags_at},
    {"engine.format.header", "PREV_AT", &prev_at},
    {"engine.format.header", "SIZE_AT", &size_at},
    {"engine.format.entry_types", "INS_LN", &ins_ln},
};

/* A longer key or data is left to the twin, so that no size overflows. */
#define LONGEST ((size_t)1 << 29)

/* Byte strings one after the other: string i goes from ends[i] to ends[i + 1]. */
typedef struct {
    const unsigned char *bytes;
    const int64_t *ends;
} Column;

static void put_u32(unsigned char *to, uint32_t value)
{
    for (int byte = 0; byte < 4; byte++) {
        to[byte] = (unsigned char)(value >> 8 * byte);
    }
}

/* Whether every string of a column is within its bytes. */
static int is_column(const Py_buffer *bytes, const Py_buffer *ends, Py_ssize_t count)
{
    const int64_t *at = ends->buf;
    if (ends->len != (count + 1) * (Py_ssize_t)sizeof *at || at[0] < 0 || at[count] > bytes->len) {
        return 0;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        if (at[row] > at[row + 1]) {
            return 0;
        }
    }
    return 1;
}

/* Write the entry of a record and return its size; 0 if there is no room, or the twin is needed. */
static size_t put_entry(
    unsigned char *to, size_t room, const Column *keys, const Column *values, Py_ssize_t row, int64_t previous,
    const Py_buffer *head)
{
    size_t key_bytes = (size_t)(keys->ends[row + 1] - keys->ends[row]);
    size_t data_bytes = (size_t)(values->ends[row + 1] - values->ends[row]);
    unsigned char length[LONG_BYTES + 1];
    size_t length_bytes = pack(length, (int64_t)data_bytes), fixed = (size_t)(header_bytes + head->len) + length_bytes;
    size_t size = fixed + data_bytes + key_bytes;
    if (previous < 0 || previous > UINT32_MAX || data_bytes > LONGEST || key_bytes > LONGEST
        || (size_t)head->len > LONGEST || size > room) {
        return 0;
    }
    to[type_at] = (unsigned char)ins_ln;
    to[flags_at] = 0;
    put_u32(to + prev_at, (uint32_t)previous);
    put_u32(to + size_at, (uint32_t)(size - (size_t)header_bytes));
    unsigned char *body = to + header_bytes;
    memcpy(body, head->buf, (size_t)head->len);
    body += head->len;
    memcpy(body, length, length_bytes);
    body += length_bytes;
    if (data_bytes) {
        memcpy(body, values->bytes + values->ends[row], data_bytes);
    }
    if (key_bytes) {
        memcpy(body + data_bytes, keys->bytes + keys->ends[row], key_bytes);
    }
    put_u32(to, adler32_of(to + checksum_bytes, size - (size_t)checksum_bytes));
    return size;
}

PyObject *encode_lns(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer out, previous, keys, key_ends, values, value_ends, head, head_of_embedded;
    long long most_embedded;
    if (!READY()
        || !PyArg_ParseTuple(
            args, "w*y*(y*y*)(y*y*)(y*y*)L", &out, &previous, &keys, &key_ends, &values, &value_ends, &head,
            &head_of_embedded, &most_embedded)) {
        return NULL;
    }
    Py_ssize_t count = previous.len / (Py_ssize_t)sizeof(int64_t);
    int is_good = is_column(&keys, &key_ends, count) && is_column(&values, &value_ends, count);
    const Column key = {keys.buf, key_ends.buf}, value = {values.buf, value_ends.buf};
    const int64_t *before = previous.buf;
    size_t at = 0;
    for (Py_ssize_t row = 0; is_good && row < count; row++) {
        int is_embedded = value.ends[row + 1] - value.ends[row] <= most_embedded;
        const Py_buffer *chosen = is_embedded ? &head_of_embedded : &head;
        unsigned char *to = (unsigned char *)out.buf + at;
        size_t size = put_entry(to, (size_t)out.len - at, &key, &value, row, before[row], chosen);
        is_good = size != 0;
        at += size;
    }
    Py_buffer *held[] = {&out, &previous, &keys, &key_ends, &values, &value_ends, &head, &head_of_embedded};
    for (size_t one = 0; one < sizeof held / sizeof *held; one++) {
        PyBuffer_Release(held[one]);
    }
    if (!is_good) {
        Py_RETURN_NONE;
    }
    return PyLong_FromSize_t(at);
}
