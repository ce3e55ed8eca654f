/* Small reads of a file through a map of it: FileMap, described in core.pyi.
 *
 * A pread of a hundred bytes costs more than a microsecond, most of it for the system call; a copy from a map costs a
 * twentieth of that. A map differs from pread in three ways, each handled here:
 *
 * - A page that the file no longer has, or that the disk cannot read, raises SIGBUS. The copy is guarded: the handler
 *   jumps back, and read() returns None. A SIGBUS outside the maps goes to the previous handler.
 * - A page that is not in memory is read while the interpreter's lock is held. So the first read of a chunk is refused
 *   (None): the caller's pread brings it into the page cache, without the lock, and later reads find it there.
 * - Pages that were touched count as memory of the process. Chunks are counted over all maps. At the limit a new chunk
 *   is refused, so that random reads of a log beyond the limit keep the chunks that they have. After many refusals other
 *   chunks are in use: all maps release their pages, which stay in the page cache.
 */
#include "core.h"
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The size that Linux maps around a requested page in one page fault. */
#define CHUNK_BITS 16
/* Refusals at the limit before all pages are released, for each chunk of the limit. To map a chunk costs more than to
 * read from its file once, so a scan of a log far beyond the limit must not map chunks that it meets once. */
#define PATIENCE 64

typedef struct FileMap {
    PyObject_HEAD
    char *base;
    size_t size;
    unsigned char *seen; /* one byte for each chunk */
    size_t chunks;
    int handle; /* of the file; -1 after close() */
    struct FileMap *previous, *next;
} FileMap;

static FileMap *first_map;
static size_t seen_chunks, most_chunks, refusals;

static __thread sigjmp_buf *volatile guard;
static struct sigaction outer;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    sigjmp_buf *back = guard;
    if (back) {
        guard = NULL;
        siglongjmp(*back, 1);
    }
    if (outer.sa_flags & SA_SIGINFO) {
        outer.sa_sigaction(number, info, context);
    } else if (outer.sa_handler != SIG_DFL && outer.sa_handler != SIG_IGN) {
        outer.sa_handler(number);
    } else {
        /* The instruction is repeated, and the default action ends the process. */
        signal(number, SIG_DFL);
    }
}

/* Installed with the first map and not on import, so that handlers of the program are installed before. 0 if that
 * fails. */
static int is_guarded(void)
{
    static int done;
    if (!done) {
        struct sigaction guarded = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
        sigemptyset(&guarded.sa_mask);
        done = sigaction(SIGBUS, &guarded, &outer) == 0;
    }
    return done;
}

/* See core.h. */
int copied_from_map(char *to, const char *from, size_t length)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0)) {
        return 0;
    }
    guard = &here;
    /* The compiler must not move the copy out of the guarded part. */
    __asm__ volatile("" ::: "memory");
    memcpy(to, from, length);
    __asm__ volatile("" ::: "memory");
    guard = NULL;
    return 1;
}

static void let_go_of_pages(void)
{
    for (FileMap *map = first_map; map; map = map->next) {
        madvise(map->base, map->size, MADV_DONTNEED);
        memset(map->seen, 0, map->chunks);
    }
    seen_chunks = refusals = 0;
}

/* Whether a chunk was read before; marks it as read if there is room for it. */
static int was_seen(FileMap *map, size_t chunk)
{
    if (map->seen[chunk]) {
        return 1;
    }
    if (seen_chunks >= most_chunks) {
        if (refusals++ < PATIENCE * most_chunks) {
            return 0;
        }
        let_go_of_pages();
    }
    map->seen[chunk] = 1;
    seen_chunks++;
    return 0;
}

static int is_within(const FileMap *map, size_t offset, size_t length)
{
    return map->base && length <= map->size && offset <= map->size - length;
}

/* See core.h. */
const char *place_in_map(PyObject *object, size_t offset, size_t length)
{
    FileMap *map = (FileMap *)object;
    if (!length || !is_within(map, offset, length)) {
        return NULL;
    }
    for (size_t chunk = offset >> CHUNK_BITS; chunk <= (offset + length - 1) >> CHUNK_BITS; chunk++) {
        if (!map->seen[chunk]) {
            return NULL;
        }
    }
    return map->base + offset;
}

/* See core.h. */
int handle_of_map(PyObject *object)
{
    return ((FileMap *)object)->handle;
}

/* See core.h. */
void note_read(PyObject *object, size_t offset, size_t length)
{
    FileMap *map = (FileMap *)object;
    if (length && is_within(map, offset, length)) {
        for (size_t chunk = offset >> CHUNK_BITS; chunk <= (offset + length - 1) >> CHUNK_BITS; chunk++) {
            was_seen(map, chunk);
        }
    }
}

static PyObject *FileMap_read(FileMap *map, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "read takes an offset and a length");
        return NULL;
    }
    Py_ssize_t offset = PyLong_AsSsize_t(args[0]);
    Py_ssize_t length = PyLong_AsSsize_t(args[1]);
    if ((offset == -1 || length == -1) && PyErr_Occurred()) {
        return NULL;
    }
    if (offset < 0 || length <= 0 || !is_within(map, (size_t)offset, (size_t)length)) {
        Py_RETURN_NONE;
    }
    size_t from = (size_t)offset >> CHUNK_BITS, to = (size_t)(offset + length - 1) >> CHUNK_BITS;
    int all_seen = 1;
    for (size_t chunk = from; chunk <= to; chunk++) {
        all_seen &= was_seen(map, chunk);
    }
    if (!all_seen) {
        Py_RETURN_NONE;
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, length);
    if (data && !copied_from_map(PyBytes_AS_STRING(data), map->base + offset, (size_t)length)) {
        Py_DECREF(data);
        Py_RETURN_NONE;
    }
    return data;
}

static PyObject *FileMap_close(FileMap *map, PyObject *Py_UNUSED(ignored))
{
    map->handle = -1;
    if (map->base) {
        for (size_t chunk = 0; chunk < map->chunks; chunk++) {
            seen_chunks -= map->seen[chunk];
        }
        munmap(map->base, map->size);
        PyMem_Free(map->seen);
        map->base = NULL;
        if (map->previous) {
            map->previous->next = map->next;
        } else {
            first_map = map->next;
        }
        if (map->next) {
            map->next->previous = map->previous;
        }
    }
    Py_RETURN_NONE;
}

static void FileMap_dealloc(FileMap *map)
{
    Py_XDECREF(FileMap_close(map, NULL));
    Py_TYPE(map)->tp_free((PyObject *)map);
}

static PyObject *FileMap_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    int handle;
    struct stat file;
    (void)names;
    if (!PyArg_ParseTuple(args, "i", &handle)) {
        return NULL;
    }
    if (!is_guarded() || fstat(handle, &file) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    FileMap *map = (FileMap *)type->tp_alloc(type, 0);
    if (!map) {
        return NULL;
    }
    map->handle = -1;
    if (file.st_size <= 0) {
        /* An empty file cannot be mapped; all reads of it are refused. */
        return (PyObject *)map;
    }
    map->size = (size_t)file.st_size;
    map->chunks = ((map->size - 1) >> CHUNK_BITS) + 1;
    map->seen = PyMem_Calloc(map->chunks, 1);
    if (!map->seen) {
        Py_DECREF(map);
        return PyErr_NoMemory();
    }
    void *base = mmap(NULL, map->size, PROT_READ, MAP_SHARED, handle, 0);
    if (base == MAP_FAILED) {
        /* Before another call changes errno. */
        PyErr_SetFromErrno(PyExc_OSError);
        PyMem_Free(map->seen);
        Py_DECREF(map);
        return NULL;
    }
    map->base = base;
    map->handle = handle;
    map->next = first_map;
    if (first_map) {
        first_map->previous = map;
    }
    first_map = map;
    return (PyObject *)map;
}

static PyObject *FileMap_size(FileMap *map, void *Py_UNUSED(ignored))
{
    return PyLong_FromSize_t(map->size);
}

PyObject *keep_at_most(PyObject *Py_UNUSED(module), PyObject *bytes)
{
    size_t most = PyLong_AsSize_t(bytes);
    if (most == (size_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    most_chunks = most >> CHUNK_BITS;
    if (seen_chunks > most_chunks) {
        let_go_of_pages();
    }
    Py_RETURN_NONE;
}

PyObject *most_bytes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromSize_t(most_chunks << CHUNK_BITS);
}

PyObject *kept_bytes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromSize_t(seen_chunks << CHUNK_BITS);
}

static PyMethodDef FileMap_methods[] = {
    {"read", (PyCFunction)(void (*)(void))FileMap_read, METH_FASTCALL, NULL},
    {"close", (PyCFunction)FileMap_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef FileMap_attributes[] = {
    {"size", (getter)FileMap_size, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject file_map_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "engine.native.core.FileMap",
    .tp_basicsize = sizeof(FileMap),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = FileMap_new,
    .tp_dealloc = (destructor)FileMap_dealloc,
    .tp_methods = FileMap_methods,
    .tp_getset = FileMap_attributes,
};
