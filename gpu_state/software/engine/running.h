// A grid, its blocks and their warps while they run. A block belongs to one processor's thread at a time (it
// may be put aside and go on in another); a grid to all of them: only what is atomic or behind its mutex is
// shared.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu_state/software/engine/launch.h"
#include "gpu_state/software/engine/routine.h"
#include "gpu_state/software/engine/warp.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::engine {

class Block;

// Generic addresses that are not the host's own: above all that a process can map.
constexpr int kWindowShift = 48;
enum class Window : uint64_t {
  kHost = 0,
  kShared = 1,
  kLocal = 2,
  kParameters = 3,
  kWorkspace = 4,
  kFunction = 5
};
constexpr uint64_t base_of(Window window) { return static_cast<uint64_t>(window) << kWindowShift; }

struct Grid {
  const Launch* launch = nullptr;
  const Kernel* kernel = nullptr;
  uint64_t number = 0;  // %gridid, of the process
  uint64_t blocks = 0;
  uint32_t threads = 0, warps = 0;  // per block
  uint32_t shared_bytes = 0, dynamic_at = 0;
  uint32_t local_bytes = 0;  // per thread
  int multiprocessors = 1;
  bool cooperative = false;
  alignas(64) uint32_t workspace[16] = {};  // what grid.sync() counts in: %envreg1 and 2 point to it
  std::atomic<bool> stop{false};            // a fault: no warp goes on
  std::mutex mutex;
  Outcome outcome;                                    // behind mutex; the first fault
  std::vector<std::shared_ptr<const Kernel>> called;  // behind mutex: other modules' functions
  void fail(CUresult error, std::string text);
};

// One call of a routine by some lanes: their registers. Lanes that make the same call from the same frame
// share one, so that they can meet again.
struct Frame {
  std::byte* registers = nullptr;
  size_t capacity = 0;
  const Routine* routine = nullptr;
  Frame* parent = nullptr;
  const Instruction* call = nullptr;  // the parent's instruction
  const CallSite* site = nullptr;
  uint32_t depth = 0;
  uint32_t lanes = 0;  // that are in it or in what it called
  uint32_t local_base = 0;
};

enum class State : uint8_t { kReady, kBarrier, kCollective };

// Lanes that are at the same instruction of the same frame.
struct Group {
  uint32_t mask = 0;
  State state = State::kReady;
  bool held = false;    // was split off at random: not joined before it ran
  uint8_t barrier = 0;  // kBarrier: which
  uint32_t need = 0;    // kCollective: the mask that was named
  const Instruction* at = nullptr;
  Frame* frame = nullptr;
  uint64_t turn = 0;  // when it last ran, in the warp's count
};

// Why a warp stopped running for now.
enum class Pause : uint8_t { kQuantum, kSpinning, kWaiting, kDone };

class WarpRun : public Warp {
 public:
  WarpRun() = default;
  WarpRun(const WarpRun&) = delete;
  ~WarpRun();
  void begin(Block* block, uint32_t index, uint32_t threads);
  Pause run(int64_t& budget);  // in jumps back; with a seed, instructions

  // Of the instruction that runs: a fault of a lane. The loop sees `attention` and ends the grid.
  void fault(uint32_t lane, CUresult error, uint64_t address, const char* what);
  // A fault of the grid that names this warp's place.
  void fail(const Instruction* at, uint32_t lane, CUresult error, const std::string& what);
  std::string where(const Instruction* at, uint32_t lane) const;

  bool ready() const;
  // kBarrier groups of barrier n go on.
  void release(uint32_t barrier, uint32_t popc, bool all, bool any);

  Block* block = nullptr;
  uint32_t index = 0;
  uint32_t alive = 0;  // lanes that have not exited
  uint32_t exists = 0;
  std::array<Group, kLanes> groups;
  uint32_t count = 0;
  Frame* current = nullptr;  // of the group that runs
  uint32_t thread[3][kLanes];
  // What memory instructions need, here and not in the block so that it is one load away.
  std::byte* shared = nullptr;
  std::byte* local = nullptr;
  const std::byte* parameters = nullptr;
  const MemoryView* memory = nullptr;
  uint32_t shared_bytes = 0, local_bytes = 0, parameter_bytes = 0;
  uint32_t polls = 0;  // reads that a waiting loop consists of, since the warp's turn began
  // A read that a waiting loop may consist of: counted if the same lanes saw the same there not long ago.
  // `seen` stands for all that they saw and compared it with, `address` is the first lane's.
  void looked(const Instruction& instruction, uint32_t active, uint64_t address, uint64_t seen);
  bool attention = false;
  struct {
    uint32_t lane;
    CUresult error;
    uint64_t address;
    const char* what;
  } trouble{};
  struct Copy {  // cp.async that was not waited for
    std::byte* to;
    uint64_t from;
    uint32_t bytes, zeros;
    uint8_t lane;
    uint32_t group;
  };
  std::vector<Copy> copies;
  std::array<uint32_t, kLanes> copy_group{};  // of each lane: the number of the open one
  // Of those lanes, but for the last `open` groups and the one that is not closed; kNoGroup: all.
  static constexpr uint32_t kNoGroup = ~0u;
  void perform_copies(uint32_t lanes, uint32_t open);

 private:
  template <bool kRandom>
  Pause loop(int64_t& budget);
  template <bool kRandom>
  bool step(Group& group, int64_t& budget, uint32_t fuel);
  Group* pick();
  void join();
  void part(Group& group);
  void remove(uint32_t which);
  Group& add(uint32_t mask, const Instruction* at, Frame* frame);
  void exit_lanes(Group& group, uint32_t lanes);
  bool call(Group& group, const Instruction* at, uint32_t active);
  bool enter(Group& group, const Instruction* at, const CallSite& site, const Routine& routine);
  void leave(Group& group);
  void system_call(const Instruction* at, const CallSite& site, uint32_t lanes);
  bool arrive(Group& group, const Instruction* at, uint32_t active);
  bool meet(Group& group, const Instruction* at, uint32_t active);
  uint32_t named(const CollectiveUse& use, uint32_t active);  // the mask that all active lanes name, or 0
  bool complete(uint32_t need, const CollectiveUse& use);
  void perform(Group** with, uint32_t count);
  void select(Frame* of) {
    current = of;
    frame = of->registers;
    constants = of->routine->constants;
  }
  Frame* make_frame(const Routine& routine);
  void drop_frame(Frame* frame);

  uint64_t turns_ = 0;
  int forced_lane_ = -1;  // the group with that lane goes on, for so many choices
  int forced_choices_ = 0;
  int choices_ = 0;  // since another than the one furthest behind had its turn
  int orderly_ = 0;  // so many choices are not random: activemask lets others come
  int patience_ = 1024;
  struct Look {
    const Instruction* at;  // only compared: what it pointed to may be gone
    uint64_t address, seen;
    uint32_t lanes;
  };
  std::array<Look, 8> looks_{};  // several: who waits may look at more than one place in turn
  uint32_t next_look_ = 0;
  uint64_t called_at_ = 0;  // the last call through a pointer to what the kernel does not know
  const Kernel* called_ = nullptr;
  std::vector<std::unique_ptr<Frame>> frames_;  // live
  std::vector<std::unique_ptr<Frame>> spare_;
  std::vector<std::byte> local_storage_;
};

struct BarrierState {
  uint32_t threads = 0;   // that wait or have arrived
  uint32_t expected = 0;  // 0: all
  bool in_use = false, arrives = false;
  uint32_t popc = 0;
  bool all = true, any = false;
  std::array<uint32_t, 32> arrived{};  // per warp
};

enum class SliceEnd : uint8_t { kDone, kQuantum, kSpinning };

class Block {
 public:
  ~Block();
  void begin(Grid* grid, uint64_t number, uint64_t who, uint32_t processor);
  SliceEnd run(int64_t budget);
  void arrived(WarpRun& warp, uint32_t lanes, uint32_t number, bool arrive_only, uint32_t expected,
               const uint32_t* predicate);
  bool has_arrived(const WarpRun& warp, uint32_t lanes, uint32_t number) const {
    return (barriers_[number].arrived[warp.index] & lanes) != 0;
  }
  uint32_t expected_of(uint32_t number) const {
    return barriers_[number].in_use ? barriers_[number].expected : ~0u;
  }
  void exited(uint32_t lanes);

  Grid* grid = nullptr;
  uint64_t number = 0;
  std::array<uint32_t, 3> at{};
  uint32_t processor = 0;  // %smid
  std::byte* shared = nullptr;
  uint32_t live = 0;  // threads that have not exited
  bool random = false;
  settings::Chooser chooser{0};
  uint32_t spins = 0;  // slices in a row that ended without progress

 private:
  void check(uint32_t number);
  std::string waiting() const;

  std::vector<std::unique_ptr<WarpRun>> warps_;
  uint32_t used_ = 0;  // of warps_
  uint32_t next_ = 0;
  std::array<BarrierState, 16> barriers_;
  size_t shared_capacity_ = 0;
};

}  // namespace cropdl::engine
