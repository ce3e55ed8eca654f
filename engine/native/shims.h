/* Init functions of the modules that mypyc compiled, which Python finds by name in the file of each module. The code of
   all is in one shared library, which has a capsule with the function for each. setup.py writes a SHIM for each. */
#ifndef JETOOL_SHIMS_H
#define JETOOL_SHIMS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* A pointer out of a capsule that is an attribute of the library; its name is "library.attribute". */
static void *from_capsule(PyObject *library, const char *attribute, const char *name)
{
    PyObject *capsule = PyObject_GetAttrString(library, attribute);
    if (capsule == NULL) {
        return NULL;
    }
    void *found = PyCapsule_GetPointer(capsule, name);
    Py_DECREF(capsule);
    return found;
}

static PyObject *module_of(const char *name, const char *attribute, const char *capsule_name)
{
    PyObject *library = PyImport_ImportModule(name);
    if (library == NULL) {
        return NULL;
    }
    PyObject *(*init)(void) = (PyObject * (*)(void)) from_capsule(library, attribute, capsule_name);
    Py_DECREF(library);
    return init == NULL ? NULL : init();
}

#define SHIM(name, library, module)                                                                                    \
    PyMODINIT_FUNC PyInit_##name(void)                                                                                 \
    {                                                                                                                  \
        return module_of(library, "init_" module, library ".init_" module);                                            \
    }
#endif
