#include "interpose/cuda/lower/nccl/groups.h"

#include <algorithm>

#include "interpose/boundaries/token_ring.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/nccl/captured.h"

namespace cropdl::cuda::nccl {
namespace {

namespace fn = seam::nccl;

// In the heap; the thread's record points to it.
struct Group {
  uint64_t depth;
  uint64_t first, last;  // list of Calls
  int64_t result;        // of a call refused immediately, or of calls that have already run
};

void drop(Call* c) {
  give_back(c->making);
  handles::heap_free(c);
}

Group* group_of_thread() { return reinterpret_cast<Group*>(open_group()); }

void append(Group* g, Call* c) {
  c->next = 0;
  (g->last ? reinterpret_cast<Call*>(g->last)->next : g->first) = reinterpret_cast<uint64_t>(c);
  g->last = reinterpret_cast<uint64_t>(c);
}

void close_group(Group* g) {
  each<Call>(g->first, [](Call* c) {
    if (c->making && c->making->made && c->making->made->stage == kPlanned)  // NCCL never made it
      drop_communicator(c->making->made);
    drop(c);
  });
  handles::heap_free(g);
  seam::current_thread()->nccl_group = 0;
}

bool communicates(const Call& c) { return c.making == nullptr && c.type != kNoType; }
bool aborts(const Call& c) { return c.function == fn::kFn_ncclCommAbort; }
bool ends(const Call& c) { return c.function == fn::kFn_ncclCommDestroy || aborts(c); }

// Whether the call destroys a finalized communicator: finalizing was the step that its peers must reach too.
bool only_destroys(const Call& c, std::span<Call* const> before) {
  if (c.function != fn::kFn_ncclCommDestroy) return false;
  const Communicator* const m = communicator(c.comm);
  return (m && m->stage == kFinalized) || std::any_of(before.begin(), before.end(), [&](const Call* other) {
           return other->function == fn::kFn_ncclCommFinalize && other->comm == c.comm;
         });
}

// The record that counts the call; null: not counted.
counting::Record* record_of(const Call& c) {
  Communicator* const m = communicator(c.comm);  // null for a call that joins
  if (!m || shrinks(c) || c.function == fn::kFn_ncclRedOpDestroy) return nullptr;
  const bool sends = c.function == fn::kFn_ncclSend, receives = c.function == fn::kFn_ncclRecv;
  counting::Record* const r = sends || receives ? pair_record(m, c.root, sends) : &m->count;
  return r && r->identity ? r : nullptr;
}

// Calls the library, alone or inside a real group. A new communicator's real handle goes to making->made.
ncclResult_t perform(const Call& c) {
  // The handle of an ended communicator is no address that NCCL may read.
  const bool is_gone = one_abi::is_virtual(one_abi::word_of(c.comm)) && !communicator(c.comm);
  const ncclComm_t comm = is_gone ? nullptr : real_of(c.comm);
  const cudaStream_t stream = one_abi::real(c.stream, one_abi::kind::cudaStream);
  Making* const m = c.making;
  ncclConfig_t* const config = !m              ? nullptr
                               : m->has_config ? &m->config
                                               : const_cast<ncclConfig_t*>(m->strange);
  // NCCL may write there later; without a handle (a split without a color) it is the program's variable.
  ncclComm_t* const into = !m ? nullptr : m->made ? real_place(m->made) : m->into;
  if (c.device >= 0 && one_abi::current_device() != c.device) one_abi::make_current(c.device);
  switch (c.function) {
    case fn::kFn_ncclCommInitRank:
      return CROPDL_NCCL(ncclCommInitRank)(into, m->ranks, real_id(*m->id), m->rank);
    case fn::kFn_ncclCommInitRankConfig:
      return CROPDL_NCCL(ncclCommInitRankConfig)(into, m->ranks, real_id(*m->id), m->rank, config);
    case fn::kFn_ncclCommInitRankScalable: {
      std::vector<ncclUniqueId> ids(static_cast<size_t>(m->ids));
      std::transform(m->id, m->id + m->ids, ids.begin(), real_id);
      return CROPDL_NCCL(ncclCommInitRankScalable)(into, m->ranks, m->rank, m->ids, ids.data(), config);
    }
    case fn::kFn_ncclCommSplit:
      return CROPDL_NCCL(ncclCommSplit)(comm, m->color, m->key, into, config);
    case fn::kFn_ncclCommShrink:
      return CROPDL_NCCL(ncclCommShrink)(comm, m->excluded, m->excluded_ranks, into, config, c.root);
    case fn::kFn_ncclCommFinalize:
      return CROPDL_NCCL(ncclCommFinalize)(comm);
    case fn::kFn_ncclCommDestroy:
      return CROPDL_NCCL(ncclCommDestroy)(comm);
    case fn::kFn_ncclCommAbort:
      return CROPDL_NCCL(ncclCommAbort)(comm);
    case fn::kFn_ncclRedOpDestroy:
      return destroy_operation(c.comm, c.op);
    case fn::kFn_ncclCommWindowRegister:
      return CROPDL_NCCL(ncclCommWindowRegister)(comm, const_cast<void*>(c.send), c.count,
                                                 static_cast<ncclWindow_t*>(c.receive), c.root);
    default:
      return move_data(c, comm, stream);
  }
}

// After success: updates state and the program's variables.
void finish(const Call& c, ncclResult_t result) {
  Communicator* const m = communicator(c.comm);
  if (Making* const making = c.making) {
    if (joins(c)) joined_with(making->id, making->ids);
    if (making->made) settle(making->made);
    if (c.in_group && joins(c)) return;  // the program already has it
    *making->into = making->made ? one_abi::handle_of<ncclComm_t>(making->made->word) : nullptr;
  } else if (ends(c) && m) {
    end_communicator(m, aborts(c) ? kAborted : m->count.begun);
  } else if (c.function == fn::kFn_ncclCommFinalize && m) {
    m->stage = kFinalized;
  } else if (c.function == fn::kFn_ncclCommWindowRegister) {
    // Without support for windows NCCL makes none, and says so by null. It may do that later.
    if (result == ncclInProgress || *static_cast<ncclWindow_t*>(c.receive))
      one_abi::mark_unsaved(kNccl, c.function, "a window's addresses are read by kernels");
  }
}

// Runs the calls. They have been announced, if they must be.
ncclResult_t execute(std::span<Call* const> calls, bool grouped) {
  ncclResult_t result = ncclSuccess;
  bool makes = false;
  for (const Call* c : calls) {
    makes = makes || c->making;
    if (!prepare(*c)) result = ncclSystemError;
  }
  if (result == ncclSuccess) {
    const int device = makes ? one_abi::current_device() : -1;
    if (grouped) CROPDL_NCCL(ncclGroupStart)();
    for (const Call* c : calls) {
      const ncclResult_t r = perform(*c);
      if (r != ncclSuccess && went_on(result)) result = r;
    }
    if (grouped) {
      const ncclResult_t r = CROPDL_NCCL(ncclGroupEnd)();
      if (r != ncclSuccess && went_on(result)) result = r;
    }
    if (makes && device >= 0) one_abi::make_current(device);
  }
  for (const Call* c : calls) {
    if (went_on(result))
      finish(*c, result);
    else
      take_back(*c);
  }
  return result;
}

ncclResult_t run_counted(std::span<Call* const> calls, bool grouped) {
  std::vector<counting::Record*> launched;  // one for each call launched now
  std::vector<std::pair<cudaGraph_t, counting::Part>> captured;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call* const c = calls[i];
    counting::Record* const r = only_destroys(*c, calls.first(i)) ? nullptr : record_of(*c);
    if (!r) continue;
    if (cudaGraph_t graph = communicates(*c) ? graph_capturing(c->stream) : nullptr)
      captured.push_back({graph, {r, 1}});
    else
      launched.push_back(r);
  }
  std::ranges::sort(launched);
  std::vector<counting::Part> parts;
  for (counting::Record* r : launched)
    if (!parts.empty() && parts.back().record == r)
      ++parts.back().times;
    else
      parts.push_back({r, 1});
  const bool announced = !parts.empty();
  if (announced && !counting::begin_parts(parts, seam::kLibraryNccl)) return kAgain;
  const unsigned makes = calls.front()->making ? boundaries::kMakesObjects : 0;
  for (const counting::Part& p : parts)
    boundaries::note(boundaries::call_of(seam::kLibraryNccl, calls.front()->function | makes), p.times,
                     p.record->identity, p.record->begun, true);
  const ncclResult_t r = execute(calls, grouped);
  if (went_on(r))
    for (const auto& [graph, part] : captured) note_captured(graph, part);
  else
    counting::undo(parts);
  if (announced) counting::end();
  return r;
}

ncclResult_t run(std::span<Call* const> calls, bool grouped, Group* group) {
  // Joins by an id, and shrinks, which leave members out: no communicator's count covers these.
  std::vector<Call*> meet, rest;
  for (Call* c : calls) (joins(*c) || shrinks(*c) ? meet : rest).push_back(c);
  ncclResult_t first = ncclSuccess;
  if (!meet.empty()) {
    if (!counting::begin_meeting(identity_of_made(*meet.front()))) return kAgain;
    first = execute(meet, grouped);
    counting::end();
    if (!went_on(first) || rest.empty()) return first;
    if (group) {  // done, even if the rest must be called again
      group->result = first;
      group->first = group->last = 0;
      for (Call* c : rest) append(group, c);
      for (Call* c : meet) drop(c);
    }
  }
  const ncclResult_t then = run_counted(rest, grouped);
  return then == ncclSuccess ? first : then;
}

// Whether NCCL would refuse the call itself, which makes its group fail.
bool is_wrong(const Call& c) {
  if (c.making && (!c.making->into || c.making->strange)) return true;
  if (joins(c)) return c.making->ranks < 1 || c.making->rank < 0 || c.making->rank >= c.making->ranks;
  const Communicator* const m = communicator(c.comm);
  if (!m || m->stage == kPlanned) return true;
  if (!communicates(c)) return false;
  const bool rooted = c.function != fn::kFn_ncclAllReduce && c.function != fn::kFn_ncclReduceScatter &&
                      c.function != fn::kFn_ncclAllGather && c.function != fn::kFn_ncclAlltoAll;
  const auto op = static_cast<uint32_t>(c.op);
  return c.type < 0 || c.type >= ncclNumTypes || (rooted && (c.root < 0 || c.root >= m->size)) ||
         (op >= ncclNumOps && (op & 0xff00'0000) != one_abi::kSmallTag);
}

}  // namespace

ncclResult_t submit(const Call& call) {
  Group* const g = group_of_thread();
  if (is_wrong(call)) {  // NCCL gives the error
    const ncclResult_t r = perform(call);
    give_back(call.making);
    if (g && r != ncclSuccess) g->result = r;
    return r;
  }
  if (!g) {
    Call alone = call;
    Call* const one[] = {&alone};
    const ncclResult_t r = run(one, false, nullptr);
    give_back(call.making);
    return r;
  }
  void* const room = handles::heap_allocate(sizeof(Call));
  if (!room) return ncclSystemError;
  auto* const kept = new (room) Call(call);
  kept->in_group = 1;
  if (joins(*kept)) {  // NCCL, too, writes the handle during the call
    if (!prepare(*kept)) {
      drop(kept);
      return ncclSystemError;
    }
    kept->making->made->stage = kPlanned;
    *kept->making->into = one_abi::handle_of<ncclComm_t>(kept->making->made->word);
  }
  append(g, kept);
  return ncclSuccess;
}

extern "C" {

ncclResult_t lower_ncclGroupStart() {
  one_abi::Call begins;
  if (Group* const g = group_of_thread()) {
    ++g->depth;
    return ncclSuccess;
  }
  auto* g = static_cast<Group*>(handles::heap_allocate(sizeof(Group)));
  if (!g) return ncclSystemError;
  g->depth = 1;
  seam::current_thread()->nccl_group = reinterpret_cast<uint64_t>(g);
  return ncclSuccess;
}

ncclResult_t lower_ncclGroupEnd() {
  one_abi::Call begins;
  Group* const g = group_of_thread();
  if (!g) return CROPDL_NCCL(ncclGroupEnd)();  // NCCL gives the error
  if (g->depth > 1) {
    --g->depth;
    return ncclSuccess;
  }
  auto r = static_cast<ncclResult_t>(g->result);
  if (went_on(r)) {
    std::vector<Call*> calls;
    each<Call>(g->first, [&](Call* c) { calls.push_back(c); });
    if (!calls.empty())
      if (const ncclResult_t now = run(calls, true, g); now != ncclSuccess) r = now;
    if (r == kAgain) return r;
  }
  close_group(g);
  return r;
}

// Launches nothing.
ncclResult_t lower_ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  one_abi::Call begins;
  Group* const g = group_of_thread();
  if (!g) return CROPDL_NCCL(ncclGroupSimulateEnd)(info);
  if (--g->depth != 0) return ncclSuccess;
  CROPDL_NCCL(ncclGroupStart)();
  each<Call>(g->first, [](const Call* c) {
    if (communicates(*c)) perform(*c);
  });
  const ncclResult_t r = CROPDL_NCCL(ncclGroupSimulateEnd)(info);
  close_group(g);
  return r;
}

}  // extern "C"
}  // namespace cropdl::cuda::nccl
