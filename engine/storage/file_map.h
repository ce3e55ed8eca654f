/* Functions on maps of files (file_map.c) for other C modules, which get them from the capsule of this name. */
#ifndef JETOOL_FILE_MAP_H
#define JETOOL_FILE_MAP_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define FILE_MAP_CALLS "engine.storage.file_map.calls"

typedef struct {
    PyTypeObject *type;
    /* Address of bytes in a map; NULL unless all of their chunks were read before. Changes nothing. */
    const char *(*place)(PyObject *map, size_t offset, size_t length);
    /* Copy out of a map; 0 if a page of it is not available. The map must not be read in any other way. */
    int (*copied)(char *to, const char *from, size_t length);
} FileMapCalls;

#endif
