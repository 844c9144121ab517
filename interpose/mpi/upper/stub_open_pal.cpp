// Replaces libopen-pal.so.40: the symbols that Open MPI's C++ and Fortran libraries import from it (nm -D
// --undefined-only). They use its object system only for lists of data representations; classes here have no
// constructors. opal_class_t as in opal/class/opal_object.h of Open MPI 4.1. UH, any thread.
#include <cstddef>
#include <cstdlib>

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct opal_class_t {
  const char* name;
  opal_class_t* parent;
  void (*construct)(void*);
  void (*destruct)(void*);
  int initialized;
  int depth;
  void (**constructors)(void*);
  void (**destructors)(void*);
  size_t size;
};

EXPORTED int opal_class_init_epoch;
EXPORTED bool opal_uses_threads;
EXPORTED opal_class_t opal_list_item_t_class;
int opal_class_init_epoch = 1;
bool opal_uses_threads = false;
static void (*no_functions[1])(void*) = {nullptr};
opal_class_t opal_list_item_t_class = {"opal_list_item_t", nullptr,      nullptr, nullptr, 1, 1,
                                       no_functions,       no_functions, 56};

// Constructors are ordered from the root class to the class itself; the arrays end with a null pointer.
EXPORTED void opal_class_initialize(opal_class_t* c) {
  if (c->initialized == opal_class_init_epoch) return;
  int depth = 0;
  for (opal_class_t* p = c; p; p = p->parent) ++depth;
  auto** functions = static_cast<void (**)(void*)>(calloc(2 * static_cast<size_t>(depth) + 2, sizeof(void*)));
  if (!functions) abort();
  c->depth = depth;
  auto** constructors = functions + depth;
  c->destructors = functions + depth + 1;
  int destructs = 0;
  for (opal_class_t* p = c; p; p = p->parent) {
    if (p->construct) *--constructors = p->construct;
    if (p->destruct) c->destructors[destructs++] = p->destruct;
  }
  c->constructors = constructors;
  c->initialized = opal_class_init_epoch;
}

EXPORTED void opal_argv_free(char** argv) {
  if (!argv) return;
  for (char** a = argv; *a; ++a) free(*a);
  free(argv);
}
