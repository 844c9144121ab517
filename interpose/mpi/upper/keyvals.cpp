// The table of the keys of attributes. UH, any thread.
#include "interpose/mpi/upper/keyvals.h"

namespace cropdl::shim {
namespace {

constexpr int kFirst = 0x1000;  // above Open MPI's predefined keyvals, far from MPICH's
Keyval* keyvals = nullptr;
uint32_t keyvals_size = 0;

}  // namespace

SpinLock attributes_lock;

Keyval* keyval_of(int keyval) {
  const auto i = static_cast<uint32_t>(keyval - kFirst);
  return i < keyvals_size && keyvals[i].references > 0 ? &keyvals[i] : nullptr;
}

void release_keyval(int keyval) {
  if (Keyval* k = keyval_of(keyval)) --k->references;
}

bool copy_keyval(int keyval, Keyval* out) {
  Locked locked(attributes_lock);
  const Keyval* k = keyval_of(keyval);
  if (k) *out = *k;
  return k != nullptr;
}

int create_keyval(Kind kind, void (*copy)(), void (*remove)(), void* extra, Language language, int* keyval) {
  Locked locked(attributes_lock);
  uint32_t i = 0;
  while (i < keyvals_size && keyvals[i].references > 0) ++i;
  if (i == keyvals_size && !grow(&keyvals, &keyvals_size)) abort();
  keyvals[i] = {kind, language, copy, remove, nullptr, nullptr, extra, 1, false, 0};
  *keyval = kFirst + static_cast<int>(i);
  return MPI_SUCCESS;
}

// A key that attributes still use may be freed again: in MPICH 4.0 any number of times, in Open MPI 4.1 as
// often as there are attributes, because each free returns a reference.
int free_keyval(Kind kind, int* keyval) {
  {
    Locked locked(attributes_lock);
    Keyval* k = keyval_of(*keyval);
    if (!k || k->kind != kind) return kWrongKeyval;
#if defined(CROPDL_ABI_OPENMPI)
    if (k->freed && k->freed_again++ >= k->references) return kWrongKeyval;
#endif
    if (!k->freed) --k->references;
    k->freed = true;
  }
  *keyval = MPI_KEYVAL_INVALID;
  return seam::kSuccess;
}

void set_keyval_proxies(int keyval, void (*copy)(), void (*remove)()) {
  Locked locked(attributes_lock);
  if (Keyval* k = keyval_of(keyval)) {
    k->copy_proxy = copy;
    k->remove_proxy = remove;
  }
}

}  // namespace cropdl::shim
