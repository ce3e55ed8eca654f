/* Lines of LNs, Commits and Aborts, described in core.pyi; twin: engine.format.fast.entry_lines.
 *
 * A call reads its layout into an array of parts, whose texts stay those of the caller's strings, and then touches no
 * objects but the labels of each entry and the tables of the calendar.
 */
#include "packed.h"
#include <string.h>

/* From engine.format. */
static long header_bytes, header_with_vlsn_bytes, flags_at, type_at, prev_at, size_at, vlsn_at, replicated;
static long abort_known_deleted, embedded, has_abort_key, has_abort_data, has_abort_vlsn, has_abort_lsn;
static long has_abort_expiration, has_expiration, has_prior_size, has_prior_file;
static long txn_ln, plain_ln, txn_end, seconds, expirations, per_second, most_width, null_lsn, null_vlsn;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.header", "HEADER_BYTES", &header_bytes},
    {"engine.format.header", "HEADER_WITH_VLSN_BYTES", &header_with_vlsn_bytes},
    {"engine.format.header", "FLAGS_AT", &flags_at},
    {"engine.format.header", "TYPE_AT", &type_at},
    {"engine.format.header", "PREV_AT", &prev_at},
    {"engine.format.header", "SIZE_AT", &size_at},
    {"engine.format.header", "VLSN_AT", &vlsn_at},
    {"engine.format.header", "REPLICATED", &replicated},
    {"engine.format.entry.ln", "ABORT_KNOWN_DELETED", &abort_known_deleted},
    {"engine.format.entry.ln", "EMBEDDED", &embedded},
    {"engine.format.entry.ln", "HAS_ABORT_KEY", &has_abort_key},
    {"engine.format.entry.ln", "HAS_ABORT_DATA", &has_abort_data},
    {"engine.format.entry.ln", "HAS_ABORT_VLSN", &has_abort_vlsn},
    {"engine.format.entry.ln", "HAS_ABORT_LSN", &has_abort_lsn},
    {"engine.format.entry.ln", "HAS_ABORT_EXPIRATION", &has_abort_expiration},
    {"engine.format.entry.ln", "HAS_EXPIRATION", &has_expiration},
    {"engine.format.entry.ln", "HAS_PRIOR_SIZE", &has_prior_size},
    {"engine.format.entry.ln", "HAS_PRIOR_FILE", &has_prior_file},
    {"engine.format.fast.entry_lines", "TXN_LN", &txn_ln},
    {"engine.format.fast.entry_lines", "PLAIN_LN", &plain_ln},
    {"engine.format.fast.entry_lines", "TXN_END", &txn_end},
    {"engine.format.fast.entry_lines", "SECONDS", &seconds},
    {"engine.format.fast.entry_lines", "EXPIRATIONS", &expirations},
    {"engine.format.fast.entry_lines", "PER_SECOND", &per_second},
    {"engine.format.fast.entry_lines", "MOST_WIDTH", &most_width},
    {"engine.format.lsn", "NULL_LSN", &null_lsn},
    {"engine.format.vlsn", "NULL_VLSN", &null_vlsn},
};

/* The fields of a line, in the order of their names below. */
enum {
    TEXT, LABEL, LSN, FILE_NUMBER, OFFSET, REPLICATED, VLSN, PREV, SIZE, CHECKSUM, DB, TXN, LAST_LSN, ABORT_LSN,
    IS_ABORT_KNOWN_DELETED, IS_EMBEDDED, EXPIRATION, ABORT_KEY, ABORT_DATA, ABORT_VLSN, ABORT_EXPIRATION, PRIOR_SIZE,
    PRIOR_FILE, KEY, DATA, DATA_SIZE, IS_DELETED, TIME, MASTER, DTVLSN, MASTER_TERM, FIELDS
};
static const char *const names[FIELDS] = {
    "text", "label", "lsn", "file", "offset", "replicated", "vlsn", "prev", "size", "checksum", "db", "txn", "last_lsn",
    "abort_lsn", "abort_known_deleted", "embedded", "expiration", "abort_key_hex", "abort_data_hex", "abort_vlsn",
    "abort_expiration", "prior_size", "prior_file", "key_hex", "data_hex", "data_size", "deleted", "time", "master",
    "dtvlsn", "master_term",
};

typedef struct {
    const char *at;
    Py_ssize_t length;
} Text;

/* A LinePart. A text of NULL is None. */
typedef struct {
    int field, is_quiet;
    long width;
    Text before, after, null;
} Part;

typedef struct {
    Part *parts;
    Py_ssize_t count, longest; /* bytes that a line has at most, without its values of bytes and its labels */
    int has_data;
} Parts;

/* The digits of a number, or of the milliseconds of a time, and the text of a second around these. */
#define MOST_DIGITS 48
#define MOST_CALENDAR 64

typedef struct {
    int is_there; /* with a value; a boolean: is true */
    int64_t number;
    const unsigned char *bytes; /* NULL for numbers */
    Py_ssize_t length;
    Text head, tail; /* of the calendar */
} Value;

/* What is read and written by a call. */
typedef struct {
    PyObject *lengths, *labels, *seconds, *expirations;
    const unsigned char *kinds;
    int has_flags2, has_dtvlsn;
    Parts records, ends;
    char *out;
    Py_ssize_t size, room;
    /* The table and number that are missing. */
    int is_missing;
    long table;
    int64_t number;
} Lines;

static int text_of(PyObject *object, Text *text)
{
    text->at = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &text->length) : NULL;
    if (!text->at && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "a text is wanted");
    }
    return text->at != NULL;
}

/* The number of a field; names in the order of the fields are found at once. */
static int field_of(const char *name, int from)
{
    for (int step = 0; step < FIELDS; step++) {
        int field = (from + step) % FIELDS;
        if (!strcmp(names[field], name)) {
            return field;
        }
    }
    PyErr_Format(PyExc_ValueError, "no field %s", name);
    return -1;
}

static int take_part(PyObject *object, int from, Part *part)
{
    Text name;
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 6) {
        PyErr_SetString(PyExc_TypeError, "a part of a line has six values");
        return 0;
    }
    PyObject *null = PyTuple_GET_ITEM(object, 3);
    part->null = (Text){NULL, 0};
    if (!text_of(PyTuple_GET_ITEM(object, 0), &name) || !text_of(PyTuple_GET_ITEM(object, 1), &part->before)
        || !text_of(PyTuple_GET_ITEM(object, 2), &part->after) || (null != Py_None && !text_of(null, &part->null))) {
        return 0;
    }
    part->field = field_of(name.at, from);
    part->width = PyLong_AsLong(PyTuple_GET_ITEM(object, 4));
    part->is_quiet = PyObject_IsTrue(PyTuple_GET_ITEM(object, 5));
    if (PyErr_Occurred()) {
        return 0;
    }
    if (part->width > most_width || part->width < -most_width) {
        PyErr_SetString(PyExc_ValueError, "no such width");
        return 0;
    }
    return 1;
}

static int take_parts(PyObject *tuple, Parts *parts)
{
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of parts is wanted");
        return 0;
    }
    parts->count = PyTuple_GET_SIZE(tuple);
    parts->parts = PyMem_Calloc((size_t)parts->count + 1, sizeof(Part));
    if (!parts->parts) {
        PyErr_NoMemory();
        return 0;
    }
    int from = 0;
    for (Py_ssize_t at = 0; at < parts->count; at++) {
        Part *part = &parts->parts[at];
        if (!take_part(PyTuple_GET_ITEM(tuple, at), from, part)) {
            return 0;
        }
        from = part->field + 1;
        parts->has_data |= part->field == DATA;
        parts->longest += part->before.length + part->after.length + part->null.length + labs(part->width)
            + MOST_DIGITS + 2 * MOST_CALENDAR;
    }
    return 1;
}

/* Text before and after the milliseconds of a second, or of an expiration; 0: it has no text, or one that is missing, or with
 * an error set. */
static int take_calendar(Lines *call, long table, int64_t number, Value *value)
{
    PyObject *key = PyLong_FromLongLong(number);
    PyObject *found = key ? PyDict_GetItemWithError(table == seconds ? call->seconds : call->expirations, key) : NULL;
    Py_XDECREF(key);
    if (!found) {
        if (!PyErr_Occurred()) {
            call->is_missing = 1;
            call->table = table;
            call->number = number;
        }
        return 0;
    }
    if (found == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) != 2) {
        PyErr_SetString(PyExc_TypeError, "two texts are wanted for a number of the calendar");
        return 0;
    }
    if (!text_of(PyTuple_GET_ITEM(found, 0), &value->head) || !text_of(PyTuple_GET_ITEM(found, 1), &value->tail)) {
        return 0;
    }
    value->is_there = 1;
    return value->head.length <= MOST_CALENDAR && value->tail.length <= MOST_CALENDAR;
}

static void set(Value *value, int64_t number)
{
    value->is_there = 1;
    value->number = number;
}

/* An LSN, which must be that of an entry, or NULL. */
static int set_lsn(Value *value, int64_t lsn)
{
    set(value, lsn);
    value->is_there = lsn != null_lsn;
    return lsn > 0 || lsn == null_lsn;
}

/* Bytes with their length before them. */
static int set_bytes(Value *value, Fields *from)
{
    int64_t length = unpack(from);
    if (from->is_bad || length < 0 || length > from->end - from->at) {
        return 0;
    }
    value->is_there = 1;
    value->bytes = from->data + from->at;
    value->length = (Py_ssize_t)length;
    from->at += value->length;
    return 1;
}

/* Abort information and expiration. */
static int take_rare(Lines *call, Fields *from, long flags, Value *values)
{
    if (flags & has_abort_key && !set_bytes(&values[ABORT_KEY], from)) {
        return 0;
    }
    if (flags & has_abort_data && !set_bytes(&values[ABORT_DATA], from)) {
        return 0;
    }
    if (flags & has_abort_vlsn) {
        set(&values[ABORT_VLSN], unpack(from));
        if (from->is_bad || values[ABORT_VLSN].number == null_vlsn) {
            return 0;
        }
    }
    for (int at = 0; at < 2; at++) {
        if (flags & (at ? has_expiration : has_abort_expiration)) {
            int64_t number = unpack(from);
            Value *value = &values[at ? EXPIRATION : ABORT_EXPIRATION];
            /* The general way leaves 0 and -1 out of a line of text. */
            if (from->is_bad || !number || number == -1 || !take_calendar(call, expirations, number, value)) {
                return 0;
            }
        }
    }
    return 1;
}

/* The fields of an LN; 0: it is left to the caller, or an error is set. */
static int take_record(Lines *call, Fields *from, int is_transactional, Value *values)
{
    if (from->end - from->at < 1 + call->has_flags2) {
        return 0;
    }
    long flags = from->data[from->at++], second = call->has_flags2 ? from->data[from->at++] : 0;
    if (second & ~(has_prior_size | has_prior_file)) {
        return 0;
    }
    set(&values[DB], unpack(from));
    int is_usual = 1;
    if (is_transactional) {
        if (flags & has_abort_lsn) {
            is_usual = set_lsn(&values[ABORT_LSN], unpack(from));
        }
        set(&values[TXN], unpack(from));
        is_usual &= set_lsn(&values[LAST_LSN], unpack(from));
    }
    if (from->is_bad || !is_usual || !take_rare(call, from, flags, values)) {
        return 0;
    }
    if (second & has_prior_size) {
        set(&values[PRIOR_SIZE], unpack(from));
    }
    if (second & has_prior_file) {
        set(&values[PRIOR_FILE], unpack(from));
    }
    int64_t length = unpack(from);
    if (from->is_bad || length < -1 || length > from->end - from->at || values[PRIOR_SIZE].number < 0
        || values[PRIOR_FILE].number < 0) {
        return 0;
    }
    values[IS_ABORT_KNOWN_DELETED].is_there = !!(flags & abort_known_deleted);
    values[IS_EMBEDDED].is_there = !!(flags & embedded);
    values[IS_DELETED].is_there = length < 0;
    if (length >= 0) {
        values[DATA] = (Value){.is_there = 1, .bytes = from->data + from->at, .length = (Py_ssize_t)length};
        set(&values[DATA_SIZE], length);
        from->at += (Py_ssize_t)length;
    }
    values[KEY] = (Value){.is_there = 1, .bytes = from->data + from->at, .length = from->end - from->at};
    return 1;
}

/* The fields of a Commit or Abort; 0 as above. */
static int take_end(Lines *call, Fields *from, Value *values)
{
    int is_usual = set_lsn(&values[LAST_LSN], unpack(from));
    set(&values[TXN], unpack(from));
    int64_t time = unpack(from);
    set(&values[MASTER], unpack(from));
    set(&values[DTVLSN], call->has_dtvlsn ? unpack(from) : 0);
    values[DTVLSN].is_there = values[DTVLSN].number != null_vlsn;
    set(&values[MASTER_TERM], 0);
    if (from->is_bad || from->at != from->end || !is_usual) {
        return 0;
    }
    int64_t second = time / per_second, ms = time % per_second;
    /* Before 1970, both are rounded down. */
    if (ms < 0) {
        ms += per_second;
        second--;
    }
    values[TIME].number = ms;
    return take_calendar(call, seconds, second, &values[TIME]);
}

static char *put(char *out, Text text)
{
    memcpy(out, text.at, (size_t)text.length);
    return out + text.length;
}

static char *put_number(char *out, int64_t number, unsigned base)
{
    char digits[MOST_DIGITS];
    int at = MOST_DIGITS;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        digits[--at] = "0123456789abcdef"[rest % base];
        rest /= base;
    } while (rest);
    if (number < 0) {
        *out++ = '-';
    }
    memcpy(out, digits + at, (size_t)(MOST_DIGITS - at));
    return out + MOST_DIGITS - at;
}

static char *put_lsn(char *out, int64_t lsn)
{
    out = put_number(put(out, (Text){"0x", 2}), lsn >> 32, 16);
    return put_number(put(out, (Text){"/0x", 3}), lsn & 0xFFFFFFFF, 16);
}

static char *put_value(char *out, int field, const Value *value)
{
    if (value->bytes) {
        for (Py_ssize_t at = 0; at < value->length; at++) {
            *out++ = "0123456789abcdef"[value->bytes[at] >> 4];
            *out++ = "0123456789abcdef"[value->bytes[at] & 15];
        }
        return out;
    }
    switch (field) {
    case LSN:
    case LAST_LSN:
    case ABORT_LSN:
        return put_lsn(out, value->number);
    case TIME:
        out = put(out, value->head);
        *out++ = '.';
        *out++ = (char)('0' + value->number / 100);
        *out++ = (char)('0' + value->number / 10 % 10);
        *out++ = (char)('0' + value->number % 10);
        return put(out, value->tail);
    case EXPIRATION:
    case ABORT_EXPIRATION:
        return put(put(out, value->head), value->tail);
    default:
        return put_number(out, value->number, 10);
    }
}

static int is_boolean(int field)
{
    return field == REPLICATED || field == IS_ABORT_KNOWN_DELETED || field == IS_EMBEDDED || field == IS_DELETED;
}

/* Whether a quiet part says nothing of a value. */
static int is_nothing(const Value *value)
{
    return value->bytes ? !value->length : value->number == 0 || value->number == -1;
}

static char *put_part(char *out, const Part *part, const Value *value)
{
    if (!value->is_there) {
        return part->null.at ? put(out, part->null) : out;
    }
    if (is_boolean(part->field)) {
        return put(out, part->before);
    }
    if (part->is_quiet && is_nothing(value)) {
        return out;
    }
    char *begin = put(out, part->before);
    out = put_value(begin, part->field, value);
    Py_ssize_t gap = labs(part->width) - (out - begin);
    if (gap > 0) {
        if (part->width > 0) {
            memmove(begin + gap, begin, (size_t)(out - begin));
        }
        memset(part->width > 0 ? begin : out, ' ', (size_t)gap);
        out += gap;
    }
    return put(out, part->after);
}

/* Room for a number of bytes after the lines; 0 with an error set. */
static int make_room(Lines *call, Py_ssize_t wanted)
{
    if (call->room - call->size >= wanted) {
        return 1;
    }
    Py_ssize_t room = 2 * call->room + wanted;
    char *grown = PyMem_Realloc(call->out, (size_t)room);
    if (!grown) {
        PyErr_NoMemory();
        return 0;
    }
    call->out = grown;
    call->room = room;
    return 1;
}

static Py_ssize_t put_line(Lines *call, const Parts *parts, PyObject *labels, const Value *values)
{
    Py_ssize_t wanted = parts->longest;
    for (Py_ssize_t at = 0; at < parts->count; at++) {
        const Part *part = &parts->parts[at];
        Text label;
        if (part->field != LABEL) {
            wanted += 2 * values[part->field].length;
            continue;
        }
        if (part->width < 0 || part->width >= PyTuple_GET_SIZE(labels)) {
            PyErr_SetString(PyExc_IndexError, "no such label");
            return 0;
        }
        if (!text_of(PyTuple_GET_ITEM(labels, part->width), &label)) {
            return 0;
        }
        wanted += label.length;
    }
    if (!make_room(call, wanted)) {
        return 0;
    }
    char *out = call->out + call->size;
    for (Py_ssize_t at = 0; at < parts->count; at++) {
        const Part *part = &parts->parts[at];
        Text label;
        if (part->field == TEXT) {
            out = put(out, part->before);
        } else if (part->field != LABEL) {
            out = put_part(out, part, &values[part->field]);
        } else if (text_of(PyTuple_GET_ITEM(labels, part->width), &label)) {
            out = put(put(put(out, part->before), label), part->after);
        }
    }
    call->size = out - call->out;
    return 1;
}

/* The line of the entry at a place of a buffer that ends at ``end``; 0: it is left to the caller, or an error is set.
 * ``after`` is where the entry ends. */
static int line_at(Lines *call, const unsigned char *data, Py_ssize_t pos, Py_ssize_t end, int64_t lsn, Py_ssize_t *after)
{
    if (end - pos < header_bytes) {
        return 0;
    }
    const unsigned char *header = data + pos;
    unsigned pair = header[type_at] | (unsigned)header[flags_at] << 8;
    PyObject *labels = PyList_GET_ITEM(call->labels, pair);
    int kind = call->kinds[pair & 0xFF];
    if (labels == Py_None || !kind) {
        return 0;
    }
    if (!PyTuple_Check(labels)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of labels is wanted");
        return 0;
    }
    long length = PyLong_AsLong(PyList_GET_ITEM(call->lengths, pair));
    int64_t size = u32_at(header + size_at);
    if (length < header_bytes || length > header_with_vlsn_bytes || size > end - pos - length) {
        return 0;
    }
    Value values[FIELDS] = {{.is_there = 0}};
    set(&values[LSN], lsn + pos);
    set(&values[FILE_NUMBER], (lsn + pos) >> 32);
    set(&values[OFFSET], (lsn + pos) & 0xFFFFFFFF);
    set(&values[PREV], u32_at(header + prev_at));
    set(&values[SIZE], size);
    set(&values[CHECKSUM], u32_at(header));
    values[REPLICATED].is_there = !!(header[flags_at] & replicated);
    if (length == header_with_vlsn_bytes) {
        uint64_t vlsn = u32_at(header + vlsn_at) | (uint64_t)u32_at(header + vlsn_at + 4) << 32;
        set(&values[VLSN], (int64_t)vlsn);
        values[VLSN].is_there = (int64_t)vlsn != null_vlsn;
    }
    Fields from = {data, pos + length, (Py_ssize_t)(pos + length + size), 0};
    *after = from.end;
    if (kind == txn_end) {
        return take_end(call, &from, values) && put_line(call, &call->ends, labels, values);
    }
    return (kind == txn_ln || kind == plain_ln) && take_record(call, &from, kind == txn_ln, values)
        && put_line(call, &call->records, labels, values);
}

static int take_layout(PyObject *layout, PyObject *texts, Lines *call)
{
    if (!PyTuple_Check(layout) || PyTuple_GET_SIZE(layout) < 7 || !PyTuple_Check(texts) || PyTuple_GET_SIZE(texts) != 2) {
        PyErr_SetString(PyExc_TypeError, "a layout and two tables of texts are wanted");
        return 0;
    }
    PyObject *kinds = PyTuple_GET_ITEM(layout, 1);
    call->lengths = PyTuple_GET_ITEM(layout, 0);
    call->labels = PyTuple_GET_ITEM(layout, 2);
    call->seconds = PyTuple_GET_ITEM(texts, seconds);
    call->expirations = PyTuple_GET_ITEM(texts, expirations);
    if (!PyList_Check(call->lengths) || PyList_GET_SIZE(call->lengths) < 1 << 16 || !PyList_Check(call->labels)
        || PyList_GET_SIZE(call->labels) < 1 << 16 || !PyBytes_Check(kinds) || PyBytes_GET_SIZE(kinds) < 256
        || !PyDict_Check(call->seconds) || !PyDict_Check(call->expirations)) {
        PyErr_SetString(PyExc_TypeError, "a layout has values by pair and by type, and the texts are in dicts");
        return 0;
    }
    call->kinds = (const unsigned char *)PyBytes_AS_STRING(kinds);
    call->has_flags2 = PyObject_IsTrue(PyTuple_GET_ITEM(layout, 3)) > 0;
    call->has_dtvlsn = PyObject_IsTrue(PyTuple_GET_ITEM(layout, 4)) > 0;
    return take_parts(PyTuple_GET_ITEM(layout, 5), &call->records)
        && take_parts(PyTuple_GET_ITEM(layout, 6), &call->ends);
}

/* entry_lines(data, pos, end, lsn, layout, texts, most_bytes) */
PyObject *entry_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *layout, *texts, *found = NULL;
    Py_ssize_t pos, end, most_bytes, after = 0, count = 0;
    long long lsn;
    Lines call = {.room = 0};
    if (!READY() || !PyArg_ParseTuple(args, "SnnLOOn", &data, &pos, &end, &lsn, &layout, &texts, &most_bytes)) {
        return NULL;
    }
    if (take_layout(layout, texts, &call)) {
        end = end > PyBytes_GET_SIZE(data) ? PyBytes_GET_SIZE(data) : end;
        const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data);
        while (pos >= 0 && pos < end && call.size < most_bytes && line_at(&call, bytes, pos, end, lsn, &after)) {
            pos = after;
            count++;
        }
    }
    if (!PyErr_Occurred()) {
        found = call.is_missing ? Py_BuildValue("y#nn(lL)", call.out ? call.out : "", call.size, pos, count, call.table,
                                                (long long)call.number)
                                : Py_BuildValue("y#nnO", call.out ? call.out : "", call.size, pos, count, Py_None);
    }
    PyMem_Free(call.out);
    PyMem_Free(call.records.parts);
    PyMem_Free(call.ends.parts);
    return found;
}
