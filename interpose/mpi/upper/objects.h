// What the program attached to its MPI objects (error handler, attributes, name), and the objects that exist
// only in the upper half (error handlers, user-defined operations). UH, any thread. Each call takes the
// table's lock; none calls the program under it.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

// The calling convention of a callback: languages differ in arguments and in the width of attributes.
enum class Language : int { kC, kCxx, kFortranInt, kFortranAddress };

struct Attribute {
  Attribute* next;
  int keyval;
  Language language;  // language of the call that set it
  int64_t value;      // pointer (C, C++) or integer (Fortran)
  // The thread that runs its delete callback; other threads that change the attribute wait for it.
  const void* changing;
};

inline constexpr int kWindowValues = seam::win_attribute::k_MPI_WIN_MODEL + 1;
struct Object {
  Vid vid;
  Vid errhandler;         // 0: the kind's default
  Attribute* attributes;  // newest first
  char* name;             // of a datatype (datatypes.cpp)
  // The hints of a communicator as the MPI accepted them, and those that MPI_Comm_idup_with_info asked for
  // (communicator_hints.cpp): Infos of the upper half.
  Vid hints, asked_hints;
  // Values of predefined attributes; the program keeps pointers to them (predefined_attributes.cpp).
  int64_t window_values[kWindowValues];
};

// The target of a pointer handle of a communicator, datatype, window or group. Open MPI's companion libraries
// read fields at fixed offsets (Open MPI 4.1: c_flags and c_keyhash of ompi_communicator_t, d_keyhash of
// ompi_datatype_t, w_keyhash of ompi_win_t, grp_f_to_c_index of ompi_group_t), and pass the hash to
// ompi_attr_get_*. The objects of predefined handles are data symbols; [object_fields] of annotations.toml
// gives them the same fields.
struct alignas(16) HandleObject {
  Vid vid;
  HandleObject* next_free;
  char reserved[496];
};
// Flags: 1 inter-communicator, 0x100 Cartesian topology, 0x200 graph topology.
inline constexpr size_t kFlagsOffset = 232;
// c_local_group and c_remote_group, and grp_proc_count within them. The groups are stored in the object, too.
inline constexpr size_t kLocalGroupOffset = 248, kRemoteGroupOffset = 256, kGroupSizeOffset = 16;
inline constexpr size_t kGroupsOffset = 320, kGroupSpace = 32;
inline constexpr size_t kHashOffsetComm = 272, kHashOffsetDatatype = 208, kHashOffsetWin = 240;
// A group's Fortran number. The Fortran library reads the number of each group that a call made.
inline constexpr size_t kNumberOffsetGroup = 24;

// The record of `vid`, created if `create`; nullptr if there is none. Its address is stable.
Object* object(Vid vid, bool create);

// An error handler or operation of the program. It begins like the objects behind predefined handles. Open
// MPI's companion libraries write the fields at fixed offsets (ompi/errhandler/errhandler.h, ompi/op/op.h of
// Open MPI 4.1): an error handler's C++ dispatcher, an operation's flags.
struct Callback {
  Vid vid;
  Language language;
  void (*function)();
  void (*proxy)();  // C++ bindings: calls `function` with C++ arguments
  Kind kind;        // error handlers: the kind of object it is for
  int references;
  char reserved0[52];
  uint32_t op_flags;  // offset 84; 2: a Fortran function
  char reserved1[32];
  void (*cxx_dispatch)();  // offset 120; set by libmpi_cxx
  char reserved2[64];
};
static_assert(__builtin_offsetof(Callback, op_flags) == 84);
static_assert(__builtin_offsetof(Callback, cxx_dispatch) == 120);

// Returns the null handle when no index is left.
Vid make_errhandler(Kind kind, void (*function)(), Language language);
// Makes an operation's, which then gets the vid that the lower half gave.
Callback* new_callback(Kind kind, void (*function)(), Language language);
void bind_callback(Vid vid, Callback* callback);
Callback* callback_of(Vid vid);
// Copies the callback, for use while another thread may free it. Returns false if there is none.
bool copy_callback(Vid vid, Callback* copy);
// Adds a reference, which free_callback drops. Returns false if there is no callback.
bool hold_callback(Vid vid);
void free_callback(Vid vid);
// Drops an operation's callback, whose vid may already name another operation.
void drop_callback(Callback* callback);

// --- error_handlers.cpp
// Runs `handler` for the program's error code `code` on the object `on`. Does not return if it is fatal.
int invoke_errhandler(Vid handler, Vid on, int code, const char* function);
// The same with the error handler that `object` has. (Objects without one: MPI_COMM_WORLD's.)
int invoke_errhandler_of(Vid object, int code, const char* function);
void set_errhandler(Vid object, Vid handler);

// --- error_codes.cpp
// At most MPI_MAX_ERROR_STRING - 1 characters; an unknown code has a text, too.
void error_text(int code, char* to, int* length);
int last_used_code();

}  // namespace cropdl::shim
