// Calls that make a communicator: its identity, its record before NCCL makes it, what a failure takes back.
#include "interpose/cuda/lower/nccl/groups.h"

#include <algorithm>

namespace cropdl::cuda::nccl {
namespace {

namespace fn = seam::nccl;

uint64_t excluded_by(const Making& m) {
  std::vector<int> out(m.excluded, m.excluded + m.excluded_ranks);  // in any order
  std::sort(out.begin(), out.end());
  uint64_t hash = 0;
  for (int r : out) hash = mixed(hash, static_cast<uint64_t>(r) + 1);
  return hash;
}

Shrunk* shrunk(const Communicator* parent, uint64_t excluded) {
  return find<Shrunk>(parent->shrunk, [excluded](const Shrunk* s) { return s->excluded == excluded; });
}

// How many communicators were made as `c` makes one, part of their identities; null: the heap is full.
uint32_t* made_likewise(const Call& c, Communicator* parent) {
  if (!shrinks(c)) return &parent->splits;
  const uint64_t excluded = excluded_by(*c.making);
  if (Shrunk* const before = shrunk(parent, excluded)) return &before->times;
  auto* const first = listed<Shrunk>(parent->shrunk);
  if (!first) return nullptr;
  first->excluded = excluded;
  return &first->times;
}

// Whether an existing communicator has this identity. All members of that one have joined.
bool is_taken(uint64_t identity) {
  bool taken = false;
  handles::SpinGuard guard(lock);
  each_communicator([&](const Communicator* other) {
    taken = taken || (other->identity == identity && (other->stage == kReady || other->stage == kFinalized));
  });
  return taken;
}

}  // namespace

Making* new_making(ncclComm_t* into, const ncclConfig_t* config) {
  auto* m = static_cast<Making*>(handles::heap_allocate(sizeof(Making)));
  if (!m) return nullptr;
  m->into = into;
  if (!config) return m;
  constexpr ncclConfig_t kInitial = NCCL_CONFIG_INITIALIZER;
  if (config->magic != kInitial.magic) {
    m->strange = config;
    return m;
  }
  m->has_config = 1;
  // An older header's structure is shorter.
  memcpy(&m->config, config, std::min(config->size, sizeof m->config));
  if (config->size > sizeof m->config)
    one_abi::mark_unsaved(kNccl, fn::kFn_ncclCommInitRankConfig,
                          "the program's ncclConfig_t is of a newer NCCL than this build knows");
  if (keep_texts(m->config)) return m;
  give_back(m);
  return nullptr;
}

void give_back(Making* m) {
  if (!m) return;
  handles::heap_free(m->id);
  handles::heap_free(m->excluded);
  free_texts(m->config);
  handles::heap_free(m);
}

bool joins(const Call& c) {
  return c.function == fn::kFn_ncclCommInitRank || c.function == fn::kFn_ncclCommInitRankConfig ||
         c.function == fn::kFn_ncclCommInitRankScalable;
}
bool shrinks(const Call& c) { return c.function == fn::kFn_ncclCommShrink; }

uint64_t identity_of_made(const Call& c) {
  const Making& m = *c.making;
  if (joins(c)) return identity_from(hash_of(m.id, m.ids));
  const Communicator* const parent = communicator(c.comm);
  if (!parent) return 0;
  if (!shrinks(c))
    return identity_from(mixed(mixed(parent->identity, 0x73706c69 + uint64_t{parent->splits}),
                               static_cast<uint64_t>(m.color)));
  const uint64_t excluded = excluded_by(m);
  const Shrunk* const before = shrunk(parent, excluded);
  return identity_from(
      mixed(mixed(parent->identity, 0x7368726b + uint64_t{before ? before->times : 0}), excluded));
}

bool prepare(const Call& c) {
  Making* const making = c.making;
  if (!making) return true;
  if (Communicator* const planned = making->made) {
    planned->stage = kMaking;
    return true;
  }
  Communicator* const parent = communicator(c.comm);
  const bool is_split = c.function == fn::kFn_ncclCommSplit;
  const bool makes = !(is_split && making->color < 0);
  if (makes) {
    const uint64_t identity = identity_of_made(c);
    if (joins(c) && is_taken(identity))
      one_abi::mark_unsaved(kNccl, c.function, "two communicators were made with one id (NCCL_COMM_ID?)");
    const int device = parent ? parent->device : c.device;
    making->made = new_communicator(identity, c.function, device);
    if (Communicator* m = making->made) {
      m->device = device;
      m->parent = parent ? parent->word : 0;
      m->rank = joins(c) ? making->rank : -1;
      m->size = joins(c) ? making->ranks : -1;
      if (m->size == 1) m->count.identity = 0;
      if (making->has_config)
        keep_config(m, making->config);
      else if (parent && parent->has_config)
        keep_config(m, parent->config);
      m->stage = kMaking;
    }
  }
  if (uint32_t* const count = parent ? made_likewise(c, parent) : nullptr)
    ++*count;
  else if (parent)
    note_full(c.function);
  return !makes || making->made;
}

void take_back(const Call& c) {
  Making* const making = c.making;
  if (!making) return;
  if (Communicator* const parent = communicator(c.comm))
    if (uint32_t* const count = made_likewise(c, parent); count && *count != 0) --*count;
  if (making->made) drop_communicator(making->made);
  making->made = nullptr;
  if (!c.in_group || !joins(c)) *making->into = nullptr;
}

}  // namespace cropdl::cuda::nccl
