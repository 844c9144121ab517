// The parser's result: PTX without interpretation. Names keep their % and $. Any thread; plain data. Source:
// PTX ISA 9.0, chapters "Syntax", "State spaces, types, and variables", "Instruction operands", "Directives".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cropdl::ptx {

enum class Space : uint8_t { kNone, kReg, kConst, kGlobal, kLocal, kParam, kShared, kTex, kGeneric };

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kF32,
  kF64,
  kTexref,
  kSamplerref,
  kSurfref
};
size_t size_of(Type type);  // bytes; 0 for none and predicates

struct Operand;
struct Register {
  std::string name;
};  // also special registers (%tid.x, %laneid), and `_`; elements of vector registers are v.x, v.y, …
struct Integer {
  uint64_t bits;
  bool is_negative;
};  // 64-bit two's complement, as PTX evaluates constants
struct Float {
  uint64_t bits;
  bool is_double;
};  // 0f…: 32 bits; 0d… and decimal: 64 bits
struct Symbol {
  std::string name;
  int64_t offset = 0;
};                // a variable, parameter, function or label
struct Address {  // [base+offset]; for textures and tensors [base, …]
  std::variant<Register, Symbol, Integer> base;
  int64_t offset = 0;
  std::vector<Operand> more;
};
struct Vector {
  std::vector<Operand> elements;
};  // {a, b}
struct Operand {
  std::variant<Register, Integer, Float, Symbol, Address, Vector> value;
  bool negated = false;  // !%p
  // d|p: the predicate written after d
  std::shared_ptr<Operand> beside;
};

struct Instruction {
  int line = 0;       // in the text, from 1
  std::string guard;  // @%p: its register, or empty
  bool guard_negated = false;
  std::string opcode;             // with all its modifiers: "add.rn.ftz.f32"
  std::vector<Operand> operands;  // in the order of the text; for calls see below
  // call (returned), target, (arguments), prototype or targets
  struct Call {
    std::vector<std::string> returned, arguments;  // names of .param variables, or of registers
    std::string target;                            // a function or a register
    std::string prototype;                         // label of .callprototype or .calltargets, or empty
  };
  std::optional<Call> call;
};

struct Label {
  std::string name;
  int line = 0;
};

struct Initial {  // one scalar of an initialiser
  std::variant<Integer, Float, Symbol> value;
  bool generic = false;          // generic(symbol)
  uint64_t mask = ~uint64_t{0};  // 0xFF00(symbol): that byte of the address
};

struct Variable {
  int line = 0;
  std::string name;
  Space space = Space::kNone;
  Type type = Type::kNone;
  int vector = 1;      // .v2, .v4
  uint64_t count = 1;  // elements of the array, all dimensions; 0: extern array without a size
  bool is_array = false;
  uint64_t align = 0;  // in bytes: .align, or the natural alignment
  bool is_extern = false, is_visible = false, is_weak = false, is_common = false, is_managed = false;
  std::vector<Initial> initial;  // flattened; missing elements are 0
  uint64_t size() const { return size_of(type) * vector * count; }
};

struct RegisterRange {
  std::string name;
  Type type;
  int count;
};  // %r<35> is {"%r", kB32, 35}; 0: a single register of that name

struct BranchTargets {
  std::string label;
  std::vector<std::string> targets;
};
struct Prototype;

struct Function {
  int line = 0;
  std::string name;
  bool is_kernel = false, is_extern = false, is_visible = false, is_weak = false, is_noreturn = false;
  bool has_body = false;
  // Parameters in Space::kReg are also in `registers`.
  std::vector<Variable> returned, parameters;
  std::vector<uint32_t> max_threads, required_threads;  // .maxntid, .reqntid: up to three, or empty
  std::vector<uint32_t> cluster;                        // .reqnctapercluster, in the same form
  bool is_explicit_cluster = false;                     // the launch sets the number of blocks per cluster
  // The parser makes names of nested scopes ({ }) unique, so a body is flat.
  std::vector<RegisterRange> registers;
  std::vector<Variable> variables;  // .local, .shared, .param, .global of the body
  std::vector<std::variant<Instruction, Label>> body;
  std::vector<BranchTargets> branch_targets, call_targets;
  std::vector<Prototype> prototypes;  // .callprototype, by label
};
struct Prototype {
  std::string label;
  Function signature;
};

struct Module {
  std::string version, target;  // "9.0", "sm_75"
  int address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;  // definitions and declarations, in order
  std::map<std::string, std::string> aliases;
};

}  // namespace cropdl::ptx
