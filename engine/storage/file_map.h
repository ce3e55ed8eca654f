/* What other C modules ask of a map of a file (file_map.c); they find it in the capsule of this name. */
#ifndef JETOOL_FILE_MAP_H
#define JETOOL_FILE_MAP_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define FILE_MAP_CALLS "engine.storage.file_map.calls"

typedef struct {
    PyTypeObject *type;
    /* Where bytes of a map are; NULL unless all of their chunks were read before. Changes nothing. */
    const char *(*place)(PyObject *map, size_t offset, size_t length);
    /* Copy out of a map; 0 when a page of it cannot be had. Without it nothing of a map may be looked at. */
    int (*copied)(char *to, const char *from, size_t length);
} FileMapCalls;

#endif
