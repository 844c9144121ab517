// Communicators and groups. The recipe is membership, and a communicator's topology: a restart makes both
// from the list of world ranks, however the program made them. LH, LH FS base, threads of the program.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "interpose/mpi/lower/counting.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

// The tag of MPI_Comm_create_group. Communicators are re-made one at a time, so one tag is enough.
constexpr int kReplayTag = 17;

MPI_Group world_group = MPI_GROUP_NULL;

CommRecord* new_record() {
  CommRecord* c = static_cast<CommRecord*>(handles::heap_allocate(sizeof(CommRecord)));
  if (!c) return nullptr;
  handles::SpinGuard guard(structure_lock);
  c->next = state->comms;
  if (c->next) record_at(c->next)->before = reinterpret_cast<uint64_t>(c);
  state->comms = reinterpret_cast<uint64_t>(c);
  return c;
}

bool set_members(CommRecord* c, std::span<const uint32_t> ranks) {
  auto* list = static_cast<uint32_t*>(handles::heap_allocate(ranks.size_bytes()));
  if (!list) return false;
  std::copy(ranks.begin(), ranks.end(), list);
  c->members = reinterpret_cast<uint64_t>(list);
  c->size = static_cast<uint32_t>(ranks.size());
  for (uint32_t i = 0; i < c->size; ++i)
    if (ranks[i] == static_cast<uint32_t>(state->rank)) c->rank = i;
  return true;
}

// Drops a listed record that nothing names; may be nullptr.
void drop_record(CommRecord* c) {
  if (!c) return;
  unlist_record(c);
  handles::heap_free(reinterpret_cast<void*>(c->members));
  handles::heap_free(c);
}

// The record keeps the members, the recipe the topology.
int list_comm(MPI_Comm made, uint32_t maker, uint64_t gid, std::span<const uint32_t> ranks,
              std::span<const int> topology, Vid* vid) {
  CommRecord* c = new_record();
  *vid = kNullComm;
  if (c && set_members(c, ranks))
    *vid = new_object(Kind::kComm, to_word(made), maker, {}, topology.data(), topology.size_bytes());
  else
    say_heap_is_full(maker);
  if (!seam::vid_index(*vid)) {
    drop_record(c);
    // The other members have it, and will go on with it.
    mark_unsaved(maker, "the persistent heap is full");
    return seam::kErrNoMem;
  }
  c->gid = gid;
  c->count.identity = ranks.size() > 1 ? gid : 0;
  tables->slot(*vid)->owner[0] = reinterpret_cast<uint64_t>(c);
  comm_records[*vid & kIndexMask] = c;
  return seam::kSuccess;
}

// The upper half is the leader, the lower one how many it has led; beyond that, another leader has the same.
uint64_t own_gid(uint32_t maker) {
  const uint64_t serial = __atomic_add_fetch(&state->comm_serial, 1, __ATOMIC_RELAXED);
  if (serial >> 32 != 0)
    mark_unsaved(maker, "this rank has been the first one in more than four billion communicators");
  return ((static_cast<uint64_t>(state->rank) + 1) << 32) + serial;
}

// The identity of a duplicate made without communication, from what all members know: the parent, and how
// many collectives have begun on it. own_gid never sets the bit kDuplicate.
constexpr uint64_t kDuplicate = 1ull << 55;
uint64_t gid_of_duplicate(const CommRecord* parent) {
  if (!parent->count.identity) return own_gid(seam::kFn_MPI_Comm_idup);  // no other members
  uint64_t mixed = (parent->gid ^ parent->count.begun * 0xd6e8feb86659fd93u) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
  return kDuplicate | (mixed >> 9);
}

int make_group(std::span<const uint32_t> ranks, MPI_Group* made) {
  return MPI_Group_incl(world_group, static_cast<int>(ranks.size()),
                        reinterpret_cast<const int*>(ranks.data()), made);
}

// World ranks of a group. Returns false if a member is not in MPI_COMM_WORLD.
bool world_ranks(MPI_Group g, std::vector<uint32_t>* ranks) {
  if (world_group == MPI_GROUP_NULL) return false;  // a group of a session, without MPI_Init
  int n = 0;
  if (MPI_Group_size(g, &n) != MPI_SUCCESS) return false;
  std::vector<int> own(static_cast<size_t>(n)), world(static_cast<size_t>(n));
  std::iota(own.begin(), own.end(), 0);
  if (MPI_Group_translate_ranks(g, n, own.data(), world_group, world.data()) != MPI_SUCCESS) return false;
  const auto outside = std::ranges::find(world, MPI_UNDEFINED);
  ranks->assign(world.begin(), outside);
  return outside == world.end();
}

// Returns false for an inter-communicator, or if a member is not in MPI_COMM_WORLD.
bool members_of(MPI_Comm comm, std::vector<uint32_t>* ranks) {
  MPI_Group g = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &g);
  int inter = 0;
  MPI_Comm_test_inter(comm, &inter);
  const bool are_known = !inter && world_ranks(g, ranks);
  MPI_Group_free(&g);
  return are_known;
}

bool is_listed(uint64_t gid) {
  handles::SpinGuard guard(structure_lock);
  for (const CommRecord* c = record_at(state->comms); c; c = record_at(c->next))
    if (c->gid == gid) return true;
  return false;
}

}  // namespace

Vid new_group(MPI_Group made, uint32_t maker) {
  std::vector<uint32_t> ranks;
  if (!world_ranks(made, &ranks)) return new_object(Kind::kGroup, to_word(made), maker);
  return new_object(Kind::kGroup, to_word(made), maker, {}, ranks.data(), ranks.size() * sizeof(uint32_t));
}

int remake_group(Vid vid) {
  MPI_Group made = MPI_GROUP_NULL;
  const int code = make_group(recipe_of<uint32_t>(vid), &made);
  rebind_handle(vid, to_word(made));
  return code;
}

bool register_world_and_self() {
  const Vid world = seam::kVid_MPI_COMM_WORLD, self = seam::kVid_MPI_COMM_SELF;
  CommRecord* w = comm_record(world);
  if (!w->members) {
    std::vector<uint32_t> all(static_cast<size_t>(state->size));
    std::iota(all.begin(), all.end(), 0);
    CommRecord* s = new_record();
    const uint32_t own[] = {static_cast<uint32_t>(state->rank)};
    if (!s || !set_members(s, own) || !set_members(w, all)) return false;
    s->gid = (static_cast<uint64_t>(state->rank) + 1) << 32;
    comm_records[self & kIndexMask] = s;
    state->more[1] = reinterpret_cast<uint64_t>(s);
  }
  for (auto [vid, real] : {std::pair{world, MPI_COMM_WORLD}, std::pair{self, MPI_COMM_SELF}}) {
    MPI_Comm_set_errhandler(real, MPI_ERRORS_RETURN);
    const CommRecord* c = comm_record(vid);
    if (c->named != 0 || c->name[0] != 0) MPI_Comm_set_name(real, c->name);  // after a restart
  }
  MPI_Comm_group(MPI_COMM_WORLD, &world_group);
  return true;
}

int make_from(Vid parent, uint32_t maker, MPI_Comm made, int code, Vid* vid) {
  *vid = kNullComm;
  if (code != MPI_SUCCESS) return error_out(code);
  if (made == MPI_COMM_NULL) return seam::kSuccess;
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  const CommRecord* c = comm_record(parent);
  std::vector<uint32_t> ranks;
  if (!c || !c->gid || !members_of(made, &ranks)) {
    *vid = adopt(Kind::kComm, to_word(made), maker);
    return seam::kSuccess;
  }
  // The identity is the leader's world rank and how many communicators it has led: unique, without agreement
  // on earlier calls of the parent's members (MPI_Comm_create_group has only some of them).
  uint64_t gid = ranks[0] == static_cast<uint32_t>(state->rank) ? own_gid(maker) : 0;
  code = MPI_Bcast(&gid, 1, MPI_UINT64_T, 0, made);
  std::vector<int> topology;
  if (code == MPI_SUCCESS) code = read_topology(made, &topology);
  if (code != MPI_SUCCESS) return error_out(code);
  return list_comm(made, maker, gid, ranks, topology, vid);
}

void unlist_record(CommRecord* c) {
  handles::SpinGuard guard(structure_lock);
  CommRecord *before = record_at(c->before), *next = record_at(c->next);
  (before ? before->next : state->comms) = c->next;
  if (next) next->before = c->before;
}

int remake_comms() {
  if (!register_world_and_self()) return MPI_ERR_NO_MEM;
  // Ascending gids, on all ranks: the members of the least communicator not yet made wait for no other.
  struct Again {
    CommRecord* record;
    handles::Handle handle;  // 0: freed by the program, but not on all ranks
    std::span<const int> topology;
  };
  std::vector<Again> all;
  std::vector<uint64_t> alive;
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kComm))) {
    all.push_back({record_at(tables->slot(h)->owner[0]), h, recipe_of<int>(h)});
    alive.push_back(all.back().record->gid);
  }
  std::vector<CommRecord*> freed;
  if (const int code = freed_comms_to_remake(alive, &freed); code != MPI_SUCCESS) return code;
  for (CommRecord* c : freed)
    all.push_back({c, 0, {reinterpret_cast<const int*>(c->topology), c->topology_numbers}});
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.record->gid < b.record->gid; });
  for (const auto& [c, handle, topology] : all) {
    MPI_Group g = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    int code = make_group(c->ranks(), &g);
    if (code == MPI_SUCCESS) code = MPI_Comm_create_group(MPI_COMM_WORLD, g, kReplayTag, &made);
    if (code != MPI_SUCCESS) return code;
    MPI_Group_free(&g);
    code = lay_topology(topology, &made);
    if (code != MPI_SUCCESS) return code;
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    if (c->name[0]) MPI_Comm_set_name(made, c->name);
    if (!handle) {
      code = leave_again(c, made);
      if (code != MPI_SUCCESS) return code;
      continue;
    }
    rebind_handle(handle, to_word(made));
    comm_records[handle & kIndexMask] = c;
  }
  return MPI_SUCCESS;
}

// Answers a call that has freed the object with result `code`.
static int answer_freed(int code, Vid* vid, Vid null) {
  if (code != MPI_SUCCESS) return error_out(code);
  forget_object(*vid);
  *vid = null;
  return seam::kSuccess;
}

extern "C" {

int lower_MPI_Comm_idup(Vid comm, Vid* newcomm, Vid* request) {
  *newcomm = kNullComm;
  *request = kNullRequest;
  const AdoptedRequestPlace place;
  if (!place) return seam::kErrIntern;
  if (!begin_collective(comm, seam::kFn_MPI_Comm_idup)) return seam::kAgain;
  // Members, topology and identity are known before the MPI has made it; until then its request refuses cuts.
  const CommRecord* parent = comm_record(comm);
  const uint64_t gid = parent && parent->gid ? gid_of_duplicate(parent) : 0;
  int result = seam::kSuccess;
  if (gid && !is_listed(gid)) {
    result = list_comm(MPI_COMM_NULL, seam::kFn_MPI_Comm_idup, gid, parent->ranks(),
                       without_hint(recipe_of<int>(comm)), newcomm);
  } else {
    *newcomm = new_object(Kind::kComm, 0, seam::kFn_MPI_Comm_idup);
    if (!seam::vid_index(*newcomm)) result = seam::kErrIntern;
  }
  if (result == seam::kSuccess) {
    // The MPI writes the handle when the request completes, so it gets the address of the final entry.
    auto* to = reinterpret_cast<MPI_Comm*>(&real_word(*newcomm));
    MPI_Request real = MPI_REQUEST_NULL;
    const int code = MPI_Comm_idup(mpi::comm(comm), to, &real);
    if (code == MPI_SUCCESS) {
      *request = adopt_request(real, seam::kFn_MPI_Comm_idup);
      if (seam::vid_index(*request)) ++duplicates_under_way;
    } else {
      result = error_out(code);
      CommRecord* unused = comm_record(*newcomm);
      forget_object(*newcomm);
      drop_record(unused);
    }
  }
  end_collective();
  return result;
}

int lower_MPI_Comm_create_group(Vid comm, Vid group, int tag, Vid* newcomm) {
  // All members of the group compute the same number, whatever communicators they share.
  std::vector<uint32_t> ranks;
  world_ranks(mpi::group(group), &ranks);
  uint64_t meeting =
      static_cast<uint64_t>(seam::kFn_MPI_Comm_create_group) << 32 | static_cast<uint32_t>(tag);
  for (uint32_t r : ranks) meeting = (meeting ^ r) * 0x9e3779b97f4a7c15u;
  if (!begin_meeting(meeting >> 1)) return seam::kAgain;
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(mpi::comm(comm), mpi::group(group), tag_in(tag), &made);
  const int r = make_from(comm, seam::kFn_MPI_Comm_create_group, made, code, newcomm);
  end_collective();
  return r;
}

// Neither counted nor held: a member may free much later than the others (deferred_comm_free.cpp).
int lower_MPI_Comm_free(Vid* comm) {
  CommFree free(*comm, seam::kFn_MPI_Comm_free);
  int code = free.prepare();
  if (code == MPI_SUCCESS) code = free.run();
  return answer_freed(code, comm, kNullComm);
}

int lower_MPI_Comm_disconnect(Vid* comm) {
  // Before the call is counted, and before the other members leave the barrier: they would not repeat it.
  CommFree free(*comm, seam::kFn_MPI_Comm_disconnect);
  if (const int code = free.prepare(); code != MPI_SUCCESS) return error_out(code);
  if (!begin_collective(*comm, seam::kFn_MPI_Comm_disconnect)) return seam::kAgain;
  MPI_Comm real = mpi::comm(*comm);
  const CommRecord* c = comm_record(*comm);
  // Processes of one MPI_COMM_WORLD stay connected: this is MPI_Comm_free, in Open MPI after a barrier.
  int code = MPI_SUCCESS;
#if defined(OPEN_MPI)
  if (c && c->count.identity) code = MPI_Barrier(real);
#endif
  if (code == MPI_SUCCESS) code = c && c->gid ? free.run() : MPI_Comm_disconnect(&real);
  end_collective();
  return answer_freed(code, comm, kNullComm);
}

int lower_MPI_Comm_set_name(Vid comm, const char* name) {
  const int code = MPI_Comm_set_name(mpi::comm(comm), name);
  if (CommRecord* c = code == MPI_SUCCESS ? comm_record(comm) : nullptr) {
    snprintf(c->name, sizeof c->name, "%s", name);
    c->named = 1;
  }
  return error_out(code);
}

int lower_MPI_Group_free(Vid* g) {
  if (!seam::vid_index(*g)) return seam::kErrGroup;
  MPI_Group real = group(*g);
  return answer_freed(is_predefined(*g) ? MPI_SUCCESS : MPI_Group_free(&real), g, kNullGroup);
}

}  // extern "C"

}  // namespace cropdl::mpi
