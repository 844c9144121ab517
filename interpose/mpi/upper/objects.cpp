// Tables of what the program attached to MPI objects (objects.h), in its malloc's memory. UH, any thread.
#include "interpose/mpi/upper/objects.h"

#include <utility>

#include "interpose/mpi/upper/fortran_handles.h"
#include "interpose/mpi/upper/info_lists.h"

namespace cropdl::shim {
namespace {

// Open addressing over pointers, so records keep their addresses while the table grows.
template <class T>
class PointerTable {
 public:
  T* find(Vid vid) {
    T** slot = slot_of(vid);
    return slot ? *slot : nullptr;
  }
  void insert(T* record) {
    if (!slots_ || used_ * 2 > mask_) grow();
    uint32_t i = hash(record->vid);
    while (slots_[i] && slots_[i] != kRemoved()) i = (i + 1) & mask_;
    if (!slots_[i]) ++used_;
    slots_[i] = record;
  }
  void remove(Vid vid) {
    if (T** slot = slot_of(vid)) *slot = kRemoved();
  }

 private:
  T** slot_of(Vid vid) {
    for (uint32_t i = hash(vid); slots_ && slots_[i]; i = (i + 1) & mask_)
      if (slots_[i] != kRemoved() && slots_[i]->vid == vid) return &slots_[i];
    return nullptr;
  }
  static T* kRemoved() { return reinterpret_cast<T*>(1); }
  uint32_t hash(Vid vid) const { return (vid * 0x9e3779b1u >> 8) & mask_; }
  void grow() {
    T** old = slots_;
    const uint32_t n = old ? mask_ + 1 : 0;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < n; ++i) alive += old[i] && old[i] != kRemoved();
    uint32_t size = 64;
    while (size < alive * 4) size *= 2;
    slots_ = allocate<T*>(size);
    mask_ = size - 1;
    used_ = 0;
    for (uint32_t i = 0; i < n; ++i)
      if (old[i] && old[i] != kRemoved()) insert(old[i]);
    free(old);
  }
  T** slots_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t used_ = 0;
};

SpinLock objects_lock;
PointerTable<Object> objects;
PointerTable<Callback> callbacks;
PointerTable<HandleObject> handles;
HandleObject* free_handles = nullptr;
// Number of live error handlers, and where the search for a free number begins; freed numbers are reused.
uint32_t errhandlers = 0;
uint32_t next_errhandler = seam::kFirstDynamic;

// Returns a free number for an error handler; the null handle if all are in use. Under the lock.
Vid free_errhandler_number() {
  if (errhandlers == kUnknownIndex - seam::kFirstDynamic) return make_vid(Kind::kErrhandler, 0);
  for (;;) {
    const Vid vid = make_vid(Kind::kErrhandler, next_errhandler);
    if (++next_errhandler == kUnknownIndex) next_errhandler = seam::kFirstDynamic;
    if (!callbacks.find(vid)) return vid;
  }
}

// Writes what Open MPI's companion libraries read in an object.
void write_fields(HandleObject* h) {
  const Kind kind = seam::vid_kind(h->vid);
  char* object = reinterpret_cast<char*>(h);
  if (kind == Kind::kGroup) {
    const MPI_Fint number = to_fortran<Kind::kGroup>(h->vid);
    memcpy(object + kNumberOffsetGroup, &number, sizeof number);
    return;
  }
  const size_t hash = kind == Kind::kComm       ? kHashOffsetComm
                      : kind == Kind::kDatatype ? kHashOffsetDatatype
                                                : kHashOffsetWin;
  memcpy(object + hash, &h, sizeof h);  // NOLINT(bugprone-sizeof-expression): the pointer is copied
}

}  // namespace

Object* object(Vid vid, bool create) {
  Locked locked(objects_lock);
  Object* o = objects.find(vid);
  if (o || !create) return o;
  o = allocate<Object>();
  o->vid = vid;
  objects.insert(o);
  return o;
}

FreedObject::FreedObject(Vid vid) {
  Locked locked(objects_lock);
  object_ = objects.find(vid);
  handle_ = handles.find(vid);
  objects.remove(vid);
  handles.remove(vid);
}

FreedObject::~FreedObject() {
  Locked locked(objects_lock);
  if (object_) objects.insert(object_);
  if (handle_) handles.insert(handle_);
}

void FreedObject::drop() {
  if (HandleObject* h = handle_) {
    Locked locked(objects_lock);
    // The memory stays readable, so using a handle after its free is an error, not a crash.
    h->vid = make_vid(seam::vid_kind(h->vid), kUnknownIndex);
    h->next_free = free_handles;
    free_handles = h;
  }
  Object* o = object_;
  object_ = nullptr;
  handle_ = nullptr;
  if (!o) return;
  if (o->errhandler) free_callback(o->errhandler);
  if (o->hints) drop_info(o->hints);
  if (o->asked_hints) drop_info(o->asked_hints);
  for (Attribute* a = o->attributes; a;) free(std::exchange(a, a->next));
  free(o->name);
  free(o);
}

int free_object(seam::Fn fn, Vid* vid) {
  FreedObject kept(*vid);
  const int r = call_library<int>(fn, vid);
  if (r == seam::kSuccess) kept.drop();
  return r;
}

Callback* new_callback(Kind kind, void (*function)(), Language language) {
  auto* c = allocate<Callback>();
  c->function = function;
  c->language = language;
  c->kind = kind;
  c->references = 1;
  return c;
}

Vid make_errhandler(Kind kind, void (*function)(), Language language) {
  Callback* c = new_callback(kind, function, language);
  {
    Locked locked(objects_lock);
    c->vid = free_errhandler_number();
    if (vid_index(c->vid) != 0) {
      ++errhandlers;
      callbacks.insert(c);
      return c->vid;
    }
  }
  free(c);
  return make_vid(Kind::kErrhandler, 0);
}

void bind_callback(Vid vid, Callback* callback) {
  Locked locked(objects_lock);
  callback->vid = vid;
  callbacks.remove(vid);  // a freed one's, which another thread is about to drop
  callbacks.insert(callback);
}

Callback* callback_of(Vid vid) {
  Locked locked(objects_lock);
  return callbacks.find(vid);
}

bool copy_callback(Vid vid, Callback* copy) {
  Locked locked(objects_lock);
  const Callback* c = callbacks.find(vid);
  if (c) *copy = *c;
  return c != nullptr;
}

bool hold_callback(Vid vid) {
  Locked locked(objects_lock);
  Callback* c = callbacks.find(vid);
  if (c) ++c->references;
  return c != nullptr;
}

void free_callback(Vid vid) {
  Callback* c;
  {
    Locked locked(objects_lock);
    c = callbacks.find(vid);
    if (!c || --c->references > 0) return;
    callbacks.remove(vid);
    errhandlers -= c->kind != Kind::kOp;
  }
  free(c);
}

void drop_callback(Callback* callback) {
  {
    Locked locked(objects_lock);
    if (callbacks.find(callback->vid) == callback) callbacks.remove(callback->vid);
  }
  free(callback);
}

void* object_of(Vid vid) {
  const Kind kind = seam::vid_kind(vid);
  if (kind == Kind::kOp || kind == Kind::kErrhandler) return callback_of(vid);
  Locked locked(objects_lock);
  HandleObject* h = handles.find(vid);
  if (h) return h;
  if (free_handles) {
    h = free_handles;
    free_handles = h->next_free;
    memset(h, 0, sizeof *h);
  } else {
    h = allocate<HandleObject>();
  }
  h->vid = vid;
  write_fields(h);
  handles.insert(h);
  return h;
}

void text_out(char* to, const char* from, int capacity, int* length) {
  size_t n = strlen(from);
  if (n >= static_cast<size_t>(capacity)) n = static_cast<size_t>(capacity) - 1;
  memcpy(to, from, n);
  to[n] = 0;
  if (length) *length = static_cast<int>(n);
}

}  // namespace cropdl::shim
