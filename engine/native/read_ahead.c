/* What is needed soon, read by a thread while Python goes on: ReadAhead, described in core.pyi.
 *
 * In a log that is larger than the caches of the processor a pread of a hundred bytes takes two microseconds and more,
 * longer than Python needs to print the record. The thread never touches a Python object: begin() notes descriptors,
 * offsets and lengths for it, and finish() takes what it has read.
 *
 * An object is used under the interpreter's lock. ``state`` belongs to both sides and is changed under ``lock`` only;
 * everything else belongs to the thread while the state is ASKED, and to Python otherwise.
 */
#include "values.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Entries beyond these bytes are left to the twin. */
#define MOST_BYTES (4 << 20)
/* Threads of the process: a program may have any number of walks that it has not ended. */
#define MOST_THREADS 16

/* Objects that have a thread; in a process that was forked also those whose thread is in the other one. */
static int threads;

/* One read of a file, of entries that are close together. */
typedef struct {
    int handle;
    size_t offset, length;
    char *to;
    ssize_t got;
} Read;

typedef struct {
    PyObject_HEAD
    Wanted *entries; /* first those to read, in the order of reading, then those that maps have; their maps are held */
    Read *reads;
    char *buffer;
    Py_ssize_t asked, count, to_read, read_count; /* LSNs, entries that can be found, those to read, reads */
    pthread_t thread;
    pid_t process; /* that has the thread; 0 without one */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { IDLE, ASKED, CLOSED } state;
} ReadAhead;

static void *serve(void *argument)
{
    ReadAhead *ahead = argument;
    pthread_mutex_lock(&ahead->lock);
    while (ahead->state != CLOSED) {
        if (ahead->state == ASKED) {
            pthread_mutex_unlock(&ahead->lock);
            for (Read *read = ahead->reads; read < ahead->reads + ahead->read_count; read++) {
                read->got = pread(read->handle, read->to, read->length, (off_t)read->offset);
            }
            pthread_mutex_lock(&ahead->lock);
            ahead->state = IDLE;
            pthread_cond_broadcast(&ahead->changed);
        } else {
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        }
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

/* Signals are for Python's threads. 0 if there is no thread; then nothing is read ahead. */
static int has_thread(ReadAhead *ahead)
{
    if (ahead->process == getpid()) {
        return 1;
    }
    if (ahead->process) {
        /* A copy of the object in a process that was forked: the thread is not there, and the lock may be taken. */
        return 0;
    }
    sigset_t all, before;
    sigfillset(&all);
    if (threads >= MOST_THREADS || pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return 0;
    }
    if (pthread_create(&ahead->thread, NULL, serve, ahead) == 0) {
        ahead->process = getpid();
        threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ahead->process != 0;
}

static void set_state(ReadAhead *ahead, int state)
{
    pthread_mutex_lock(&ahead->lock);
    ahead->state = state;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
}

/* Wait until the thread has read everything. */
static void wait_for_thread(ReadAhead *ahead)
{
    if (ahead->process != getpid()) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&ahead->lock);
    while (ahead->state == ASKED) {
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    }
    pthread_mutex_unlock(&ahead->lock);
    Py_END_ALLOW_THREADS
}

/* Forget the entries; the thread is idle. */
static void forget(ReadAhead *ahead)
{
    Wanted *entries = ahead->entries;
    Py_ssize_t count = ahead->count;
    PyMem_Free(ahead->reads);
    PyMem_Free(ahead->buffer);
    ahead->entries = NULL;
    ahead->reads = NULL;
    ahead->buffer = NULL;
    ahead->asked = ahead->count = ahead->to_read = ahead->read_count = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_DECREF(entries[at].map);
    }
    PyMem_Free(entries);
}

/* Find the entries; 0 with an error set. */
static int find_entries(ReadAhead *ahead, PyObject *files, PyObject *lsns, PyObject *sizes)
{
    ahead->asked = PyList_GET_SIZE(lsns);
    ahead->entries = PyMem_Calloc((size_t)ahead->asked + 1, sizeof *ahead->entries);
    if (!ahead->entries) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t at = 0; at < ahead->asked; at++) {
        Wanted *entry = &ahead->entries[ahead->count];
        if (find_entry(files, PyList_GET_ITEM(lsns, at), PyList_GET_ITEM(sizes, at), entry)) {
            Py_INCREF(entry->map);
            entry->index = at;
            ahead->count++;
            if (!entry->place) {
                Wanted other = ahead->entries[ahead->to_read];
                ahead->entries[ahead->to_read++] = *entry;
                *entry = other;
            }
        } else if (PyErr_Occurred()) {
            return 0;
        }
    }
    return 1;
}

/* Note the reads of the entries that no map has; 0 with an error set. */
static int note_reads(ReadAhead *ahead)
{
    size_t total = 0, length;
    qsort(ahead->entries, (size_t)ahead->to_read, sizeof *ahead->entries, by_place);
    ahead->reads = PyMem_Calloc((size_t)ahead->count + 1, sizeof *ahead->reads);
    if (!ahead->reads) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t at = 0; at < ahead->to_read;) {
        const Wanted *entry = &ahead->entries[at];
        Py_ssize_t taken = neighbours(entry, ahead->to_read - at, &length);
        int handle = handle_of_map(entry->map);
        if (total + length > MOST_BYTES) {
            break;
        }
        ahead->reads[ahead->read_count++] = (Read){.handle = handle, .offset = entry->offset, .length = length, .got = -1};
        total += length;
        at += taken;
    }
    ahead->buffer = PyMem_Malloc(total + 1);
    if (!ahead->buffer) {
        PyErr_NoMemory();
        return 0;
    }
    char *to = ahead->buffer;
    for (Py_ssize_t at = 0; at < ahead->read_count; at++) {
        ahead->reads[at].to = to;
        to += ahead->reads[at].length;
    }
    return 1;
}

static PyObject *ReadAhead_begin(ReadAhead *ahead, PyObject *args)
{
    PyObject *files, *lsns, *sizes;
    if (!values_are_ready()
        || !PyArg_ParseTuple(args, "O!O!O!", &PyDict_Type, &files, &PyList_Type, &lsns, &PyList_Type, &sizes)) {
        return NULL;
    }
    if (PyList_GET_SIZE(lsns) != PyList_GET_SIZE(sizes)) {
        PyErr_SetString(PyExc_ValueError, "each LSN has a size");
        return NULL;
    }
    wait_for_thread(ahead);
    forget(ahead);
    if (!has_thread(ahead)) {
        Py_RETURN_FALSE;
    }
    if (!find_entries(ahead, files, lsns, sizes) || !note_reads(ahead)) {
        forget(ahead);
        return NULL;
    }
    set_state(ahead, ASKED);
    Py_RETURN_TRUE;
}

/* Put the data of the entries of one read into the result; returns the number of entries, -1 with an error set. */
static Py_ssize_t take_values(const Wanted *entries, Py_ssize_t count, const Read *read, int64_t db_id, PyObject *found)
{
    size_t length;
    Py_ssize_t taken = neighbours(entries, count, &length);
    /* The file may have been closed meanwhile, and the descriptor may have been that of another file. */
    if (read->got < 0 || handle_of_map(entries->map) != read->handle) {
        return taken;
    }
    note_read(entries->map, read->offset, (size_t)read->got);
    for (Py_ssize_t at = 0; at < taken; at++) {
        size_t from = entries[at].offset - read->offset, bytes = 0;
        if (from > (size_t)read->got || entries[at].size > (size_t)read->got - from) {
            continue;
        }
        const unsigned char *entry = (const unsigned char *)read->to + from;
        const unsigned char *data = data_of(entry, entries[at].size, entries[at].version, db_id, &bytes);
        if (data) {
            PyObject *value = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)bytes);
            if (!value || PyList_SetItem(found, entries[at].index, value) < 0) {
                return -1;
            }
        }
    }
    return taken;
}

static PyObject *ReadAhead_finish(ReadAhead *ahead, PyObject *arg)
{
    int64_t db_id = PyLong_AsLongLong(arg);
    if (PyErr_Occurred() || !values_are_ready()) {
        return NULL;
    }
    wait_for_thread(ahead);
    PyObject *found = PyList_New(ahead->asked);
    for (Py_ssize_t at = 0; found && at < ahead->asked; at++) {
        PyList_SET_ITEM(found, at, Py_NewRef(Py_None));
    }
    /* Before a read is noted: a map may let its pages go then. One that has done so since begin() is read now. */
    Py_ssize_t gone = ahead->to_read;
    for (Py_ssize_t at = ahead->to_read; found && at < ahead->count; at++) {
        const Wanted *entry = &ahead->entries[at];
        const char *place = place_in_map(entry->map, entry->offset, entry->size);
        PyObject *value = place ? data_at(place, entry->size, entry->version, db_id) : NULL;
        if (place && (!value || PyList_SetItem(found, entry->index, value) < 0)) {
            Py_CLEAR(found);
        } else if (!place) {
            Wanted other = ahead->entries[gone];
            ahead->entries[gone++] = *entry;
            ahead->entries[at] = other;
        }
    }
    for (Py_ssize_t at = 0, number = 0; found && number < ahead->read_count; number++) {
        Py_ssize_t taken = take_values(&ahead->entries[at], ahead->to_read - at, &ahead->reads[number], db_id, found);
        if (taken < 0) {
            Py_CLEAR(found);
        }
        at += taken;
    }
    if (found && gone > ahead->to_read
        && !read_rest(&ahead->entries[ahead->to_read], gone - ahead->to_read, db_id, found)) {
        Py_CLEAR(found);
    }
    forget(ahead);
    return found;
}

/* Note a read of one length at each offset; 0 with an error set. */
static int note_raw_reads(ReadAhead *ahead, PyObject *handles, PyObject *offsets, size_t length)
{
    Py_ssize_t count = PyList_GET_SIZE(handles);
    ahead->reads = PyMem_Calloc((size_t)count + 1, sizeof *ahead->reads);
    ahead->buffer = PyMem_Malloc((size_t)count * length + 1);
    if (!ahead->reads || !ahead->buffer) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        long long handle = PyLong_AsLongLong(PyList_GET_ITEM(handles, at));
        long long offset = PyLong_AsLongLong(PyList_GET_ITEM(offsets, at));
        if (PyErr_Occurred()) {
            return 0;
        }
        if (handle < 0 || handle > INT_MAX || offset < 0) {
            PyErr_SetString(PyExc_ValueError, "no descriptor, or no offset");
            return 0;
        }
        ahead->reads[ahead->read_count++] = (Read){
            .handle = (int)handle, .offset = (size_t)offset, .length = length,
            .to = ahead->buffer + (size_t)at * length, .got = -1};
    }
    return 1;
}

static PyObject *ReadAhead_begin_raw(ReadAhead *ahead, PyObject *args)
{
    PyObject *handles, *offsets;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "O!O!n", &PyList_Type, &handles, &PyList_Type, &offsets, &length)) {
        return NULL;
    }
    wait_for_thread(ahead);
    forget(ahead);
    /* After the wait: other threads run meanwhile, and may change the lists. */
    Py_ssize_t count = PyList_GET_SIZE(handles);
    if (PyList_GET_SIZE(offsets) != count || length <= 0 || count > MOST_BYTES / length) {
        PyErr_SetString(PyExc_ValueError, "each descriptor has an offset, and all reads together a bound");
        return NULL;
    }
    if (!has_thread(ahead)) {
        Py_RETURN_FALSE;
    }
    if (!note_raw_reads(ahead, handles, offsets, (size_t)length)) {
        forget(ahead);
        return NULL;
    }
    set_state(ahead, ASKED);
    Py_RETURN_TRUE;
}

static PyObject *ReadAhead_finish_raw(ReadAhead *ahead, PyObject *unused)
{
    (void)unused;
    wait_for_thread(ahead);
    PyObject *found = PyList_New(ahead->read_count);
    for (Py_ssize_t at = 0; found && at < ahead->read_count; at++) {
        const Read *read = &ahead->reads[at];
        PyObject *data = read->got < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(read->to, read->got);
        if (!data) {
            Py_CLEAR(found);
        } else {
            PyList_SET_ITEM(found, at, data);
        }
    }
    forget(ahead);
    return found;
}

static PyObject *ReadAhead_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    (void)names;
    if (!PyArg_ParseTuple(args, "")) {
        return NULL;
    }
    ReadAhead *ahead = (ReadAhead *)type->tp_alloc(type, 0);
    if (ahead) {
        pthread_mutex_init(&ahead->lock, NULL);
        pthread_cond_init(&ahead->changed, NULL);
    }
    return (PyObject *)ahead;
}

static void ReadAhead_dealloc(ReadAhead *ahead)
{
    threads -= ahead->process != 0;
    if (ahead->process == getpid()) {
        wait_for_thread(ahead);
        set_state(ahead, CLOSED);
        pthread_join(ahead->thread, NULL);
        pthread_cond_destroy(&ahead->changed);
        pthread_mutex_destroy(&ahead->lock);
    }
    forget(ahead);
    Py_TYPE(ahead)->tp_free((PyObject *)ahead);
}

static PyMethodDef ReadAhead_methods[] = {
    {"begin", (PyCFunction)ReadAhead_begin, METH_VARARGS, NULL},
    {"finish", (PyCFunction)ReadAhead_finish, METH_O, NULL},
    {"begin_raw", (PyCFunction)ReadAhead_begin_raw, METH_VARARGS, NULL},
    {"finish_raw", (PyCFunction)ReadAhead_finish_raw, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject read_ahead_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "engine.native.core.ReadAhead",
    .tp_basicsize = sizeof(ReadAhead),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = ReadAhead_new,
    .tp_dealloc = (destructor)ReadAhead_dealloc,
    .tp_methods = ReadAhead_methods,
};
