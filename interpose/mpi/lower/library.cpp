// MPI as a library of the lower half; interpose/libraries/library.h says who calls each function and when.
#include "interpose/libraries/libraries.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/caught.h"
#include "base/format.h"
#include "base/time.h"
#include "interpose/counting/agreement.h"
#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/lifecycle.h"
#include "interpose/mpi/lower/message_drain.h"
#include "interpose/mpi/lower/state.h"
#include "interpose/seam/state.h"

// The generated table (lower_functions.h, which brings names of the seam into the global namespace).
extern void* const lower_table[cropdl::seam::kFnCount];

namespace cropdl::mpi {
namespace {

#if defined(OPEN_MPI)
constexpr const char* kName = "openmpi";
constexpr unsigned kOwnBit = seam::kIn_openmpi;
#else
constexpr const char* kName = "mpich";
constexpr unsigned kOwnBit = seam::kIn_mpich;
#endif

std::string mpi_error(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown error";
  return {text, static_cast<size_t>(length)};
}

class Runtime final : public libraries::Library {
 public:
  Runtime() { fill_predefined(); }

  seam::LibraryNumber number() override { return seam::kLibraryMpi; }
  std::vector<Table> seam_tables() override {
    return {{number(), lower_table, seam::kFnCount, kName, seam::kFunctionNames}};
  }
  const char* implementation() override { return kName; }
  std::string version() override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);                                   // allowed before MPI_Init
    const std::string all(text, strnlen(text, static_cast<size_t>(length)));  // Open MPI counts the final 0
    std::string first = all.substr(0, all.find('\n'));
    std::replace(first.begin(), first.end(), '\t', ' ');  // MPICH's
    return first;
  }

  Status format() override {
    tables = handles::Tables::format(seam::kLibraryMpi, seam::kKinds, seam::kFirstDynamic, kCapacity);
    state = static_cast<State*>(handles::heap_allocate(sizeof(State)));
    void* requests = handles::heap_reserve(kCapacity * sizeof(RequestRecord));
    auto* world = static_cast<CommRecord*>(handles::heap_allocate(sizeof(CommRecord)));
    if (!tables || !state || !requests || !world) return Error{"the persistent heap is too small"};
    state->version = kStateVersion;
    state->rank = -1;
    state->requests = reinterpret_cast<uint64_t>(requests);
    state->request_top = seam::kFirstDynamic;
    // MPI_Init counts as the world's first collective, so the world's record exists before it.
    world->gid = world->count.identity = kWorldGid;
    state->comms = reinterpret_cast<uint64_t>(world);
    comm_records[seam::kVid_MPI_COMM_WORLD & kIndexMask] = world;
    state->more[0] = reinterpret_cast<uint64_t>(world);
    handles::heap_set_root(seam::kLibraryMpi, handles::kRootState, state);
    return {};
  }

  Status restart() override {
    const char* why = nullptr;
    tables = handles::Tables::restored(seam::kLibraryMpi, &why);
    if (why) return Error{std::string("cannot restart: ") + why};
    state = reinterpret_cast<State*>(handles::heap_root(seam::kLibraryMpi, handles::kRootState));
    if (!state) return Error{"cannot restart: the persistent heap holds no MPI state"};
    if (state->version != kStateVersion)
      return Error{
          "cannot restart: the image was made by another version of CropDL; restart it with that one"};
    for (uint32_t f = 0; f < seam::kFnCount; ++f) {
      if (state->used[f] && !(seam::kFunctionIn[f] & kOwnBit)) {
        return Error{
            "cannot restart under this MPI ({}): the program uses {}, which it does not have; "
            "restart under the MPI the job began with",
            kName, function_name(f)};
      }
    }
    comm_records[seam::kVid_MPI_COMM_WORLD & kIndexMask] = record_at(state->more[0]);
    comm_records[seam::kVid_MPI_COMM_SELF & kIndexMask] = record_at(state->more[1]);
    uint64_t before = 0;
    for (CommRecord* c = record_at(state->comms); c; c = record_at(c->next))
      c->before = std::exchange(before, reinterpret_cast<uint64_t>(c));
    if (!state->initialized || state->finalized) return {};
    return replay();
  }

  bool active() override { return state && state->initialized && !state->finalized; }
  // Functions that one MPI alone has count as well: sessions need no MPI_Init.
  bool met_others() override {
    return state &&
           (state->initialized || std::ranges::any_of(state->used, [](uint8_t u) { return u != 0; }));
  }
  std::optional<Place> place() override {
    return active() ? std::optional(Place{state->rank, state->size}) : std::nullopt;
  }
  std::vector<std::string> functions_of_this_implementation_only() override {
    std::vector<std::string> names;
    for (uint32_t f = 0; f < seam::kFnCount; ++f)
      if (state->used[f]) names.emplace_back(function_name(f));
    return names;
  }

  void add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*)(uint64_t)) override {
    if (!state) return;  // a restart has not restored the MPI yet
    handles::SpinGuard guard(structure_lock);
    for (const CommRecord* c = record_at(state->comms); c; c = record_at(c->next))
      if (c->count.identity) counts.push_back({c->count.identity, c->count.begun});
  }
  void fill_status(coord::RankStatus& status) override {
    if (!state) return;
    for (int r = 0; r < counters(); ++r) status.progress += count(state->sent, r) + count(state->received, r);
    if (status.refusal.empty()) status.refusal = lasting_refusal();
    if (!status.refusal.empty()) return;
    const int64_t now = monotonic_us(), held_since = counting::held_since();
    uint64_t oldest = 0;
    std::string pending = pending_synchronous_send(&oldest);
    if (std::exchange(oldest_pending_, oldest) != oldest) pending_since_ = now;
    if (pending.empty()) return;
    if (held_since != 0 && now - std::max(held_since, pending_since_) < patience_with_synchronous_sends) {
      status.inside.push_back(counting::several_of(number()));  // no cut is made yet
    } else {
      status.refusal = std::move(pending);
    }
  }

  std::vector<coord::PeerCount> sent() override {
    std::vector<coord::PeerCount> all;
    all.reserve(static_cast<size_t>(counters()));
    for (int r = 0; r < counters(); ++r) all.push_back({static_cast<uint32_t>(r), count(state->sent, r)});
    return all;
  }

  std::string refusal() override {
    std::string why = lasting_refusal();
    return !why.empty() || !state ? why : pending_synchronous_send();
  }

  bool drains_early() override { return multiple; }
  void begin_early_drain() override { mpi::begin_early_drain(); }
  void end_early_drain() override { mpi::end_early_drain(); }

  void progress() override {
    const InFloatModes modes(modes_of_collectives);
    progress_once();
  }
  void drive(bool inside) override {
    if (!inside && !may_call_beside_others()) return;
    std::optional<InFloatModes> modes;  // inside, it computes in its own, as natively
    if (!inside) modes.emplace(modes_of_collectives);
    test_synchronous_sends();
    progress_once();
  }

  void begin_drain(std::span<const coord::PeerCount> from) override { mpi::begin_drain(from); }
  bool drain_step() override {
    const InFloatModes modes(modes_of_collectives);
    return !active() || mpi::drain_step();
  }
  std::string early_drain_trouble() override {
    const char* t = mpi::drain_trouble();
    return t ? t : "";
  }
  std::string drain_trouble() override {
    if (std::string t = early_drain_trouble(); !t.empty() || !state) return t;
    return request_trouble();
  }

  Status quiesce() override {
    if (!active()) return {};
    uint32_t maker = 0;
    if (const int code = park_receives(&maker); code != MPI_SUCCESS) {
      return Error{"{}: a pending receive cannot be taken back: {}", function_name(maker), mpi_error(code)};
    }
    give_back_freed_comms();
    state->wtime_at_save = MPI_Wtime() + state->wtime_offset;
    return {};
  }

  void resume() override {
    const int code = post_parked_receives();
    if (code == MPI_SUCCESS) return;
    [[maybe_unused]] const Status said = caught([code] {
      say_of_rank("a pending receive cannot be posted again, and ends with the error: " + mpi_error(code));
    });
  }

  void announce_end() override { leave_hydra(); }

 private:
  uint64_t oldest_pending_ = 0;  // request; 0: none, when the agent looked last
  int64_t pending_since_ = 0;

  // Reasons that do not pass by themselves.
  static std::string lasting_refusal() {
    if (!state) return {};
    if (state->unsaved_function)
      return std::string(function_name(state->unsaved_function - 1)) + ": " + state->unsaved_why;
    if (tables->without_recipe()) {
      handles::SpinGuard guard(structure_lock);
      if (handles::Handle h = tables->first_without_recipe()) return named(tables->slot(h)->maker, h);
    }
    return refusing_request();
  }

  static int counters() { return state && state->initialized ? state->size : 0; }
  static uint64_t count(uint64_t base, int rank) {
    return reinterpret_cast<const volatile uint64_t*>(base)[rank];
  }

  static std::string named(uint32_t maker, handles::Handle h) {
    static constexpr std::pair<Kind, const char*> kNames[] = {
        {Kind::kComm, "a communicator"}, {Kind::kDatatype, "a datatype"}, {Kind::kGroup, "a group"},
        {Kind::kWin, "a window"},        {Kind::kFile, "a file"},         {Kind::kInfo, "an info object"},
        {Kind::kSession, "a session"},
    };
    const auto* found = std::ranges::find(kNames, seam::vid_kind(h), &std::pair<Kind, const char*>::first);
    const char* what = found != std::end(kNames) ? found->second : "an object";
    return formatted("{}: {} is alive that cannot be saved", function_name(maker), what);
  }

  // MPI_Wtime continues where it stopped. If this MPI gives all ranks one clock (MPI_WTIME_IS_GLOBAL), they
  // keep one: the earliest that goes back on no rank.
  static int set_clock() {
    state->wtime_offset = state->wtime_at_save - MPI_Wtime();
    int *is_global = nullptr, known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &is_global, &known);
    if (!known || !*is_global) return MPI_SUCCESS;
    return MPI_Allreduce(MPI_IN_PLACE, &state->wtime_offset, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

  Status replay() {
    const int told = state->provided;
    restore_settings_of_sums();
    restore_program_environment();
    int code = initialize_mpi(state->required);
    if (code != MPI_SUCCESS) return Error{"cannot restart: MPI_Init_thread fails: " + mpi_error(code)};
    if (state->provided < told)
      return Error{
          "cannot restart: the program was told a higher level of thread support (MPI_Init_thread) than this "
          "MPI gives"};
    int rank = -1, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != state->rank || size != state->size) {
      return Error{
          "cannot restart: the image is of rank {} of {}, this process is rank {} of {}; start as "
          "many processes as the job had",
          state->rank, state->size, rank, size};
    }
    // All ranks refuse, or none: a rank that continues would wait for the others.
    code = MPI_Allreduce(MPI_IN_PLACE, &state->largest_tag_told, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) code = set_clock();
    if (code != MPI_SUCCESS) return Error{"cannot restart: MPI_Allreduce fails: " + mpi_error(code)};
    int *largest_tag = nullptr, known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest_tag, &known);
    if (known && static_cast<uint32_t>(*largest_tag) < state->largest_tag_told)
      return Error{
          "cannot restart: under the job's MPI tags went up to {} (MPI_TAG_UB), and under this one ({}) they "
          "go up to {}; restart under the MPI the job began with",
          state->largest_tag_told, kName, *largest_tag};
    if (!ready_to_deliver()) return Error{"cannot restart: MPI_Comm_dup of MPI_COMM_SELF fails"};
    code = remake_comms();
    if (code != MPI_SUCCESS)
      return Error{"cannot restart: a communicator cannot be made again: " + mpi_error(code)};
    for (const auto& [kind, remake] :
         {std::pair{Kind::kInfo, &remake_info}, std::pair{Kind::kGroup, &remake_group},
          std::pair{Kind::kDatatype, &remake_datatype}, std::pair{Kind::kOp, &remake_op}}) {
      for (handles::Handle h : tables->in_order(static_cast<uint32_t>(kind))) {
        code = remake(h);
        if (code == MPI_SUCCESS) continue;
        return Error{"cannot restart: {} fails when it is made again: {}",
                     function_name(tables->slot(h)->maker), mpi_error(code)};
      }
    }
    if (Status equal = compare_datatypes(); !equal) return equal;
    code = remake_persistent_requests();
    if (code != MPI_SUCCESS)
      return Error{"cannot restart: a persistent request cannot be made again: " + mpi_error(code)};
    code = post_receives_of_image();
    if (code != MPI_SUCCESS) return Error{"a pending receive cannot be posted again: " + mpi_error(code)};
    return {};
  }
};

}  // namespace
}  // namespace cropdl::mpi

cropdl::libraries::Library* cropdl::libraries::mpi_library() {
  static Library* const its = new mpi::Runtime;  // never destroyed: the agent's thread may use it to the end
  return its;
}
