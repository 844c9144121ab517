// The result of lowering a function, and of everything that a kernel can reach. Immutable once made; any
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_state/software/engine/instruction.h"
#include "gpu_state/software/engine/launch.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::engine {

// To a multiple; `to` 0: unchanged.
inline uint64_t round_up(uint64_t value, uint64_t to) { return to ? (value + to - 1) / to * to : value; }

// The kind of a control instruction: the highest byte of its `extra`. These instructions change where lanes
// are or what they wait for; the loop in warp_loop.cpp executes them itself.
enum class Control : uint32_t {
  kBranch,       // immediate: index of the instruction; operands[0]: unused
  kBranchTable,  // operands[0]: index register; immediate: the routine's table
  kCall,         // immediate: index into the routine's calls
  kReturn,       // in the entry function: exit
  kExit,
  kTrap,
  kBreakpoint,
  kBarrier,     // immediate: a BarrierUse
  kCollective,  // the lanes of a mask meet: a CollectiveUse, whose number is in `flags`
  kActiveMask,  // operands[0]: destination
  kSleep,
};

constexpr int kControlShift = 24, kCollectiveShift = 9;
constexpr uint32_t kMostCollectives = 1 << 20;
inline Control control_of(const Instruction& instruction) {
  return static_cast<Control>(instruction.extra >> kControlShift);
}
inline uint32_t collective_of(const Instruction& instruction) {
  return instruction.flags >> kCollectiveShift & (kMostCollectives - 1);
}

constexpr Place kNowhere = INT32_MIN;  // an absent operand

struct Routine;

// The place of a .param variable in its function's frame: four-byte words, each 32 lanes wide.
struct Parameter {
  Place place = 0;
  uint32_t size = 0;  // bytes
};

struct CallSite {
  enum class Target : uint8_t { kRoutine, kRegister, kPrint, kAllocate, kRelease, kAssert };
  Target target = Target::kRoutine;
  const Routine* routine = nullptr;
  Place address = 0;  // kRegister: the 64-bit register
  std::vector<Parameter> arguments, returned;
};

enum class Barrier : uint8_t { kSync, kArrive, kPopc, kAnd, kOr };
struct BarrierUse {
  Barrier kind = Barrier::kSync;
  bool aligned = true;
  bool counted = false;  // operands[2] is the number of threads
  // operands[0]: destination, [1]: number, [2]: count, [3]: predicate
};

enum class Collective : uint8_t {
  kWarpBarrier,
  kShuffle,  // mode: 0 up, 1 down, 2 bfly, 3 idx
  kVoteAll,
  kVoteAny,
  kVoteUniform,
  kBallot,
  kMatchAny,
  kMatchAll,
  kReduce,  // mode: an Fold
  kElect,
  kMoveMatrix,
  kData  // an instruction of the table that needs all lanes: mma, and those of memory_matrix.cpp
};
enum class Fold : uint8_t { kAdd, kMinSigned, kMaxSigned, kMinUnsigned, kMaxUnsigned, kAnd, kOr, kXor };

// An operation of several lanes: the lanes of the mask meet, wherever in the warp they are (collective.cpp).
struct CollectiveUse {
  Collective kind = Collective::kWarpBarrier;
  uint8_t mode = 0;
  bool wide = false;       // 64-bit values
  bool everybody = false;  // .aligned without a mask: all lanes that have not exited
  Place mask = 0;          // 32 bits: the lanes that take part
  // operands: [0] destination, [1] the predicate beside it, or kNowhere, [2…] sources
};

// ldmatrix, stmatrix, wmma (matrix.cpp). All operands are in Instruction::many; `extra` is the use's number.
struct MatrixUse {
  enum class What : uint8_t { kLoad, kStore, kMultiply, kLoadRows, kStoreRows };
  enum class Element : uint8_t {
    kHalf,
    kBrain,
    kTensorFloat,
    kFloat,
    kDouble,
    kSigned8,
    kUnsigned8,
    kSigned32
  };
  What what = What::kLoad;
  Element a = Element::kHalf, b = Element::kHalf, c = Element::kFloat, d = Element::kFloat;
  uint32_t m = 0, n = 0, k = 0;
  uint32_t rows = 0, columns = 0;  // of the loaded or stored matrix
  // number of registers; loads and stores: count_a
  uint32_t count_a = 0, count_b = 0, count_c = 0, count_d = 0;
  bool column_major = false, has_stride = false, transposed = false, saturate = false;
  bool narrow = false, no_base = false;  // the address
  uint8_t area = 0;
  int64_t offset = 0;
};

struct Routine {
  std::string name;
  bool is_entry = false;
  std::shared_ptr<const ptx::Module> module;  // keeps `source` alive
  std::vector<Instruction> code;
  std::vector<const ptx::Instruction*> source;  // parallel to `code`: for messages
  std::vector<std::byte> storage;               // of the constants, with room to align them
  std::byte* constants = nullptr;               // one past the constants
  uint32_t frame_bytes = 64;                    // registers
  uint32_t local_bytes = 0, local_align = 16;   // .local variables, per thread; at least 16
  std::vector<Parameter> parameters, returned;  // of functions
  std::vector<CallSite> calls;
  std::vector<BarrierUse> barriers;
  std::vector<CollectiveUse> collectives;
  std::vector<std::vector<uint32_t>> tables;  // of brx.idx
  std::vector<MatrixUse> matrices;
  std::vector<std::vector<Place>> many;  // of instructions with more than nine operands
  std::string cannot;  // not empty: why this function could not be lowered; calling it is an error
  size_t index_of(const Instruction* instruction) const { return instruction - code.data(); }
};

class Kernel {
 public:
  KernelFacts facts;
  const Routine* entry = nullptr;
  std::map<std::string, std::unique_ptr<Routine>> routines;
  std::map<uint64_t, const Routine*>
      by_address;  // functions of its module that may be called through pointers
  bool is_explicit_cluster = false;
  bool recursive = false;  // recursive, or calls through pointers: local memory has the context's limit
  uint64_t shared_align = 16;
};

// The process's function pointers: functions.cpp.
uint64_t add_function(int device, std::function<Result<std::shared_ptr<const Kernel>>()> lowered);
void remove_function(uint64_t address);
// Finds the function behind a pointer of another module, as a kernel whose entry it is. Null: no such
// function.
std::shared_ptr<const Kernel> find_function(uint64_t address, std::string* why);

}  // namespace cropdl::engine
