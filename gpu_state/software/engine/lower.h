// Lowers one function. lower.cpp has the function as a whole, lower_words.cpp and lower_operands.cpp have
// what all instructions need; each other lower_*.cpp has one kind of instructions. An unknown instruction is
// an error that names instruction, function and line. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_state/software/engine/draft.h"
#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

// What lowering needs of the rest of the module. Addresses are as PTX's mov returns them: offsets for shared
// variables.
struct Surroundings {
  std::shared_ptr<const ptx::Module> module;
  std::function<std::optional<uint64_t>(const std::string&)> shared, global, function;
  std::function<const ptx::Function*(const std::string&)> callee;  // the callee's definition or declaration
  bool is_entry = false;
  const std::vector<std::pair<uint64_t, uint64_t>>* parameters = nullptr;  // of an entry: offset, size
};

class Lowering {
 public:
  Lowering(const ptx::Function& function, const Surroundings& around, Routine* routine)
      : function_(function), around_(around), routine_(*routine) {}
  // Fills the routine, except for the targets of calls: calls() names those.
  Status run();
  const std::vector<DraftCall>& calls() const { return draft_.calls; }
  bool calls_through_pointers() const { return through_pointers_; }

 private:
  friend struct Opcode;
  // Each lowers the current instruction if it is of its kind; nullopt: it is not.
  using Done = std::optional<Status>;
  Done data();          // rows of instruction.h: lower_data.cpp
  Done memory();        // ld, st, atom, red: lower_memory.cpp
  Done asynchronous();  // cp.async, mbarrier
  Done addresses();     // cvta, isspacep, mapa, fences
  Done hint();          // prefetch…
  Done control();       // lower_control.cpp
  Done warp();          // shfl, vote…, bar
  Done matrix();        // ldmatrix, stmatrix, wmma: lower_matrix.cpp
  // Their parts.
  Done copy_groups();  // cp.async.commit_group, wait_group, wait_all, mbarrier.arrive
  Done copy();         // cp.async
  struct PhaseUse;
  Done pending_count();  // mbarrier.pending_count
  Done phase();          // the rest of mbarrier
  bool is_phase() const;
  PhaseUse phase_use() const;
  Done convert_address();  // cvta
  Done test_space();       // isspacep
  Done map_to_block();     // mapa, getctarank
  Done fence();
  struct CollectiveForm;
  Done block_barrier();
  Done collective();
  std::optional<CollectiveForm> collective_form() const;
  // Parts that fill in what memory() and matrix() then emit; success: go on.
  struct MemoryUse;
  bool take_memory_words(MemoryUse& use) const;
  Done atomic_type(const MemoryUse& use) const;
  bool memory_operands(MemoryUse& use);
  Done parameter(const MemoryUse& use);  // lowers all of it
  static Instruction::Execute memory_function(const MemoryUse& use, Area area);
  struct MatrixForm;
  struct MatrixWords;
  Done matrix_rows(MatrixForm& form);  // ldmatrix, stmatrix
  std::optional<MatrixWords> matrix_words(MatrixForm& form) const;
  Done matrix_product(MatrixForm& form, const MatrixWords& words);
  Done matrix_fragment(MatrixForm& form, const MatrixWords& words);  // wmma.load, wmma.store
  bool take(MatrixForm& form, const ptx::Operand& operand, uint32_t count, uint32_t bytes, bool write);

  Status instruction(const ptx::Instruction& one);
  int least_target() const;  // for the current instruction; 0: any. lower_targets.cpp
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
  // Makes the operand readable as a value of that many bytes (0: predicate): a register of exactly that width
  // (or wider, if allowed), a literal, or a special register or address that is fetched first. nullopt: it is
  // none of these.
  std::optional<Ref> source(const ptx::Operand& operand, uint32_t lane_bytes, bool is_float = false,
                            bool wider = false);
  std::optional<Ref> destination(const ptx::Operand& operand, uint32_t lane_bytes, bool wider = false);
  Ref constant(uint32_t lane_bytes, uint64_t low, uint64_t high = 0);
  std::optional<uint64_t> literal(const ptx::Operand& operand, uint32_t lane_bytes, bool is_float) const;
  uint32_t width(const Ref& ref) const { return draft_.registers[ref.number].lane_bytes; }
  // A variable's address as mov returns it; nullopt for local variables, whose address is fetched into a
  // register.
  std::optional<uint64_t> symbol_address(const std::string& name) const;
  bool is_local(const std::string& name) const { return local_.count(name) != 0; }

  // Begins an instruction with the guard of the text. The caller then sets its operands by number.
  Draft& emit(Instruction::Execute execute, uint32_t extra = 0);
  Draft& emit_control(Control control);
  void write(Draft& draft, size_t at, Ref ref);
  void read(Draft& draft, size_t at, Ref ref);  // `ref` may be one of the draft's
  // The address operand [a]: base register, offset and flags. False: not an address.
  bool address(Draft& draft, const ptx::Operand& operand, Area* area);
  // A new register with what an instruction of its own fetches.
  Ref fetch(Instruction::Execute execute, int64_t immediate, uint32_t lane_bytes);
  Ref fetch_local(uint64_t offset, uint32_t lane_bytes = 8);
  // The register, if it has that width, or a larger one where that is allowed.
  std::optional<Ref> wide_enough(uint32_t number, uint32_t lane_bytes, bool wider) const;

  // lower_data.cpp. `text`: the operands of the current instruction one by one.
  bool can_be(const ptx::Operand& operand, Kind kind, bool is_destination) const;
  bool is_of(const std::vector<const ptx::Operand*>& text, const Row& row) const;
  Status data(const Row& row, const std::vector<const ptx::Operand*>& text);
  Ref carry();

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
  std::vector<std::string_view> words_;  // the rest of the opcode
  bool has(std::string_view word) const;
  // lower_words.cpp. Whether the opcode's words match one of the forms. In "arrive.expect_tx
  // ?shared|shared::cta b64", the first item must come first; then, in any order, exactly one word of each
  // item's alternatives; `?`: the item is optional.
  bool takes(std::initializer_list<std::string_view> forms) const;
  // For ld, ldu, st, atom and red. is_silent(): the word has no effect here (caches, and the scope of an
  // order, because the host's memory is ordered for all). memory_words_wrong(): the error in the words, if
  // any.
  static bool is_silent(std::string_view word);
  std::string memory_words_wrong() const;
};

// Local memory of a thread, on every device (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability").
constexpr uint64_t kMostLocal = 512 << 10;

// The size in memory and the kind of a type by its name ("u32"); nullopt: not a type.
struct NamedType {
  uint32_t bytes = 0;
  bool is_signed = false, is_float = false, is_bits = false, is_predicate = false;
  Number number = Number::kBits;
};
std::optional<NamedType> named_type(std::string_view name);

// The elements of a vector; of another operand itself.
std::vector<const ptx::Operand*> elements_of(const ptx::Operand& operand);

// Special registers (special.cpp). `bytes`: of the register.
struct Special {
  int which = 0;
  uint32_t bytes = 4;
};
std::optional<Special> find_special(std::string_view name);
void read_special(Warp& warp, const Instruction& instruction,
                  uint32_t active);  // immediate: which; extra: bytes
void read_local_address(Warp& warp, const Instruction& instruction, uint32_t active);

}  // namespace cropdl::engine
