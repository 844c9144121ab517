// Handles and records of communicators, and ids. LH, LH FS base, threads of the program.
#include <cstring>
#include <utility>

#include "base/random.h"
#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda::nccl {
namespace {

// Ids that the program got in earlier runs, each with this run's.
std::vector<std::pair<ncclUniqueId, ncclUniqueId>>& real_ids() {
  static auto& all = *new std::vector<std::pair<ncclUniqueId, ncclUniqueId>>;
  return all;
}

// True: finalized in an earlier run and not destroyed. NCCL has no such communicator in this run.
bool of_former_run(const Communicator* c) { return c && c->stage == kFinalized && !*real_place(c); }

bool same(const ncclUniqueId& a, const ncclUniqueId& b) { return memcmp(&a, &b, sizeof a) == 0; }

// A restart gets a new id for each, with a socket and a thread of NCCL.
constexpr size_t kMostGiven = 2000;

void add_given(const ncclUniqueId& id) {
  auto* g = static_cast<GivenId*>(handles::heap_allocate(sizeof(GivenId)));
  if (!g) return note_full(seam::nccl::kFn_ncclGetUniqueId);
  g->id = id;
  size_t count = 1;
  {
    handles::SpinGuard guard(lock);
    each<GivenId>(state->given_ids, [&](const GivenId*) { ++count; });
    push(state->given_ids, g);
  }
  if (count > kMostGiven)
    one_abi::mark_unsaved(kNccl, seam::nccl::kFn_ncclGetUniqueId,
                          "a rank has got more than 2000 ids with which it has not joined");
}

void free_room(Communicator* c) {
  forget_records(c, c + 1);
  if (c->pairs) {
    auto* pairs = reinterpret_cast<counting::Record*>(c->pairs);
    forget_records(pairs, pairs + ptrdiff_t{2} * c->size);
    handles::heap_free(pairs);
  }
  each<Operation>(c->operations, [](Operation* o) {
    one_abi::forget_word(o->word);
    handles::heap_free(o);
  });
  each<Registration>(c->registrations, handles::heap_free);
  each<Shrunk>(c->shrunk, handles::heap_free);
  free_texts(c->config);
  handles::heap_free(c);
}

}  // namespace

void note_full(uint32_t function) { one_abi::mark_unsaved(kNccl, function, "the persistent heap is full"); }

bool keep_texts(ncclConfig_t& config) {
  bool kept = true;
  for (const char** text : {&config.netName, &config.commName})
    if (*text) kept = (*text = copied(*text, strlen(*text) + 1)) && kept;
  return kept;
}

void free_texts(const ncclConfig_t& config) {
  handles::heap_free(const_cast<char*>(config.netName));
  handles::heap_free(const_cast<char*>(config.commName));
}

State* need_state() {
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE)) return state;
  if (!one_abi::need_family()) return nullptr;
  handles::SpinGuard guard(lock);
  if (state) return state;
  auto* fresh = static_cast<State*>(handles::heap_allocate(sizeof(State)));
  if (!fresh) return nullptr;
  fresh->version = kStateVersion;
  fresh->config_bytes = sizeof(ncclConfig_t);
  one_abi::family->members[one_abi::kMemberNccl] = reinterpret_cast<uint64_t>(fresh);
  __atomic_store_n(&state, fresh, __ATOMIC_RELEASE);
  return fresh;
}

uint64_t hash_of(const ncclUniqueId* ids, int n) {
  uint64_t hash = 0;
  for (int i = 0; i < n; ++i)
    for (size_t at = 0; at < sizeof ids[i]; at += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, ids[i].internal + at, sizeof word);
      hash = mixed(hash, word);
    }
  return hash;
}

counting::Record* pair_record(Communicator* c, int peer, bool sends) {
  if (c->size < 2 || peer < 0 || peer >= c->size || peer == c->rank) return nullptr;
  uint64_t pairs = __atomic_load_n(&c->pairs, __ATOMIC_ACQUIRE);
  if (__builtin_expect(!pairs, 0)) {
    auto* fresh = static_cast<counting::Record*>(
        handles::heap_allocate(2 * static_cast<size_t>(c->size) * sizeof(counting::Record)));
    if (!fresh) {
      note_full(sends ? seam::nccl::kFn_ncclSend : seam::nccl::kFn_ncclRecv);
      return nullptr;
    }
    for (int r = 0; r < c->size; ++r) {
      counting::Record* const pair = fresh + ptrdiff_t{2} * r;
      pair[0].identity = pair_identity(c, c->rank, r);
      pair[1].identity = pair_identity(c, r, c->rank);
    }
    handles::SpinGuard guard(lock);
    if (!c->pairs)
      __atomic_store_n(&c->pairs, reinterpret_cast<uint64_t>(fresh), __ATOMIC_RELEASE);
    else
      handles::heap_free(fresh);
    pairs = c->pairs;
  }
  return reinterpret_cast<counting::Record*>(pairs) + ptrdiff_t{2} * peer + (sends ? 0 : 1);
}

Communicator* new_communicator(uint64_t identity, uint32_t function, int device) {
  if (!need_state()) return nullptr;
  auto* c = static_cast<Communicator*>(handles::heap_allocate(sizeof(Communicator)));
  if (!c) return nullptr;
  const one_abi::RecipeWriter recipe;  // empty: marks that there is a recipe; all members make it together
  {
    handles::SpinGuard guard(one_abi::family_lock);
    const handles::Handle h =
        one_abi::tables->create(one_abi::kind::ncclComm, one_abi::maker_of(kNccl, function));
    if (!h || !one_abi::tables->set_recipe(h, {}, recipe.payload().data(), recipe.payload().size())) {
      handles::heap_free(c);
      return nullptr;
    }
    one_abi::tables->slot(h)->next = static_cast<uint32_t>(device + 1);
    one_abi::tables->slot(h)->owner[2] = reinterpret_cast<uint64_t>(c);
    c->word = one_abi::kTag | h;
  }
  c->identity = c->count.identity = identity;
  c->rank = c->size = c->device = -1;
  handles::SpinGuard guard(lock);
  push(state->communicators, c);
  return c;
}

void drop_communicator(Communicator* c) {
  take_out(state->communicators, c);
  one_abi::forget_word(c->word);
  free_room(c);
}

void end_communicator(Communicator* c, uint64_t last_count) {
  // Listed as ended before it leaves the list of communicators: the agent must see one of them.
  bool is_full = false;
  if (c->count.identity) {
    handles::SpinGuard guard(lock);
    auto* e = reinterpret_cast<Ended*>(state->ended);
    if (!e || e->used == Ended::kMost) {
      e = static_cast<Ended*>(handles::heap_allocate(sizeof(Ended)));
      if (e) push(state->ended, e);
    }
    is_full = !e;
    if (e) {
      counting::Record& last = e->counts[e->used++];
      last.identity = c->count.identity;
      last.begun = last_count;
    }
  }
  if (is_full) note_full(seam::nccl::kFn_ncclCommDestroy);
  take_out(state->communicators, c);
  one_abi::forget_word(c->word);
  if (last_count != kAborted) return free_room(c);
  handles::SpinGuard guard(lock);
  push(state->aborted, c);
}

void forget_aborted() { each<Communicator>(std::exchange(state->aborted, 0), free_room); }

void keep_config(Communicator* c, const ncclConfig_t& config) {
  c->has_config = 1;
  c->config = config;
  if (!keep_texts(c->config)) note_full(seam::nccl::kFn_ncclCommInitRankConfig);
}

void settle(Communicator* c) {
  if (c->stage != kMaking) return;
  const ncclComm_t real = *real_place(c);
  ncclResult_t now = ncclInProgress;
  if (!real || CROPDL_NCCL(ncclCommGetAsyncError)(real, &now) != ncclSuccess || now == ncclInProgress) return;
  if (now == ncclSuccess) {
    CROPDL_NCCL(ncclCommUserRank)(real, &c->rank);
    CROPDL_NCCL(ncclCommCount)(real, &c->size);
    CROPDL_NCCL(ncclCommCuDevice)(real, &c->device);
    if (c->size == 1) c->count.identity = 0;
  }
  c->stage = kReady;
}

ncclUniqueId real_id(const ncclUniqueId& told) {
  for (const auto& [before, now] : real_ids())
    if (same(before, told)) return now;
  return told;
}

void add_real_id(const ncclUniqueId& told, const ncclUniqueId& real) { real_ids().push_back({told, real}); }

void joined_with(const ncclUniqueId* ids, int n) {
  handles::SpinGuard guard(lock);
  for (int i = 0; i < n; ++i)
    for (uint64_t* at = &state->given_ids; *at;) {
      auto* g = reinterpret_cast<GivenId*>(*at);
      if (same(g->id, ids[i])) {
        *at = g->next;
        handles::heap_free(g);
      } else {
        at = &g->next;
      }
    }
}

extern "C" {

ncclResult_t lower_ncclGetUniqueId(ncclUniqueId* id) {
  one_abi::Call begins;
  const ncclResult_t r = CROPDL_NCCL(ncclGetUniqueId)(id);
  if (r == ncclSuccess && need_state()) add_given(*id);
  return r;
}

// All members belong to this process; no other rank takes part.
ncclResult_t lower_ncclCommInitAll(ncclComm_t* comms, int n, const int* devices) {
  one_abi::Call begins;
  if (!comms || n < 1 || !need_state()) return CROPDL_NCCL(ncclCommInitAll)(comms, n, devices);
  std::vector<ncclComm_t> real(static_cast<size_t>(n));
  const ncclResult_t result = CROPDL_NCCL(ncclCommInitAll)(real.data(), n, devices);
  if (!went_on(result)) return result;
  const uint64_t random = random_number(~uint64_t{0});
  std::vector<Communicator*> made;
  for (int i = 0; i < n; ++i) {
    Communicator* const c = new_communicator(identity_from(random), seam::nccl::kFn_ncclCommInitAll,
                                             devices ? devices[i] : i);  // regardless of the current device
    if (!c) {
      note_full(seam::nccl::kFn_ncclCommInitAll);
      comms[i] = real[static_cast<size_t>(i)];
      continue;
    }
    *real_place(c) = real[static_cast<size_t>(i)];
    comms[i] = one_abi::handle_of<ncclComm_t>(c->word);
    made.push_back(c);
  }
  for (Communicator* c : made) settle(c);  // not before all are listed: a cut counts the members
  return result;
}

ncclResult_t lower_ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  one_abi::Call begins;
  const Communicator* const asked = communicator(comm);
  // A split that NCCL has not made yet.
  const bool unmade = asked && asked->stage == kMaking && !*real_place(asked);
  if (error && (unmade || of_former_run(asked))) {
    *error = unmade ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
  }
  const ncclResult_t r = CROPDL_NCCL(ncclCommGetAsyncError)(real_of(comm), error);
  if (r != ncclSuccess || !error || *error == ncclInProgress || !state) return r;
  std::vector<Communicator*> making;  // a split's parent also reports for it
  {
    handles::SpinGuard guard(lock);
    each_communicator([&](Communicator* c) {
      if (c->stage != kMaking) return;
      // NCCL makes no handle for a split that has failed.
      if (*error != ncclSuccess && !*real_place(c) && c->parent == one_abi::word_of(comm)) c->stage = kReady;
      making.push_back(c);
    });
  }
  for (Communicator* c : making) settle(c);
  return r;
}

#define CROPDL_TOLD(name, member)                                                  \
  ncclResult_t lower_##name(const ncclComm_t comm, int* told) {                    \
    one_abi::Call begins;                                                          \
    const Communicator* const c = communicator(comm);                              \
    if (!told || !of_former_run(c)) return CROPDL_NCCL(name)(real_of(comm), told); \
    *told = c->member;                                                             \
    return ncclSuccess;                                                            \
  }
CROPDL_TOLD(ncclCommCount, size)
CROPDL_TOLD(ncclCommCuDevice, device)
CROPDL_TOLD(ncclCommUserRank, rank)
#undef CROPDL_TOLD

// Not made at their places in the order of objects, but all together later (restart.cpp).
#define CROPDL_LATER(name) \
  int64_t again_##name(one_abi::Again&) { return 0; }
CROPDL_LATER(ncclCommInitRank)
CROPDL_LATER(ncclCommInitRankConfig)
CROPDL_LATER(ncclCommInitRankScalable)
CROPDL_LATER(ncclCommInitAll)
CROPDL_LATER(ncclCommSplit)
CROPDL_LATER(ncclCommShrink)
CROPDL_LATER(ncclRedOpCreatePreMulSum)
#undef CROPDL_LATER

}  // extern "C"
}  // namespace cropdl::cuda::nccl
