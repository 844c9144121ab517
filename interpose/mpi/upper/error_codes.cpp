// Error classes and codes, kept in the upper half: they must keep their meaning after a restart over another
// MPI. UH, any thread.
#include "interpose/mpi/upper/error_codes.h"

#include "interpose/mpi/upper/spin_lock.h"

namespace cropdl::shim {
namespace {

// The texts of MPI_Error_string in Open MPI 4.1 and MPICH 4.0; programs print them.
struct Text {
  int neutral;
  const char* openmpi;
  const char* mpich;
};
constexpr Text kTexts[] = {
    {seam::kSuccess, "MPI_SUCCESS: no errors", "No MPI error"},
    {seam::kErrBuffer, "MPI_ERR_BUFFER: invalid buffer pointer", "Invalid buffer pointer"},
    {seam::kErrCount, "MPI_ERR_COUNT: invalid count argument", "Invalid count"},
    {seam::kErrType, "MPI_ERR_TYPE: invalid datatype", "Invalid datatype"},
    {seam::kErrTag, "MPI_ERR_TAG: invalid tag", "Invalid tag"},
    {seam::kErrComm, "MPI_ERR_COMM: invalid communicator", "Invalid communicator"},
    {seam::kErrRank, "MPI_ERR_RANK: invalid rank", "Invalid rank"},
    {seam::kErrRequest, "MPI_ERR_REQUEST: invalid request", "Request pending due to failure"},
    {seam::kErrRoot, "MPI_ERR_ROOT: invalid root", "Invalid root"},
    {seam::kErrGroup, "MPI_ERR_GROUP: invalid group", "Invalid group"},
    {seam::kErrOp, "MPI_ERR_OP: invalid reduce operation", "Invalid MPI_Op"},
    {seam::kErrTopology, "MPI_ERR_TOPOLOGY: invalid communicator topology", "Invalid topology"},
    {seam::kErrDims, "MPI_ERR_DIMS: invalid topology dimension", "Invalid dimension argument"},
    {seam::kErrArg, "MPI_ERR_ARG: invalid argument of some other kind", "Invalid argument"},
    {seam::kErrUnknown, "MPI_ERR_UNKNOWN: unknown error", "Unknown error.  Please file a bug report."},
    {seam::kErrTruncate, "MPI_ERR_TRUNCATE: message truncated", "Message truncated"},
    {seam::kErrOther, "MPI_ERR_OTHER: known error not in list", "Other MPI error"},
    {seam::kErrIntern, "MPI_ERR_INTERN: internal error", "Internal MPI error!"},
    {seam::kErrInStatus, "MPI_ERR_IN_STATUS: error code in status",
     "See the MPI_ERROR field in MPI_Status for the error code"},
    {seam::kErrPending, "MPI_ERR_PENDING: pending request", "Pending request (no error)"},
    {seam::kErrAccess, "MPI_ERR_ACCESS: invalid access mode", "Access denied to file"},
    {seam::kErrAmode, "MPI_ERR_AMODE: invalid amode argument", "Invalid amode value in MPI_File_open "},
    {seam::kErrAssert, "MPI_ERR_ASSERT: invalid assert argument", "Invalid assert argument"},
    {seam::kErrBadFile, "MPI_ERR_BAD_FILE: bad file", "Invalid file name"},
    {seam::kErrBase, "MPI_ERR_BASE: invalid base", "Invalid base address"},
    {seam::kErrConversion, "MPI_ERR_CONVERSION: error in data conversion",
     "An error occurred in a user-defined data conversion function"},
    {seam::kErrDisp, "MPI_ERR_DISP: invalid displacement", "Invalid displacement argument in RMA call "},
    {seam::kErrDupDatarep, "MPI_ERR_DUP_DATAREP: error duplicating data representation",
     "The requested datarep name has already been specified to MPI_REGISTER_DATAREP"},
    {seam::kErrFileExists, "MPI_ERR_FILE_EXISTS: file exists alreay", "File exists"},
    {seam::kErrFileInUse, "MPI_ERR_FILE_IN_USE: file already in use", "File in use by some process"},
    {seam::kErrFile, "MPI_ERR_FILE: invalid file", "Invalid MPI_File"},
    {seam::kErrInfoKey, "MPI_ERR_INFO_KEY: invalid key argument for info object",
     "Invalid key for MPI_Info "},
    {seam::kErrInfoNoKey, "MPI_ERR_INFO_NOKEY: unknown key for given info object",
     "MPI_Info key is not defined "},
    {seam::kErrInfoValue, "MPI_ERR_INFO_VALUE: invalid value argument for info object",
     "Invalid MPI_Info value "},
    {seam::kErrInfo, "MPI_ERR_INFO: invalid info object", "Invalid MPI_Info"},
    {seam::kErrIo, "MPI_ERR_IO: input/output error", "Other I/O error "},
    {seam::kErrKeyval, "MPI_ERR_KEYVAL: invalid key value", "Invalid keyval"},
    {seam::kErrLocktype, "MPI_ERR_LOCKTYPE: invalid lock", "Invalid locktype argument"},
    {seam::kErrName, "MPI_ERR_NAME: invalid name argument", "Invalid service name (see MPI_Publish_name)"},
    {seam::kErrNoMem, "MPI_ERR_NO_MEM: out of memory", "Unable to allocate memory for MPI_Alloc_mem"},
    {seam::kErrNotSame, "MPI_ERR_NOT_SAME: objects are not identical",
     "Inconsistent arguments to collective routine "},
    {seam::kErrNoSpace, "MPI_ERR_NO_SPACE: no space left on device", "Not enough space for file "},
    {seam::kErrNoSuchFile, "MPI_ERR_NO_SUCH_FILE: no such file or directory", "File does not exist"},
    {seam::kErrPort, "MPI_ERR_PORT: invalid port", "Invalid port"},
    {seam::kErrQuota, "MPI_ERR_QUOTA: out of quota", "Quota exceeded for files"},
    {seam::kErrReadOnly, "MPI_ERR_READ_ONLY: file is read only", "Read-only file or filesystem name"},
    {seam::kErrRmaConflict, "MPI_ERR_RMA_CONFLICT: rma conflict during operation",
     "Conflicting accesses to window "},
    {seam::kErrRmaSync, "MPI_ERR_RMA_SYNC: error executing rma sync", "Wrong synchronization of RMA calls "},
    {seam::kErrService, "MPI_ERR_SERVICE: unknown service name",
     "Attempt to lookup an unknown service name "},
    {seam::kErrSize, "MPI_ERR_SIZE: invalid size", "Invalid size argument in RMA call"},
    {seam::kErrSpawn, "MPI_ERR_SPAWN: could not spawn processes", "Error in spawn call"},
    {seam::kErrUnsupportedDatarep, "MPI_ERR_UNSUPPORTED_DATAREP: data representation not supported",
     "Unsupported datarep passed to MPI_File_set_view "},
    {seam::kErrUnsupportedOperation, "MPI_ERR_UNSUPPORTED_OPERATION: operation not supported",
     "Unsupported file operation "},
    {seam::kErrWin, "MPI_ERR_WIN: invalid window", "Invalid MPI_Win"},
    {seam::kErrRmaRange, "MPI_ERR_RMA_RANGE: invalid RMA address range",
     "Target memory is not contained within the window"},
    {seam::kErrRmaAttach, "MPI_ERR_RMA_ATTACH: could not attach RMA segment", "Memory cannot be attached"},
    {seam::kErrRmaShared, "MPI_ERR_RMA_SHARED: memory cannot be shared", "Memory cannot be shared"},
    {seam::kErrRmaFlavor, "MPI_ERR_RMA_FLAVOR: invalid type of window", "Incorrect window flavor"},
    {seam::kErrSession, "MPI_ERR_SESSION: invalid session", "Unknown error class"},
    {seam::kErrProcAborted, "MPI_ERR_PROC_ABORTED: a process was aborted", "Unknown error class"},
    {seam::kErrValueTooLarge, "MPI_ERR_VALUE_TOO_LARGE: a value is too large for its type",
     "Unknown error class"},
};

#if defined(CROPDL_ABI_MPICH)
constexpr bool kMpich = true;
#else
constexpr bool kMpich = false;
#endif
const char* text_of(int neutral) {
  for (const Text& t : kTexts) {
    if (t.neutral == neutral) return kMpich ? t.mpich : t.openmpi;
  }
  return kMpich ? "Unknown error class" : "MPI_ERR_UNKNOWN: unknown error";
}

// Codes and classes that the program adds, numbered as in its own MPI: programs compare them with
// MPI_ERR_LASTCODE and MPI_LASTUSEDCODE, and an exit status has only eight bits.
struct Added {
  int error_class;  // for a class, its own number
  bool used;
  char* text;
};
class Numbers {
 public:
  // Returns the lowest free number, at least 1; 0 if all below `limit` are taken, or there is no memory.
  int take(int limit) {
    int i = freed_ ? 1 : count_ + 1;
    while (i <= count_ && entries_[i - 1].used) ++i;
    if (i >= limit) return 0;
    if (i > count_) {
      if (count_ == size_ && !grow()) return 0;
      freed_ = false;
      count_ = i;
    }
    entries_[i - 1] = {0, true, nullptr};
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
  bool grow() {
    const int size = size_ ? size_ * 2 : 64;
    auto* grown =
        static_cast<Added*>(realloc(static_cast<void*>(entries_), static_cast<size_t>(size) * sizeof(Added)));
    if (!grown) return false;
    entries_ = grown;
    size_ = size;
    return true;
  }
  Added* entries_ = nullptr;
  int count_ = 0, size_ = 0;
  bool freed_ = false;
};
SpinLock added_lock;

#if defined(CROPDL_ABI_MPICH)
// As in mpir_errcodes.h of MPICH 4.0: the class in bits 0 to 6, a code's number from bit 8, and a bit that
// marks added classes.
constexpr int kClassMask = 0x7f, kDynamic = 0x4000'0000, kCodeShift = 8, kClasses = 128, kCodes = 8192;
Numbers classes, codes;
int add_class() {
  const int i = classes.take(kClasses);
  if (i) classes.at(i)->error_class = i | kDynamic;
  return i ? i | kDynamic : 0;
}
int add_code(int error_class) {
  const int i = codes.take(kCodes);
  if (i) codes.at(i)->error_class = error_class;
  return i ? error_class | i << kCodeShift : 0;
}
Added* find_added(int code) {
  if (code < 0) return nullptr;
  if (const int i = (code & ~kDynamic) >> kCodeShift) {
    Added* a = codes.at(i);
    return a && (a->error_class | i << kCodeShift) == code ? a : nullptr;
  }
  return code & kDynamic ? classes.at(code & kClassMask) : nullptr;
}
bool is_class(int error_class) {
  return error_class >= 0 && (error_class & kDynamic ? classes.at(error_class & ~kDynamic) != nullptr
                                                     : error_class <= MPI_ERR_LASTCODE);
}
#else
// As in ompi/errhandler/errcode.h of Open MPI 4.1: one sequence after the predefined codes.
Numbers codes;
int add_code(int error_class) {
  const int i = codes.take(1 << 30);
  if (!i) return 0;
  codes.at(i)->error_class = error_class < 0 ? MPI_ERR_LASTCODE + i : error_class;
  return MPI_ERR_LASTCODE + i;
}
int add_class() { return add_code(-1); }
Added* find_added(int code) { return codes.at(code > MPI_ERR_LASTCODE ? code - MPI_ERR_LASTCODE : 0); }
bool is_class(int error_class) {
  const Added* a = find_added(error_class);
  return a ? a->error_class == error_class : error_class >= 0 && error_class <= MPI_ERR_LASTCODE;
}
#endif

}  // namespace

bool is_error_code([[maybe_unused]] int code) {
#if defined(CROPDL_ABI_MPICH)
  return true;
#else
  Locked locked(added_lock);
  return find_added(code) || (code >= 0 && code <= MPI_ERR_LASTCODE);
#endif
}

bool is_error_class(int error_class) {
  Locked locked(added_lock);
  return is_class(error_class);
}

int error_class_of(int code) {
#if defined(CROPDL_ABI_MPICH)
  return code & (kClassMask | kDynamic);
#else
  Locked locked(added_lock);
  const Added* a = find_added(code);
  return a ? a->error_class : code;
#endif
}

void error_text(int code, char* to, int* length) {
  Locked locked(added_lock);
  const Added* a = find_added(code);
  text_out(to, a ? (a->text ? a->text : "") : text_of(constants::to_seam_error(code)), MPI_MAX_ERROR_STRING,
           length);
}

int last_used_code() {
#if defined(CROPDL_ABI_MPICH)
  return classes.count() ? classes.count() | kDynamic : MPI_ERR_LASTCODE;  // MPICH does not count codes
#else
  return MPI_ERR_LASTCODE + codes.count();
#endif
}

int add_error_class() {
  Locked locked(added_lock);
  return add_class();
}

int add_error_code(int error_class) {
  Locked locked(added_lock);
  return add_code(error_class);
}

bool set_error_text(int code, char* text) {
  Locked locked(added_lock);
  Added* a = find_added(code);
  if (!a) return false;
  free(a->text);
  a->text = text;
  return true;
}

#if defined(CROPDL_ABI_MPICH)
bool delete_error_class(int error_class) {
  Locked locked(added_lock);
  Added* a = (error_class >> kCodeShift & (kCodes - 1)) ? nullptr : find_added(error_class);
  if (a) classes.give_back(a);
  return a != nullptr;
}

bool delete_error_code(int code) {
  Locked locked(added_lock);
  Added* a = (code >> kCodeShift & (kCodes - 1)) ? find_added(code) : nullptr;
  if (a) codes.give_back(a);
  return a != nullptr;
}
#endif

}  // namespace cropdl::shim
