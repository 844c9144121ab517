// Attributes of communicators, datatypes and windows, kept in the upper half because values and callbacks are
// the program's. UH, any thread; callbacks run without a lock.
#include "interpose/mpi/upper/attributes.h"

#include <utility>

namespace cropdl::shim {
namespace {

// --- Keys

constexpr int kFirst = 0x1000;  // above Open MPI's predefined keyvals, far from MPICH's
Keyval* keyvals = nullptr;
uint32_t keyvals_size = 0;
SpinLock attributes_lock;  // guards the keys and the lists of attributes

// Under the lock. nullptr: there is no such key.
Keyval* keyval_of(int keyval) {
  const auto i = static_cast<uint32_t>(keyval - kFirst);
  return i < keyvals_size && keyvals[i].references > 0 ? &keyvals[i] : nullptr;
}

// Under the lock. Returns the reference of an attribute.
void release_keyval(int keyval) {
  if (Keyval* k = keyval_of(keyval)) --k->references;
}

// Copies the keyval, because callbacks may create others and move the table.
bool copy_keyval(int keyval, Keyval* out) {
  Locked locked(attributes_lock);
  const Keyval* k = keyval_of(keyval);
  if (k) *out = *k;
  return k != nullptr;
}

}  // namespace

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
    if (kIsOpenMpi && k->freed && k->freed_again++ >= k->references) return kWrongKeyval;
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

namespace {

// --- Lists of attributes: read and changed under the lock, and searched again after each callback.

Attribute** find(Object* o, int keyval) {  // under the lock
  Attribute** a = &o->attributes;
  while (*a && (*a)->keyval != keyval) a = &(*a)->next;
  return a;
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
  Attribute old{};

 private:
  Object* object_;
  int keyval_;
  const void* self_ = seam::current_thread();
  bool ends_ = false;
};

// Sets a value; adds the attribute if it does not exist. kThere: another thread has added it meanwhile.
enum Put { kPut, kThere, kNoKey };
Put put(Object* o, int keyval, Language language, int64_t value, bool existed) {
  auto* fresh = allocate<Attribute>();
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
    int* keys = allocate<int>(room);
    size_t n = 0;
    {
      Locked locked(attributes_lock);
      for (const Attribute* a = o->attributes; a; a = a->next, ++n)
        if (n + 1 < room) keys[n] = a->keyval;
    }
    if (n < room) return keys;
    free(keys);
  }
}

int newest_key(Object* o) {  // 0: there is none
  Locked locked(attributes_lock);
  return o->attributes ? o->attributes->keyval : 0;
}

}  // namespace

int set_attribute(Vid vid, int keyval, int64_t value, Language language, seam::Fn fn) {
  Keyval k;
  if (!handle_exists(vid)) return fail_mpi_call(vid, invalid_handle(seam::vid_kind(vid)), fn);
  // A freed key that attributes still use is as good as before, in both MPIs.
  if (!copy_keyval(keyval, &k) || k.kind != seam::vid_kind(vid)) return fail_mpi_call(vid, kWrongKeyval, fn);
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
  if (!handle_exists(vid)) return fail_mpi_call(vid, invalid_handle(seam::vid_kind(vid)), fn);
  if (!out || !flag) return fail_mpi_call(vid, seam::kErrArg, fn);
  *flag = 0;
  int error = seam::kSuccess;
  const bool predefined = get_predefined_attribute(vid, keyval, &pointer, &number, flag, &error);
  if (error) {
    *flag = 0;
    return fail_mpi_call(vid, error, fn);
  }
  if (!predefined) {
    Keyval k;
    if (!copy_keyval(keyval, &k) || k.kind != seam::vid_kind(vid))
      return fail_mpi_call(vid, keyval == MPI_KEYVAL_INVALID ? seam::kErrKeyval : kWrongKeyval, fn);
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
  if (language == Language::kFortranInt)
    *static_cast<MPI_Fint*>(out) = static_cast<MPI_Fint>(number);
  else if (language == Language::kFortranAddress)
    *static_cast<MPI_Aint*>(out) = number;
  else
    *static_cast<void**>(out) = pointer;
  return MPI_SUCCESS;
}

static int delete_attribute(Vid vid, int keyval, seam::Fn fn) {
  if (!handle_exists(vid)) return fail_mpi_call(vid, invalid_handle(seam::vid_kind(vid)), fn);
  Object* o = object(vid, false);
  Keyval k;
  if (!copy_keyval(keyval, &k) || k.kind != seam::vid_kind(vid)) return fail_mpi_call(vid, kWrongKeyval, fn);
  int r = MPI_SUCCESS;
  bool existed = false;
  if (o) {
    const Turn turn(o, keyval);
    existed = turn.existed;
    if (existed) r = run_remove(k, keyval, vid, turn.old);
    if (existed && r == MPI_SUCCESS) take_out(o, keyval);
  }
  if (!existed && kIsOpenMpi) return fail_mpi_call(vid, kWrongKeyval, fn);
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
    if (!copy_of(o, *key, &a) || !copy_keyval(*key, &k)) continue;
    result = run_copy(k, *key, from, a, &value, &flag);
    if (result != MPI_SUCCESS || !flag) continue;
    auto* added = allocate<Attribute>();
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
    if (copy_keyval(keyval, &k)) {
      const int r = run_remove(k, keyval, vid, turn.old);
      // If a callback fails, the object stays. In Open MPI the attribute, too; MPICH continues with the next.
      if (kIsOpenMpi && r != MPI_SUCCESS) return r;
      result = r;
    }
    take_out(o, keyval);
  }
  return result;
}

MPI_FUNCTION(int, Win_free, MPI_Win* win) {
  return free_with_attributes<Kind::kWin>(win, seam::kFn_MPI_Win_free);
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
#undef ATTRIBUTES

}  // namespace cropdl::shim
