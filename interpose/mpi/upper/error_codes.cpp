// Error classes and codes, in the upper half: another MPI must not change their meaning. UH, any thread.
#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {
namespace {

// Codes and classes that the program adds, numbered as in its own MPI: programs compare them with
// MPI_ERR_LASTCODE and MPI_LASTUSEDCODE, and an exit status has only eight bits.
struct Added {
  int error_class;  // negative: it is a class
  bool used;
  char* text;
};
class Numbers {
 public:
  // Returns the lowest free number, at least 1; 0 if all below `limit` are taken, or there is no memory.
  int take(int limit, int error_class) {
    int i = freed_ ? 1 : count_ + 1;
    while (i <= count_ && entries_[i - 1].used) ++i;
    if (i >= limit) return 0;
    if (i > count_) {
      if (count_ == static_cast<int>(size_) && !grow(&entries_, &size_)) return 0;
      freed_ = false;
      count_ = i;
    }
    entries_[i - 1] = {error_class, true, nullptr};
    return i;
  }
  Added* at(int i) { return i >= 1 && i <= count_ && entries_[i - 1].used ? &entries_[i - 1] : nullptr; }
  void give_back(Added* entry) {
    free(entry->text);
    *entry = {0, false, nullptr};
    freed_ = true;
  }
  int count() const { return count_; }

 private:
  Added* entries_ = nullptr;
  int count_ = 0;
  uint32_t size_ = 0;
  bool freed_ = false;
};
SpinLock added_lock;

#if defined(CROPDL_ABI_MPICH)
// As in mpir_errcodes.h of MPICH 4.0: the class in bits 0 to 6, a code's number from bit 8, and a bit that
// marks added classes.
constexpr int kClassMask = 0x7f, kDynamic = 0x4000'0000, kCodeShift = 8, kClasses = 128, kCodes = 8192;
Numbers classes, codes;
int add_class() {
  Locked locked(added_lock);
  const int i = classes.take(kClasses, -1);
  return i ? i | kDynamic : 0;
}
int add_code(int error_class) {
  Locked locked(added_lock);
  const int i = codes.take(kCodes, error_class);
  return i ? error_class | i << kCodeShift : 0;
}
// Under the lock.
Added* find_added(int code) {
  if (code < 0) return nullptr;
  if (const int i = (code & ~kDynamic) >> kCodeShift) {
    Added* a = codes.at(i);
    return a && (a->error_class | i << kCodeShift) == code ? a : nullptr;
  }
  return code & kDynamic ? classes.at(code & kClassMask) : nullptr;
}
bool is_class(int error_class) {
  Locked locked(added_lock);
  return error_class >= 0 && (error_class & kDynamic ? classes.at(error_class & ~kDynamic) != nullptr
                                                     : error_class <= MPI_ERR_LASTCODE);
}
bool is_error_code(int) { return true; }
int error_class_of(int code) { return code & (kClassMask | kDynamic); }
#else
// As in ompi/errhandler/errcode.h of Open MPI 4.1: one sequence after the predefined codes.
Numbers codes;
int add_code(int error_class) {
  Locked locked(added_lock);
  const int i = codes.take(1 << 30, error_class);
  return i ? MPI_ERR_LASTCODE + i : 0;
}
int add_class() { return add_code(-1); }
// Under the lock.
Added* find_added(int code) { return codes.at(code > MPI_ERR_LASTCODE ? code - MPI_ERR_LASTCODE : 0); }
bool is_class(int error_class) {
  Locked locked(added_lock);
  const Added* a = find_added(error_class);
  return a ? a->error_class < 0 : error_class >= 0 && error_class <= MPI_ERR_LASTCODE;
}
// Open MPI's functions reject others.
bool is_error_code(int code) {
  Locked locked(added_lock);
  return find_added(code) || (code >= 0 && code <= MPI_ERR_LASTCODE);
}
int error_class_of(int code) {
  Locked locked(added_lock);
  const Added* a = find_added(code);
  return a && a->error_class >= 0 ? a->error_class : code;
}
#endif

// Takes `text`, from malloc; nullptr removes it. False, with nothing taken: the program did not add the code.
bool set_error_text(int code, char* text) {
  Locked locked(added_lock);
  Added* a = find_added(code);
  if (!a) return false;
  free(a->text);
  a->text = text;
  return true;
}

}  // namespace

void error_text(int code, char* to, int* length) {
  Locked locked(added_lock);
  const Added* a = find_added(code);
  text_out(to, a ? (a->text ? a->text : "") : constants::text_of_error(constants::to_seam_error(code)),
           MPI_MAX_ERROR_STRING, length);
}

int last_used_code() {
#if defined(CROPDL_ABI_MPICH)
  return classes.count() ? classes.count() | kDynamic : MPI_ERR_LASTCODE;  // MPICH does not count codes
#else
  return MPI_ERR_LASTCODE + codes.count();
#endif
}

MPI_FUNCTION(int, Error_class, int code, int* error_class) {
  if (!is_error_code(code)) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Error_class);
  *error_class = error_class_of(code);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Error_string, int code, char* string, int* length) {
  if (!is_error_code(code)) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Error_string);
  error_text(code, string, length);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_class, int* error_class) {
  if (!error_class) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_class);
  const int made = add_class();
  if (!made) return fail_mpi_call(kNoObject, seam::kErrOther, seam::kFn_MPI_Add_error_class);
  *error_class = made;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_code, int error_class, int* code) {
  if (!code || !is_class(error_class))
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_code);
  const int made = add_code(error_class);
  if (!made) return fail_mpi_call(kNoObject, seam::kErrOther, seam::kFn_MPI_Add_error_code);
  *code = made;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_string, int code, const char* string) {
  char* copy = string ? strdup(string) : nullptr;
  if (copy && set_error_text(code, copy)) return MPI_SUCCESS;
  free(copy);
  return fail_mpi_call(kNoObject, string && !copy ? seam::kErrNoMem : seam::kErrArg,
                       seam::kFn_MPI_Add_error_string);
}
#if defined(CROPDL_ABI_MPICH)
#pragma weak MPIX_Delete_error_class = PMPIX_Delete_error_class
#pragma weak MPIX_Delete_error_code = PMPIX_Delete_error_code
#pragma weak MPIX_Delete_error_string = PMPIX_Delete_error_string
EXPORTED int PMPIX_Delete_error_class(int error_class) {
  Locked locked(added_lock);
  Added* a = (error_class >> kCodeShift & (kCodes - 1)) ? nullptr : find_added(error_class);
  if (a) classes.give_back(a);
  return a ? MPI_SUCCESS : MPI_ERR_OTHER;
}
EXPORTED int PMPIX_Delete_error_code(int code) {
  Locked locked(added_lock);
  Added* a = (code >> kCodeShift & (kCodes - 1)) ? find_added(code) : nullptr;
  if (a) codes.give_back(a);
  return a ? MPI_SUCCESS : MPI_ERR_OTHER;
}
EXPORTED int PMPIX_Delete_error_string(int code) {
  return set_error_text(code, nullptr) ? MPI_SUCCESS : MPI_ERR_OTHER;
}
#endif

}  // namespace cropdl::shim
