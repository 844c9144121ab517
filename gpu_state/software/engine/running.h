// A running grid, its blocks and their warps. A block belongs to one processor's thread at a time (it may be
// set aside and continue on another). A grid belongs to all of them: only its atomic members and those behind
// its mutex are shared.
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

// Generic addresses that are not host addresses: higher than any address that a process can map.
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
  uint64_t number = 0;  // %gridid, unique in the process
  uint64_t blocks = 0;
  uint32_t threads = 0, warps = 0;  // per block
  uint32_t shared_bytes = 0, dynamic_at = 0;
  uint32_t local_bytes = 0;  // per thread
  int multiprocessors = 1;
  bool cooperative = false;
  // the counters of grid.sync(), to which %envreg1 and %envreg2 point
  alignas(64) uint32_t workspace[16] = {};
  std::atomic<bool> stop{false};  // after a fault: no warp continues
  std::mutex mutex;
  Outcome outcome;                                    // guarded by mutex; the first fault
  std::vector<std::shared_ptr<const Kernel>> called;  // guarded by mutex: other modules' functions
  void fail(CUresult error, std::string text);
};

// One call of a routine by some lanes: their registers. Lanes that make the same call from the same frame
// share one frame, so that they can reconverge.
struct Frame {
  std::byte* registers = nullptr;
  size_t capacity = 0;
  const Routine* routine = nullptr;
  Frame* parent = nullptr;
  const Instruction* call = nullptr;  // the parent's instruction
  const CallSite* site = nullptr;
  uint32_t depth = 0;
  uint32_t lanes = 0;  // in this call or in one that it made
  uint32_t local_base = 0;
};

enum class State : uint8_t { kReady, kBarrier, kCollective };

// Lanes at the same instruction of the same frame.
struct Group {
  uint32_t mask = 0;
  State state = State::kReady;
  bool held = false;    // split off at random: not joined before it has run
  uint8_t barrier = 0;  // kBarrier: its number
  uint32_t need = 0;    // kCollective: the named mask
  const Instruction* at = nullptr;
  Frame* frame = nullptr;
  uint64_t turn = 0;  // its last run, in the warp's count of turns
};

// Why a warp paused.
enum class Pause : uint8_t { kQuantum, kSpinning, kWaiting, kDone };

class WarpRun : public Warp {
 public:
  WarpRun() = default;
  WarpRun(const WarpRun&) = delete;
  ~WarpRun();
  void begin(Block* block, uint32_t index, uint32_t threads);
  Pause run(int64_t& budget);  // in backward jumps; with a seed, in instructions

  // Records a fault of a lane in the current instruction. The loop sees `attention` and ends the grid.
  void fault(uint32_t lane, CUresult error, uint64_t address, const char* what);
  // Records a fault of the grid, with this warp's location.
  void fail(const Instruction* at, uint32_t lane, CUresult error, const std::string& what);
  std::string where(const Instruction* at, uint32_t lane) const;

  bool ready() const;
  // Lets the groups that wait at that barrier continue.
  void release(uint32_t barrier, uint32_t popc, bool all, bool any);

  Block* block = nullptr;
  uint32_t index = 0;
  uint32_t alive = 0;  // lanes that have not exited
  uint32_t exists = 0;
  std::array<Group, kLanes> groups;
  uint32_t count = 0;
  Frame* current = nullptr;  // of the running group
  uint32_t thread[3][kLanes];
  // For memory instructions; kept here instead of in the block, to save a load.
  std::byte* shared = nullptr;
  std::byte* local = nullptr;
  const std::byte* parameters = nullptr;
  const MemoryView* memory = nullptr;
  uint32_t shared_bytes = 0, local_bytes = 0, parameter_bytes = 0;
  uint32_t polls = 0;  // reads of a waiting loop since the warp's turn began
  // Counts a read that may belong to a waiting loop, if the same lanes recently saw the same value at this
  // instruction. `seen` stands for all values that they saw and compared, `address` is the first lane's.
  void looked(const Instruction& instruction, uint32_t active, uint64_t address, uint64_t seen);
  bool attention = false;
  struct {
    uint32_t lane;
    CUresult error;
    uint64_t address;
    const char* what;
  } trouble{};
  struct Copy {  // a cp.async that has not been waited for
    std::byte* to;
    uint64_t from;
    uint32_t bytes, zeros;
    uint8_t lane;
    uint32_t group;
  };
  std::vector<Copy> copies;
  std::array<uint32_t, kLanes> copy_group{};  // per lane: the number of the open group
  // Performs the copies of those lanes, except the last `open` groups and the one that is not closed;
  // kNoGroup: all.
  static constexpr uint32_t kNoGroup = ~0u;
  void perform_copies(uint32_t lanes, uint32_t open);

 private:
  template <bool kRandom>
  Pause loop(int64_t& budget);
  template <bool kRandom>
  bool step(Group& group, int64_t& budget, uint32_t fuel);
  // Parts of step().
  const Instruction* next_meeting(const Instruction* ip) const;
  bool branch_by_table(Group& group, const Instruction* ip, uint32_t active);
  void end_routine(Group& group, const Instruction* ip, uint32_t active);
  bool performed_alone(Group& group, const Instruction* ip);
  bool awaits_more_lanes(const Group& group, const Instruction* ip);
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
  // the mask that all active lanes name; 0: they differ
  uint32_t named(const CollectiveUse& use, uint32_t active);
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
  int forced_lane_ = -1;  // the group of that lane runs for the next forced_choices_ choices
  int forced_choices_ = 0;
  int choices_ = 0;  // choices since a group other than the one furthest behind ran
  int orderly_ = 0;  // this many choices are not random, so that activemask lets other lanes arrive
  int patience_ = 1024;
  struct Look {
    const Instruction* at;  // only compared: may point to freed memory
    uint64_t address, seen;
    uint32_t lanes;
  };
  std::array<Look, 8> looks_{};  // several, because a waiting loop may poll several addresses in turn
  uint32_t next_look_ = 0;
  uint64_t called_at_ = 0;  // the last called pointer to a function outside of the kernel
  const Kernel* called_ = nullptr;
  std::vector<std::unique_ptr<Frame>> frames_;  // in use
  std::vector<std::unique_ptr<Frame>> spare_;
  std::vector<std::byte> local_storage_;
};

struct BarrierState {
  uint32_t threads = 0;   // waiting or arrived
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
  uint32_t spins = 0;  // consecutive slices without progress

 private:
  void check(uint32_t number);
  std::string waiting() const;

  std::vector<std::unique_ptr<WarpRun>> warps_;
  uint32_t used_ = 0;  // used entries of warps_
  uint32_t next_ = 0;
  std::array<BarrierState, 16> barriers_;
  size_t shared_capacity_ = 0;
};

}  // namespace cropdl::engine
