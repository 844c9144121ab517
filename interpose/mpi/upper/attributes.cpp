// Attributes of communicators, datatypes and windows, kept in the upper half because values and callbacks are
// the program's. Only predefined ones are read from the lower half. UH, any thread; callbacks run without a
// lock.
#include "interpose/mpi/upper/attributes.h"

#include <cstring>
#include <utility>

#include "interpose/mpi/upper/errors.h"

namespace cropdl::shim {
namespace {

struct Keyval {
  Kind kind;
  Language language;
  void (*copy)();
  void (*remove)();
  // MPICH's C++ and Fortran libraries: these call the user's function.
  void (*copy_proxy)();
  void (*remove_proxy)();
  void* extra;
  int references;   // one for the program, and one per attribute
  bool freed;       // freed by the program, which may not use it again
  int freed_again;  // number of further frees
};

constexpr int kFirst = 0x1000;  // above Open MPI's predefined keyvals, far from MPICH's
SpinLock attributes_lock;
Keyval* keyvals = nullptr;
int keyvals_size = 0;

Keyval* keyval_of(int keyval) {
  const int i = keyval - kFirst;
  return i >= 0 && i < keyvals_size && keyvals[i].references > 0 ? &keyvals[i] : nullptr;
}

// Values of predefined attributes, by their numbers in the seam. The program gets pointers to them. Each
// query refreshes the value; after a restart it is the new MPI's, except MPI_TAG_UB (the lower half's
// tell_largest_tag).
constexpr int kWorldValues = seam::comm_attribute::k_MPI_APPNUM + 1;
constexpr int kWindowValues = seam::win_attribute::k_MPI_WIN_MODEL + 1;
int world_values[kWorldValues];
int lastusedcode;

// Returns -1 if `number` is no predefined attribute. (Other keyvals are translated to themselves, never to
// such a number.)
int numbered(int number, int numbers) { return number >= 0 && number < numbers ? number : -1; }

int64_t* window_slot(Vid win, int i) {
  Object* o = object(win, true);
  Locked locked(attributes_lock);
  if (!o->window_values) o->window_values = static_cast<int64_t*>(calloc(kWindowValues, sizeof(int64_t)));
  if (!o->window_values) abort();
  return &o->window_values[i];
}

// Returns false if the keyval is not predefined. Else answers, or sets *error to the lower half's error.
bool get_predefined(Vid vid, int keyval, void** pointer, int64_t* number, int* flag, int* error) {
  int64_t value = 0;
#if defined(CROPDL_ABI_MPICH)
  // MPICH's Fortran constants for predefined keys (mpif.h) are the C constants plus one: even, not odd.
  if ((keyval >> 24 == 0x64 || keyval >> 24 == 0x66) && keyval % 2 == 0) --keyval;
#endif
  if (seam::vid_kind(vid) == Kind::kComm) {
    if (keyval == MPI_LASTUSEDCODE) {
      lastusedcode = last_used_code();
      *pointer = &lastusedcode;
      *number = lastusedcode;
      *flag = 1;
      return true;
    }
    const int i = numbered(constants::to_seam_comm_attribute(keyval), kWorldValues);
    if (i < 0) return false;
    *error = call_library<int>(seam::kFn_MPI_Comm_get_attr, vid, i, &value, flag);
    if (*error || !*flag) return true;
    if (keyval == MPI_HOST || keyval == MPI_IO) value = constants::from_seam_rank(static_cast<int>(value));
    world_values[i] = static_cast<int>(value);
    *pointer = &world_values[i];
    *number = value;
    return true;
  }
  const int i = seam::vid_kind(vid) == Kind::kWin
                    ? numbered(constants::to_seam_win_attribute(keyval), kWindowValues)
                    : -1;
  if (i < 0) return false;
  *error = call_library<int>(seam::kFn_MPI_Win_get_attr, vid, i, &value, flag);
  if (*error || !*flag) return true;
  if (keyval == MPI_WIN_MODEL) value = value ? MPI_WIN_UNIFIED : MPI_WIN_SEPARATE;
  int64_t* slot = window_slot(vid, i);
  if (keyval == MPI_WIN_SIZE) {
    *slot = value;
  } else {
    *reinterpret_cast<int*>(slot) = static_cast<int>(value);
  }
  *pointer = keyval == MPI_WIN_BASE ? reinterpret_cast<void*>(value) : slot;
  *number = value;
  return true;
}

// libmpi_cxx reads these flags in the object to choose the C++ class of a callback's communicator.
void refresh_flags(Vid vid) {
#if defined(CROPDL_ABI_OPENMPI)
  MPI_Comm comm = handle_out<Kind::kComm>(vid);
  int inter = 0, topology = MPI_UNDEFINED;
  PMPI_Comm_test_inter(comm, &inter);
  if (!inter) PMPI_Topo_test(comm, &topology);
  const uint32_t flags = (inter ? 1 : 0) | (topology == MPI_CART ? 0x100 : topology == MPI_GRAPH ? 0x200 : 0);
  memcpy(reinterpret_cast<char*>(comm) + kFlagsOffset, &flags, sizeof flags);
#else
  (void)vid;
#endif
}

template <class F>
int with_handle(Vid vid, F run) {
  if (seam::vid_kind(vid) == Kind::kComm && vid_index(vid) >= seam::kFirstDynamic) refresh_flags(vid);
  switch (seam::vid_kind(vid)) {
    case Kind::kDatatype:
      return run(handle_out<Kind::kDatatype>(vid));
    case Kind::kWin:
      return run(handle_out<Kind::kWin>(vid));
    default:
      return run(handle_out<Kind::kComm>(vid));
  }
}

// MPICH's codes for how an attribute was set (mpir_attr_generic.h of MPICH 4.0).
int attribute_type(Language language) {
  return language == Language::kFortranInt ? 3 : language == Language::kFortranAddress ? 1 : 0;
}

int run_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag) {
  *flag = 0;
  if (!k.copy) return MPI_SUCCESS;  // MPICH's MPI_NULL_COPY_FN
  return with_handle(from, [&](auto handle) -> int {
    using H = decltype(handle);
    if (k.copy_proxy) {
      void* copied = nullptr;
      const int r = reinterpret_cast<int (*)(void (*)(), int, int, void*, int, void*, void**, int*)>(
          k.copy_proxy)(k.copy, handle_to_fortran(from), keyval, k.extra, attribute_type(a.language),
                        reinterpret_cast<void*>(a.value), &copied, flag);
      *out = reinterpret_cast<int64_t>(copied);
      return r;
    }
    if (k.language == Language::kFortranInt) {
      MPI_Fint object = handle_to_fortran(from),
               extra = static_cast<MPI_Fint>(reinterpret_cast<intptr_t>(k.extra));
      MPI_Fint in = static_cast<MPI_Fint>(a.value), value = 0, wanted = 0, error = 0;
      using Copy = void (*)(MPI_Fint*, int*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*);
      reinterpret_cast<Copy>(k.copy)(&object, &keyval, &extra, &in, &value, &wanted, &error);
      *out = value;
      *flag = wanted != 0;
      return error;
    }
    if (k.language == Language::kFortranAddress) {
      MPI_Fint object = handle_to_fortran(from), wanted = 0, error = 0;
      MPI_Aint extra = reinterpret_cast<MPI_Aint>(k.extra), in = a.value, value = 0;
      using Copy = void (*)(MPI_Fint*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, MPI_Fint*, MPI_Fint*);
      reinterpret_cast<Copy>(k.copy)(&object, &keyval, &extra, &in, &value, &wanted, &error);
      *out = value;
      *flag = wanted != 0;
      return error;
    }
    void* value = nullptr;
    using Copy = int (*)(H, int, void*, void*, void*, int*);
    const int r = reinterpret_cast<Copy>(k.copy)(handle, keyval, k.extra, reinterpret_cast<void*>(a.value),
                                                 &value, flag);
    *out = reinterpret_cast<int64_t>(value);
    return r;
  });
}

int run_remove(const Keyval& k, int keyval, Vid from, const Attribute& a) {
  if (!k.remove) return MPI_SUCCESS;
  return with_handle(from, [&](auto handle) -> int {
    using H = decltype(handle);
    if (k.remove_proxy) {
      return reinterpret_cast<int (*)(void (*)(), int, int, int, void*, void*)>(k.remove_proxy)(
          k.remove, handle_to_fortran(from), keyval, attribute_type(a.language),
          reinterpret_cast<void*>(a.value), k.extra);
    }
    if (k.language == Language::kFortranInt) {
      MPI_Fint object = handle_to_fortran(from),
               extra = static_cast<MPI_Fint>(reinterpret_cast<intptr_t>(k.extra));
      MPI_Fint value = static_cast<MPI_Fint>(a.value), error = 0;
      using Remove = void (*)(MPI_Fint*, int*, MPI_Fint*, MPI_Fint*, MPI_Fint*);
      reinterpret_cast<Remove>(k.remove)(&object, &keyval, &value, &extra, &error);
      return error;
    }
    if (k.language == Language::kFortranAddress) {
      MPI_Fint object = handle_to_fortran(from), error = 0;
      MPI_Aint extra = reinterpret_cast<MPI_Aint>(k.extra), value = a.value;
      using Remove = void (*)(MPI_Fint*, int*, MPI_Aint*, MPI_Aint*, MPI_Fint*);
      reinterpret_cast<Remove>(k.remove)(&object, &keyval, &value, &extra, &error);
      return error;
    }
    using Remove = int (*)(H, int, void*, void*);
    return reinterpret_cast<Remove>(k.remove)(handle, keyval, reinterpret_cast<void*>(a.value), k.extra);
  });
}

// --- Lists of attributes: read and changed under the lock, and searched again after each callback.

Attribute** find(Object* o, int keyval) {  // under the lock
  Attribute** a = &o->attributes;
  while (*a && (*a)->keyval != keyval) a = &(*a)->next;
  return a;
}

void release_keyval(int keyval) {  // under the lock
  if (Keyval* k = keyval_of(keyval)) --k->references;
}

bool copy_of(Object* o, int keyval, Attribute* out) {
  Locked locked(attributes_lock);
  const Attribute* a = *find(o, keyval);
  if (a) *out = *a;
  return a != nullptr;
}

// Excludes other threads from one attribute while its delete callback runs and until the attribute has
// changed, so that no value is deleted twice. A callback may take a nested Turn.
class Turn {
 public:
  Turn(Object* o, int keyval) : object_(o), keyval_(keyval) {
    for (;; sched_yield()) {
      Locked locked(attributes_lock);
      Attribute* a = *find(o, keyval);
      if (!a) return;
      if (a->changing && a->changing != self_) continue;
      ends_ = a->changing == nullptr;
      a->changing = self_;
      old = *a;
      existed = true;
      return;
    }
  }
  ~Turn() {
    Locked locked(attributes_lock);
    Attribute* a = *find(object_, keyval_);
    if (ends_ && a && a->changing == self_) a->changing = nullptr;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool existed = false;
  Attribute old;

 private:
  Object* object_;
  int keyval_;
  const void* self_ = seam::current_thread();
  bool ends_ = false;
};

// Sets a value; adds the attribute if it does not exist. kThere: another thread has added it meanwhile.
enum Put { kPut, kThere, kNoKey };
Put put(Object* o, int keyval, Language language, int64_t value, bool existed) {
  auto* fresh = static_cast<Attribute*>(calloc(1, sizeof(Attribute)));
  if (!fresh) abort();
  Put result = kPut;
  {
    Locked locked(attributes_lock);
    if (Attribute* a = *find(o, keyval)) {
      if (!existed || (a->changing && a->changing != seam::current_thread())) {
        result = kThere;
      } else {
        a->value = value;
        a->language = language;
      }
    } else if (Keyval* k = keyval_of(keyval)) {
      ++k->references;
      *fresh = {o->attributes, keyval, language, value, nullptr};
      o->attributes = std::exchange(fresh, nullptr);
    } else {
      result = kNoKey;
    }
  }
  free(fresh);
  return result;
}

void take_out(Object* o, int keyval) {
  Attribute* gone;
  {
    Locked locked(attributes_lock);
    Attribute** a = find(o, keyval);
    gone = *a;
    if (!gone) return;
    *a = gone->next;
    release_keyval(keyval);
  }
  free(gone);
}

// All keys, newest first, terminated by 0. The caller frees the array.
int* keys_of(Object* o) {
  for (size_t room = 16;; room *= 2) {
    auto* keys = static_cast<int*>(calloc(room, sizeof(int)));
    if (!keys) abort();
    size_t n = 0;
    {
      Locked locked(attributes_lock);
      for (const Attribute* a = o->attributes; a; a = a->next, ++n) {
        if (n + 1 < room) keys[n] = a->keyval;
      }
    }
    if (n < room) return keys;
    free(keys);
  }
}

int newest_key(Object* o) {  // 0: there is none
  Locked locked(attributes_lock);
  return o->attributes ? o->attributes->keyval : 0;
}

// For a key that is unknown or of another kind, Open MPI has MPI_ERR_KEYVAL only when MPI_KEYVAL_INVALID is
// read.
#if defined(CROPDL_ABI_OPENMPI)
constexpr int kWrongKeyval = seam::kErrOther;
#else
constexpr int kWrongKeyval = seam::kErrKeyval;
#endif

int invalid_object(Vid vid) {
  const Kind kind = seam::vid_kind(vid);
  return kind == Kind::kDatatype ? seam::kErrType : kind == Kind::kWin ? seam::kErrWin : seam::kErrComm;
}

// Copies the keyval, because callbacks may create others and move the table.
bool copy_of(int keyval, Keyval* out) {
  Locked locked(attributes_lock);
  const Keyval* k = keyval_of(keyval);
  if (k) *out = *k;
  return k != nullptr;
}

}  // namespace

int create_keyval(Kind kind, void (*copy)(), void (*remove)(), void* extra, Language language, int* keyval) {
  Locked locked(attributes_lock);
  int i = 0;
  while (i < keyvals_size && keyvals[i].references > 0) ++i;
  if (i == keyvals_size) {
    const int size = keyvals_size ? keyvals_size * 2 : 16;
    auto* grown = static_cast<Keyval*>(realloc(keyvals, static_cast<size_t>(size) * sizeof(Keyval)));
    if (!grown) abort();
    memset(static_cast<void*>(grown + keyvals_size), 0,
           static_cast<size_t>(size - keyvals_size) * sizeof(Keyval));
    keyvals = grown;
    keyvals_size = size;
  }
  keyvals[i] = {kind, language, copy, remove, nullptr, nullptr, extra, 1, false, 0};
  *keyval = kFirst + i;
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

int set_attribute(Vid vid, int keyval, int64_t value, Language language, seam::Fn fn) {
  Keyval k;
  if (!handle_exists(vid)) return fail_mpi_call(vid, invalid_object(vid), fn);
  if (!copy_of(keyval, &k) || k.freed || k.kind != seam::vid_kind(vid))
    return fail_mpi_call(vid, kWrongKeyval, fn);
  Object* o = object(vid, true);
  int removed = MPI_SUCCESS;
  Put result = kThere;
  while (removed == MPI_SUCCESS && result == kThere) {
    const Turn turn(o, keyval);
    if (turn.existed) removed = run_remove(k, keyval, vid, turn.old);
    if (removed == MPI_SUCCESS) result = put(o, keyval, language, value, turn.existed);
  }
  if (removed != MPI_SUCCESS) return fail_mpi_call_with(vid, removed, fn);
  return result == kPut ? MPI_SUCCESS : fail_mpi_call(vid, kWrongKeyval, fn);
}

// MPI-3.1, 17.2.7: an attribute set in one language can be read in another.
int get_attribute(Vid vid, int keyval, void* out, int* flag, Language language, seam::Fn fn) {
  void* pointer = nullptr;
  int64_t number = 0;
  if (!handle_exists(vid)) return fail_mpi_call(vid, invalid_object(vid), fn);
  if (!out || !flag) return fail_mpi_call(vid, seam::kErrArg, fn);
  *flag = 0;
  int error = seam::kSuccess;
  const bool predefined = get_predefined(vid, keyval, &pointer, &number, flag, &error);
  if (error) {
    *flag = 0;
    return fail_mpi_call(vid, error, fn);
  }
  if (!predefined) {
    Keyval k;
    if (!copy_of(keyval, &k) || k.kind != seam::vid_kind(vid)) {
      return fail_mpi_call(vid, keyval == MPI_KEYVAL_INVALID ? seam::kErrKeyval : kWrongKeyval, fn);
    }
    Object* o = object(vid, false);
    Locked locked(attributes_lock);
    if (Attribute* a = o ? *find(o, keyval) : nullptr) {
      *flag = 1;
      const bool integer = a->language == Language::kFortranInt || a->language == Language::kFortranAddress;
      pointer = integer ? static_cast<void*>(&a->value) : reinterpret_cast<void*>(a->value);
      number = a->value;
    }
  }
  if (!*flag) return MPI_SUCCESS;
  switch (language) {
    case Language::kFortranInt:
      *static_cast<MPI_Fint*>(out) = static_cast<MPI_Fint>(number);
      break;
    case Language::kFortranAddress:
      *static_cast<MPI_Aint*>(out) = number;
      break;
    default:
      *static_cast<void**>(out) = pointer;
  }
  return MPI_SUCCESS;
}

static int delete_attribute(Vid vid, int keyval, seam::Fn fn) {
  if (!handle_exists(vid)) return fail_mpi_call(vid, invalid_object(vid), fn);
  Object* o = object(vid, false);
  Keyval k;
  if (!copy_of(keyval, &k) || k.kind != seam::vid_kind(vid)) return fail_mpi_call(vid, kWrongKeyval, fn);
  int r = MPI_SUCCESS;
  bool existed = false;
  if (o) {
    const Turn turn(o, keyval);
    existed = turn.existed;
    if (existed) r = run_remove(k, keyval, vid, turn.old);
    if (existed && r == MPI_SUCCESS) take_out(o, keyval);
  }
  if (!existed) {
#if defined(CROPDL_ABI_MPICH)
    return MPI_SUCCESS;
#else
    return fail_mpi_call(vid, kWrongKeyval, fn);
#endif
  }
  return r == MPI_SUCCESS ? MPI_SUCCESS : fail_mpi_call_with(vid, r, fn);
}

CopiedAttributes::~CopiedAttributes() {
  while (Attribute* a = first) {
    first = a->next;
    {
      Locked locked(attributes_lock);
      release_keyval(a->keyval);
    }
    free(a);
  }
}

int copy_attributes(Vid from, CopiedAttributes* to) {
  Object* o = object(from, false);
  if (!o) return MPI_SUCCESS;
  Attribute** end = &to->first;
  int result = MPI_SUCCESS;
  int* keys = keys_of(o);
  for (const int* key = keys; *key && result == MPI_SUCCESS; ++key) {
    Attribute a;
    Keyval k;
    int64_t value = 0;
    int flag = 0;
    if (!copy_of(o, *key, &a) || !copy_of(*key, &k)) continue;
    result = run_copy(k, *key, from, a, &value, &flag);
    if (result != MPI_SUCCESS || !flag) continue;
    auto* added = static_cast<Attribute*>(calloc(1, sizeof(Attribute)));
    if (!added) abort();
    *added = {nullptr, *key, a.language, value, nullptr};
    *end = added;
    end = &added->next;
    Locked locked(attributes_lock);
    if (Keyval* shared = keyval_of(*key)) ++shared->references;
  }
  free(keys);
  return result;
}

void attach_attributes(Vid to, CopiedAttributes* copies) {
  if (!copies->first) return;
  Object* o = object(to, true);
  Locked locked(attributes_lock);
  o->attributes = std::exchange(copies->first, nullptr);
}

int delete_attributes(Vid vid) {
  Object* o = object(vid, false);
  int result = MPI_SUCCESS;
  // Newest first, as MPI-3.1, 8.7.1 requires for MPI_COMM_SELF.
  for (int keyval; o && (keyval = newest_key(o)) != 0;) {
    const Turn turn(o, keyval);
    if (!turn.existed) continue;
    Keyval k;
    if (copy_of(keyval, &k)) {
      const int r = run_remove(k, keyval, vid, turn.old);
      // If a callback fails, the object is kept. Open MPI keeps the attribute, too; MPICH continues with the
      // next.
#if defined(CROPDL_ABI_OPENMPI)
      if (r != MPI_SUCCESS) return r;
#endif
      result = r;
    }
    take_out(o, keyval);
  }
  return result;
}

}  // namespace cropdl::shim

using namespace cropdl;
using namespace cropdl::shim;

MPI_FUNCTION(int, Win_free, MPI_Win* win) {
  if (!win) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Win_free);
  Vid vid = handle_in<Kind::kWin>(*win);
  const Vid freed = vid;
  const int deleted = delete_attributes(vid);
  if (deleted != MPI_SUCCESS) return fail_mpi_call_with(vid, deleted, seam::kFn_MPI_Win_free);
  if (const int r = free_object(seam::kFn_MPI_Win_free, &vid))
    return fail_mpi_call(freed, r, seam::kFn_MPI_Win_free);
  *win = handle_out<Kind::kWin>(vid);
  return MPI_SUCCESS;
}

#define ATTRIBUTES(Type, Handle, kind)                                                                  \
  MPI_FUNCTION(int, Type##_create_keyval, MPI_##Type##_copy_attr_function* copy,                        \
               MPI_##Type##_delete_attr_function* remove, int* keyval, void* extra) {                   \
    if (!keyval) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_##Type##_create_keyval);  \
    return create_keyval(Kind::kind, reinterpret_cast<void (*)()>(copy),                                \
                         reinterpret_cast<void (*)()>(remove), extra, Language::kC, keyval);            \
  }                                                                                                     \
  MPI_FUNCTION(int, Type##_free_keyval, int* keyval) {                                                  \
    const int r = keyval ? free_keyval(Kind::kind, keyval) : seam::kErrArg;                             \
    return r ? fail_mpi_call(kNoObject, r, seam::kFn_MPI_##Type##_free_keyval) : MPI_SUCCESS;           \
  }                                                                                                     \
  MPI_FUNCTION(int, Type##_set_attr, Handle object, int keyval, void* value) {                          \
    return set_attribute(handle_in<Kind::kind>(object), keyval, reinterpret_cast<int64_t>(value),       \
                         Language::kC, seam::kFn_MPI_##Type##_set_attr);                                \
  }                                                                                                     \
  MPI_FUNCTION(int, Type##_get_attr, Handle object, int keyval, void* value, int* flag) {               \
    return get_attribute(handle_in<Kind::kind>(object), keyval, value, flag, Language::kC,              \
                         seam::kFn_MPI_##Type##_get_attr);                                              \
  }                                                                                                     \
  MPI_FUNCTION(int, Type##_delete_attr, Handle object, int keyval) {                                    \
    return delete_attribute(handle_in<Kind::kind>(object), keyval, seam::kFn_MPI_##Type##_delete_attr); \
  }
ATTRIBUTES(Comm, MPI_Comm, kComm)
ATTRIBUTES(Type, MPI_Datatype, kDatatype)
ATTRIBUTES(Win, MPI_Win, kWin)

// The MPI-1 names.
MPI_FUNCTION(int, Keyval_create, MPI_Copy_function* copy, MPI_Delete_function* remove, int* keyval,
             void* extra) {
  return PMPI_Comm_create_keyval(copy, remove, keyval, extra);
}
MPI_FUNCTION(int, Keyval_free, int* keyval) { return PMPI_Comm_free_keyval(keyval); }
MPI_FUNCTION(int, Attr_put, MPI_Comm comm, int keyval, void* value) {
  return PMPI_Comm_set_attr(comm, keyval, value);
}
MPI_FUNCTION(int, Attr_get, MPI_Comm comm, int keyval, void* value, int* flag) {
  return PMPI_Comm_get_attr(comm, keyval, value, flag);
}
MPI_FUNCTION(int, Attr_delete, MPI_Comm comm, int keyval) { return PMPI_Comm_delete_attr(comm, keyval); }
