// One function's lowering. lower.cpp has what all instructions need (operands, literals, symbols) and the
// rows of data processing; the other lower_*.cpp the instructions of their kind. What is of no class is an
// error that names instruction, function and line. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_state/software/engine/draft.h"
#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

// What a function's lowering asks about the rest of the module. Addresses as PTX's mov gives them: of shared
// variables their offset.
struct Surroundings {
  std::shared_ptr<const ptx::Module> module;
  std::function<std::optional<uint64_t>(const std::string&)> shared, global, function;
  std::function<const ptx::Function*(const std::string&)> callee;  // its definition or declaration
  bool is_entry = false;
  const std::vector<std::pair<uint64_t, uint64_t>>* parameters = nullptr;  // of an entry: offset, size
};

class Lowering {
 public:
  Lowering(const ptx::Function& function, const Surroundings& around, Routine* routine)
      : function_(function), around_(around), routine_(*routine) {}
  // Fills the routine but for calls' targets: those are named in draft().calls.
  Status run();
  const std::vector<DraftCall>& calls() const { return draft_.calls; }
  bool calls_through_pointers() const { return through_pointers_; }

 private:
  friend struct Opcode;
  // Each looks whether the instruction is of its kind; nullopt: it is not.
  using Done = std::optional<Status>;
  Done data();
  Done memory();        // ld, st, atom, red: lower_memory.cpp
  Done asynchronous();  // cp.async, mbarrier
  Done addresses();     // cvta, isspacep, mapa, fences
  Done hint();          // prefetch…
  Done control();       // lower_control.cpp
  Done warp();          // shfl, vote…, bar
  Done matrix();        // ldmatrix, stmatrix, wmma: lower_matrix.cpp
  Status instruction(const ptx::Instruction& one);
  int least_target() const;  // of the current instruction; 0: any. lower_targets.cpp
  int least_target_of(const ptx::Operand& operand) const;
  Status call(const ptx::Instruction& one);

  Error error(const std::string& why) const;
  Status bad_operands() const { return error("its operands are not those of this instruction"); }

  // Operands of the current instruction.
  size_t count() const { return now_->operands.size(); }
  const ptx::Operand& operand(size_t i) const { return now_->operands[i]; }
  const std::string* register_name(const ptx::Operand& operand) const;
  std::optional<uint32_t> find_register(const std::string& name) const;
  uint32_t new_register(uint32_t lane_bytes, const std::string& name = {});
  // A place to read a value of so many bytes from (0: predicate): a register of exactly that width (or wider,
  // if allowed), or a literal, or a special register or address that is fetched first. None: it is no such
  // thing.
  std::optional<Ref> source(const ptx::Operand& operand, uint32_t lane_bytes, bool is_float = false,
                            bool wider = false);
  std::optional<Ref> destination(const ptx::Operand& operand, uint32_t lane_bytes, bool wider = false);
  Ref constant(uint32_t lane_bytes, uint64_t low, uint64_t high = 0);
  std::optional<uint64_t> literal(const ptx::Operand& operand, uint32_t lane_bytes, bool is_float) const;
  uint32_t width(const Ref& ref) const { return draft_.registers[ref.number].lane_bytes; }
  // The address of a variable as mov gives it; local ones are fetched into a register: nullopt then.
  std::optional<uint64_t> symbol_address(const std::string& name) const;
  bool is_local(const std::string& name) const { return local_.count(name) != 0; }

  // Begins an instruction with the guard of the text. Operands are then set by number.
  Draft& emit(Instruction::Execute execute, uint32_t extra = 0);
  Draft& emit_control(Control control);
  void write(Draft& draft, size_t at, Ref ref);
  void read(Draft& draft, size_t at, Ref ref);  // which may be one of the draft's
  // The address operand [a]: base register, offset and flags. False: it is no address.
  bool address(Draft& draft, const ptx::Operand& operand, Area* area);
  Ref fetch_special(int which, uint32_t lane_bytes);
  Ref fetch_local(uint64_t offset);

  const ptx::Function& function_;
  const Surroundings& around_;
  Routine& routine_;
  DraftRoutine draft_;
  std::unordered_map<std::string, uint32_t> registers_;
  std::unordered_map<std::string, std::pair<uint32_t, uint64_t>>
      parameters_;                                                      // .param variables: register, size
  std::unordered_map<std::string, uint64_t> local_, entry_parameters_;  // offsets
  std::optional<uint32_t> carry_;
  bool through_pointers_ = false;
  int target_ = 0;  // 75: .target sm_75
  const ptx::Instruction* now_ = nullptr;
  std::string_view base_;                // "ld" of ld.global.u32
  std::vector<std::string_view> words_;  // what follows
  bool has(std::string_view word) const;
  // lower_words.cpp. Whether its words are those of one of the forms: "arrive.expect_tx ?shared|shared::cta
  // b64" is the words that come first, then in any order, once, one of each alternatives, `?` if none may
  // stand there.
  bool takes(std::initializer_list<std::string_view> forms) const;
  // Of ld, ldu, st, atom and red: whether the word changes nothing here (caches, and how far an order
  // reaches, for the host's memory is ordered for all), and what is wrong with the words, if anything is.
  static bool is_silent(std::string_view word);
  std::string memory_words_wrong() const;
};

// Of a thread, on every device (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability").
constexpr uint64_t kMostLocal = 512 << 10;

// Bytes in memory of a type's name ("u32"), and what it is; nullopt: no type.
struct NamedType {
  uint32_t bytes = 0;
  bool is_signed = false, is_float = false, is_bits = false, is_predicate = false;
  Number number = Number::kBits;
};
std::optional<NamedType> named_type(std::string_view name);

// Special registers: special.cpp. `bytes`: of the register.
struct Special {
  int which = 0;
  uint32_t bytes = 4;
};
std::optional<Special> find_special(std::string_view name);
void read_special(Warp& warp, const Instruction& instruction,
                  uint32_t active);  // immediate: which; extra: bytes
void read_local_address(Warp& warp, const Instruction& instruction, uint32_t active);

}  // namespace cropdl::engine
