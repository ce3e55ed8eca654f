/* The transactions of a buffer, described in core.pyi; twin: engine.format.fast.txn_rows.
 *
 * The rows are in an array, in the order of first entries. A hash table of row numbers finds the row of an id. Both grow
 * with the transactions that are found, so a call that stops early costs little.
 */
#include "packed.h"
#include <string.h>

static unsigned char is_common[256], is_transactional[256], is_end[256];
static long header_bytes, header_with_vlsn_bytes, type_at, flags_at, size_at;
static long flags_first, key_first, prior_version, dtvlsn;
static long has_abort_key, has_abort_data, has_abort_vlsn, has_abort_lsn, has_abort_expiration, has_expiration;
static long has_prior_size, has_prior_file;
static long commit, committed_bit, aborted_bit, has_end, most_db, null_lsn;

static int has_numbers;
static const Number from_format[] = {
    {"engine.format.header", "HEADER_BYTES", &header_bytes},
    {"engine.format.header", "HEADER_WITH_VLSN_BYTES", &header_with_vlsn_bytes},
    {"engine.format.header", "TYPE_AT", &type_at},
    {"engine.format.header", "FLAGS_AT", &flags_at},
    {"engine.format.header", "SIZE_AT", &size_at},
    {"engine.format.versions", "LN_FLAGS_FIRST", &flags_first},
    {"engine.format.versions", "LN_KEY_FIRST", &key_first},
    {"engine.format.versions", "PRIOR_VERSION", &prior_version},
    {"engine.format.versions", "DTVLSN", &dtvlsn},
    {"engine.format.entry.ln", "HAS_ABORT_KEY", &has_abort_key},
    {"engine.format.entry.ln", "HAS_ABORT_DATA", &has_abort_data},
    {"engine.format.entry.ln", "HAS_ABORT_VLSN", &has_abort_vlsn},
    {"engine.format.entry.ln", "HAS_ABORT_LSN", &has_abort_lsn},
    {"engine.format.entry.ln", "HAS_ABORT_EXPIRATION", &has_abort_expiration},
    {"engine.format.entry.ln", "HAS_EXPIRATION", &has_expiration},
    {"engine.format.entry.ln", "HAS_PRIOR_SIZE", &has_prior_size},
    {"engine.format.entry.ln", "HAS_PRIOR_FILE", &has_prior_file},
    {"engine.format.entry_types", "COMMIT", &commit},
    {"engine.format.fast.txn_rows", "COMMITTED_BIT", &committed_bit},
    {"engine.format.fast.txn_rows", "ABORTED_BIT", &aborted_bit},
    {"engine.format.fast.txn_rows", "HAS_END", &has_end},
    {"engine.format.fast.txn_rows", "MOST_DB", &most_db},
    {"engine.format.lsn", "NULL_LSN", &null_lsn},
};

/* READY, and the types of entries. */
static int is_ready(void)
{
    return has_numbers
        || (take_types("COMMON_LNS", is_common) && take_types("TRANSACTIONAL", is_transactional)
            && take_types("TXN_ENDS", is_end) && READY());
}

typedef struct {
    int64_t id, first, last, end, time, lns, size, db;
    int64_t last_db; /* of the latest record in another database than the first one */
    long state;
} Row;

/* Its number of places is a power of two; a place holds the number of a row plus one, or 0. */
typedef struct {
    Row *rows;
    int64_t count, room;
    uint32_t *places;
    uint64_t mask;
    int64_t *others; /* pairs of row and database */
    Py_ssize_t other_numbers, other_room;
} Table;

#define FIRST_PLACES 64

static uint64_t place_of(const Table *table, int64_t id)
{
    /* The constant spreads neighbours, which most ids are. */
    uint64_t at = (uint64_t)id * 0x9E3779B97F4A7C15u >> 32 & table->mask;
    while (table->places[at] && table->rows[table->places[at] - 1].id != id) {
        at = (at + 1) & table->mask;
    }
    return at;
}

/* Room for one more row; 0 with an error set. */
static int make_room(Table *table)
{
    if (table->count < table->room) {
        return 1;
    }
    int64_t places = table->room ? 4 * table->room : FIRST_PLACES;
    Row *rows = PyMem_Realloc(table->rows, (size_t)(places / 2) * sizeof *rows);
    table->rows = rows ? rows : table->rows;
    uint32_t *made = rows && places < UINT32_MAX ? PyMem_Calloc((size_t)places, sizeof *made) : NULL;
    if (!made) {
        PyErr_NoMemory();
        return 0;
    }
    PyMem_Free(table->places);
    table->places = made;
    table->mask = (uint64_t)places - 1;
    table->room = places / 2;
    for (int64_t row = 0; row < table->count; row++) {
        made[place_of(table, table->rows[row].id)] = (uint32_t)row + 1;
    }
    return 1;
}

/* The row of a transaction, a new one if it has none yet; NULL with an error set. */
static Row *row_of(Table *table, int64_t id)
{
    if (!make_room(table)) {
        return NULL;
    }
    uint64_t at = place_of(table, id);
    if (!table->places[at]) {
        table->rows[table->count++] = (Row){.id = id, .first = null_lsn, .last = null_lsn, .end = null_lsn};
        table->places[at] = (uint32_t)table->count;
    }
    return &table->rows[table->places[at] - 1];
}

/* Note a database beside the first one of a row; 0 with an error set. */
static int add_other(Table *table, Row *row, int64_t db)
{
    if (table->other_numbers == table->other_room) {
        Py_ssize_t room = 2 * table->other_room + 2;
        int64_t *grown = PyMem_Realloc(table->others, (size_t)room * sizeof *grown);
        if (!grown) {
            PyErr_NoMemory();
            return 0;
        }
        table->others = grown;
        table->other_room = room;
    }
    table->others[table->other_numbers++] = row - table->rows;
    table->others[table->other_numbers++] = db;
    row->last_db = db;
    return 1;
}

static void skip_bytes(Fields *from)
{
    int64_t length = unpack(from);
    from->is_bad |= length < 0 || length > from->end - from->at;
    from->at += from->is_bad ? 0 : (Py_ssize_t)length;
}

/* Add a record; 0: it is left to the caller, or an error is set. */
static int add_record(Table *table, Fields *from, int has_second, int64_t lsn, int64_t total)
{
    if (from->end - from->at < 1 + has_second) {
        return 0;
    }
    long flags = from->data[from->at++], second = has_second ? from->data[from->at++] : 0;
    int64_t db = unpack(from);
    if (flags & has_abort_lsn) {
        unpack(from);
    }
    int64_t id = unpack(from);
    unpack(from);
    if (flags & has_abort_key) {
        skip_bytes(from);
    }
    if (flags & has_abort_data) {
        skip_bytes(from);
    }
    int numbers = !!(flags & has_abort_vlsn) + !!(flags & has_abort_expiration) + !!(flags & has_expiration)
        + !!(second & has_prior_size) + !!(second & has_prior_file);
    while (numbers--) {
        unpack(from);
    }
    int64_t length = unpack(from);
    if (from->is_bad || length < -1 || length > from->end - from->at || db > most_db) {
        return 0;
    }
    Row *row = row_of(table, id);
    if (!row) {
        return 0;
    }
    if (!row->lns++) {
        row->first = lsn;
        row->db = row->last_db = db;
    } else if (db != row->db && db != row->last_db && !add_other(table, row, db)) {
        return 0;
    }
    row->last = lsn;
    row->size += total;
    return 1;
}

/* Add a Commit or Abort; 0 as above. */
static int add_end(Table *table, Fields *from, int is_commit, int numbers, int64_t lsn)
{
    unpack(from); /* the last LSN */
    int64_t id = unpack(from), time = unpack(from);
    while (numbers--) {
        unpack(from);
    }
    if (from->is_bad || from->at != from->end) {
        return 0;
    }
    Row *row = row_of(table, id);
    if (!row) {
        return 0;
    }
    row->end = lsn;
    row->time = time;
    row->state = has_end | (is_commit ? committed_bit : aborted_bit);
    return 1;
}

/* Add the entry at a position; 0 as above. */
static int add_entry(Table *table, PyObject *data, int64_t pos, PyObject *lengths, long version, int64_t lsn)
{
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data), *header = bytes + pos;
    int64_t end = PyBytes_GET_SIZE(data);
    if (pos < 0 || header_bytes > end - pos) {
        return 0;
    }
    int type = header[type_at];
    long length = PyLong_AsLong(PyList_GET_ITEM(lengths, type | header[flags_at] << 8));
    int64_t size = u32_at(header + size_at);
    if (length < header_bytes || length > header_with_vlsn_bytes || size > end - pos - length) {
        return 0;
    }
    Fields from = {bytes, (Py_ssize_t)(pos + length), (Py_ssize_t)(pos + length + size), 0};
    if (is_end[type]) {
        return add_end(table, &from, type == commit, version >= dtvlsn ? 2 : 1, lsn + pos);
    }
    return is_common[type] && is_transactional[type]
        && add_record(table, &from, version >= prior_version, lsn + pos, length + size);
}

enum { COLUMNS = 8 };

/* The columns of the table as bytes objects, from an index of a tuple on; 0 with an error set. */
static int put_columns(const Table *table, PyObject *found, Py_ssize_t at)
{
    for (int column = 0; column < COLUMNS; column++) {
        PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)table->count * (Py_ssize_t)sizeof(int64_t));
        if (!made) {
            return 0;
        }
        char *to = PyBytes_AS_STRING(made);
        for (int64_t row = 0; row < table->count; row++) {
            memcpy(to + row * (int64_t)sizeof(int64_t), (const int64_t *)(const void *)&table->rows[row] + column,
                   sizeof(int64_t));
        }
        PyTuple_SET_ITEM(found, at + column, made);
    }
    PyObject *states = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)table->count);
    if (!states) {
        return 0;
    }
    for (int64_t row = 0; row < table->count; row++) {
        PyBytes_AS_STRING(states)[row] = (char)table->rows[row].state;
    }
    PyTuple_SET_ITEM(found, at + COLUMNS, states);
    return 1;
}

static PyObject *result_of(const Table *table, Py_ssize_t reached)
{
    PyObject *found = PyTuple_New(COLUMNS + 3), *at = PyLong_FromSsize_t(reached);
    PyObject *others = PyBytes_FromStringAndSize((const char *)table->others,
                                                 table->other_numbers * (Py_ssize_t)sizeof(int64_t));
    if (!found || !at || !others || !put_columns(table, found, 1)) {
        Py_CLEAR(found);
        Py_XDECREF(at);
        Py_XDECREF(others);
        return NULL;
    }
    PyTuple_SET_ITEM(found, 0, at);
    PyTuple_SET_ITEM(found, COLUMNS + 2, others);
    return found;
}

/* txn_rows(data, positions, at, lengths, version, lsn) */
PyObject *txn_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *positions, *lengths, *found = NULL;
    Py_ssize_t at;
    long version;
    long long lsn;
    Table table = {.room = 0};
    if (!is_ready() || !PyArg_ParseTuple(args, "SO!nO!lL", &data, &PyList_Type, &positions, &at, &PyList_Type, &lengths,
                                         &version, &lsn)) {
        return NULL;
    }
    if (PyList_GET_SIZE(lengths) < 1 << 16 || at < 0) {
        PyErr_SetString(PyExc_ValueError, "a length for each pair of type and flags, and an index are wanted");
        return NULL;
    }
    if (version < flags_first || version >= key_first) {
        Py_RETURN_NONE;
    }
    while (at < PyList_GET_SIZE(positions)) {
        int64_t pos = PyLong_AsLongLong(PyList_GET_ITEM(positions, at));
        if (PyErr_Occurred() || !add_entry(&table, data, pos, lengths, version, lsn)) {
            break;
        }
        at++;
    }
    if (!PyErr_Occurred()) {
        found = result_of(&table, at);
    }
    PyMem_Free(table.rows);
    PyMem_Free(table.places);
    PyMem_Free(table.others);
    return found;
}
