// The objects behind the handles of requests. Open MPI's Fortran library reads a persistent request's number
// there (ompi/request/request.h: req_f_to_c_index). A number's object never changes. UH, any thread.
#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {
namespace {

struct alignas(16) RequestObject {
  Vid vid;
  char reserved[100];
  MPI_Fint number;
};
static_assert(__builtin_offsetof(RequestObject, number) == 0x68);

constexpr uint32_t kInBlock = 1024;
RequestObject* blocks[(kUnknownIndex + 1) / kInBlock];

}  // namespace

bool requests_are_read;

void* request_object(Vid vid) {
  const uint32_t index = vid_index(vid);
  if (seam::vid_kind(vid) != Kind::kRequest || index > kUnknownIndex) return nullptr;
  RequestObject** block = &blocks[index / kInBlock];
  RequestObject* objects = __atomic_load_n(block, __ATOMIC_ACQUIRE);
  if (!objects) {
    auto* made = allocate<RequestObject>(kInBlock);
    for (uint32_t i = 0; i < kInBlock; ++i) {
      made[i].vid = make_vid(Kind::kRequest, index / kInBlock * kInBlock + i);
      made[i].number = static_cast<MPI_Fint>(made[i].vid);
    }
    if (__atomic_compare_exchange_n(block, &objects, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      objects = made;
    } else {
      free(made);  // another thread was first
    }
  }
  return &objects[index % kInBlock];
}

}  // namespace cropdl::shim
