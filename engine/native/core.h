/* The parts of the extension engine.native.core. core.pyi is the contract of its functions, README.md the rules for C
 * code.
 */
#ifndef JETOOL_CORE_H
#define JETOOL_CORE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Other shared objects see nothing but the initialization of the module. */
#pragma GCC visibility push(hidden)

/* Functions of the module: METH_FASTCALL, or METH_VARARGS, METH_O and METH_NOARGS. */
typedef PyObject *FastCall(PyObject *module, PyObject *const *args, Py_ssize_t count);
typedef PyObject *Call(PyObject *module, PyObject *args);

/* walks.c */
FastCall walk, follow, sift, pick_open;
/* expirations.c, slots.c */
Call sift_expirations, read_slots;
/* values.c */
FastCall value_at;
Call values_at, unlike_slots;
/* queues.c, offsets.c */
Call queue_slots, tally_slots, unpacked_offsets;
/* search.c */
FastCall find, covering, ascends, live_slot;
Call records_of;
/* lines.c, txns.c, blocks.c */
Call entry_lines, txn_rows, encode_lns;
/* runs.c */
Call merged_rows;
/* file_map.c */
Call keep_at_most, most_bytes, kept_bytes;
extern PyTypeObject file_map_type;
/* read_ahead.c */
extern PyTypeObject read_ahead_type;

/* Address of bytes in a FileMap; NULL unless all of their chunks were read before. Changes nothing. */
const char *place_in_map(PyObject *map, size_t offset, size_t length);
/* The descriptor of the file of a map; -1 once the map, and so perhaps the file, is closed. */
int handle_of_map(PyObject *map);
/* Bytes were read without the map: from now on their chunks are read through it, if there is room for them. */
void note_read(PyObject *map, size_t offset, size_t length);
/* Copy out of a map; 0 if a page of it is not available. The map must not be read in any other way. */
int copied_from_map(char *to, const char *from, size_t length);

#pragma GCC visibility pop
#endif
