/* The data of users' records, one at a time, of a node, and read ahead. */
#ifndef JETOOL_VALUES_H
#define JETOOL_VALUES_H
#include "core.h"
#include <stdint.h>

/* Longer entries would not get faster. */
#define LONGEST 4096
/* An entry that is asked for. */
typedef struct {
    PyObject *map; /* of its file; NULL if the twin has to read it */
    const char *place; /* in the map; NULL if the file has to be read */
    size_t offset, size;
    long version;
    Py_ssize_t index; /* in the result */
} Wanted;

/* READY of values.c, and the types of LNs. */
int values_are_ready(void);
/* Where the entry of an LSN is. 0 if the twin has to read it, perhaps with an error set. */
int find_entry(PyObject *files, PyObject *lsn, PyObject *size, Wanted *entry);
/* The order of entries for reading: file by file, forward. For qsort. */
int by_place(const void *one, const void *other);
/* The number of entries, from the first one on, that one read of a file brings, and the length of that read. */
Py_ssize_t neighbours(const Wanted *entries, Py_ssize_t count, size_t *length);
/* Read entries, file by file and forward, and put their data into the result; 0 with an error set. The entries are sorted,
 * and their maps are held meanwhile: other threads run while a file is read. */
int read_rest(Wanted *entries, Py_ssize_t count, int64_t db_id, PyObject *found);
/* The data within a whole entry; NULL if the general decoder is needed. */
const unsigned char *data_of(const unsigned char *entry, size_t size, long version, int64_t db_id, size_t *length);
/* The data of the entry at a position of a map, or None. */
PyObject *data_at(const char *place, size_t size, long version, int64_t db_id);

#endif
