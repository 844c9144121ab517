// A module's code: kernels are lowered when they are first requested. Each kernel has its own routines, since
// the placement of shared variables depends on the functions that it can reach.
#include <algorithm>
#include <set>

#include "gpu_state/software/engine/lower.h"
#include "gpu_state/software/threads/threads.h"

namespace cropdl::engine {

namespace {
struct Reached;
}

struct Code::Body : std::enable_shared_from_this<Code::Body> {
  std::shared_ptr<const ptx::Module> module;
  AddressOf address;
  std::mutex mutex;  // guards the members below
  std::map<std::string, std::shared_ptr<const Kernel>> kernels;
  std::map<std::string, uint64_t> addresses;
  // definitions before declarations; complete after construction
  std::map<std::string, const ptx::Function*> functions;

  const ptx::Function* find(const std::string& name) const {
    std::string real = name;
    for (int i = 0; i < 8; ++i) {  // aliases of aliases, to a limited depth
      auto alias = module->aliases.find(real);
      if (alias == module->aliases.end()) break;
      real = alias->second;
    }
    auto found = functions.find(real);
    return found == functions.end() ? nullptr : found->second;
  }
  int device = -1;
  uint64_t function_address(const std::string& name);
  void give_addresses();
  Result<std::shared_ptr<const Kernel>> lower(const std::string& name, bool as_function);
  Result<std::shared_ptr<const Kernel>> made(const std::string& name, bool as_function);
  // Parts of made().
  Surroundings surroundings(Reached& reached, const ptx::Function& function);  // refers to both
  Status lower_reached(Reached& reached);
  void connect(Reached& reached);
  Status measure(const Reached& reached);
};

namespace {

void lay_out_parameters(const ptx::Function& function, KernelFacts* facts) {
  for (const ptx::Variable& one : function.parameters) {
    uint64_t align = std::max<uint64_t>(one.align, 1);
    facts->parameter_bytes = round_up(facts->parameter_bytes, align);
    facts->parameters.emplace_back(facts->parameter_bytes, one.size());
    facts->parameter_bytes += one.size();
  }
}

uint32_t threads_of(const std::vector<uint32_t>& sizes) {
  uint64_t threads = 1;
  for (uint32_t one : sizes) threads = std::min<uint64_t>(threads * one, 1024);
  return static_cast<uint32_t>(threads);
}

// Only clusters of one block are supported; others are refused, since they would run with wrong ranks.
Status check_clusters(const ptx::Function& function) {
  uint64_t blocks = 1;
  for (uint32_t one : function.cluster) blocks *= one;
  if (blocks == 1 && (!function.is_explicit_cluster || !function.cluster.empty())) return {};
  return Error{"{} (line {} of the PTX): clusters of more than one block are not built", function.name,
               function.line};
}

// The layout of the shared variables that a kernel can reach. Those without a size all start after the
// others. A function's own variables hide the module's of that name, and differ from those of other
// functions.
class SharedLayout {
 public:
  explicit SharedLayout(const ptx::Module& module) {
    for (const ptx::Variable& one : module.variables)
      if (one.space == ptx::Space::kShared) known_[{nullptr, one.name}] = &one;
  }
  void add_body(const ptx::Function& function) {
    for (const ptx::Variable& one : function.variables)
      if (one.space == ptx::Space::kShared) known_[{&function, one.name}] = &one;
  }
  // Looks a name up as that function sees it. Sized variables get offsets when first looked up; the others'
  // offsets are known only at the end, so lookup takes two passes.
  std::optional<uint64_t> find(const ptx::Function& function, const std::string& name) {
    auto variable = known_.find({&function, name});
    if (variable == known_.end()) variable = known_.find({nullptr, name});
    if (variable == known_.end()) return std::nullopt;
    auto offset = offsets_.find(variable->second);
    if (offset != offsets_.end()) return offset->second;
    const ptx::Variable& one = *variable->second;
    uint64_t align = std::max<uint64_t>(
        one.align, std::max<uint64_t>(ptx::size_of(one.type) * static_cast<uint64_t>(one.vector), 1));
    if (one.size() == 0) {
      dynamic_align_ = std::max(dynamic_align_, align);
      has_dynamic_ = true;
      return dynamic_;
    }
    end_ = round_up(end_, align);
    offsets_[&one] = end_;
    uint64_t at = end_;
    end_ += one.size();
    return at;
  }
  uint64_t end() const { return end_; }
  uint64_t align() const { return dynamic_align_; }
  bool has_dynamic() const { return has_dynamic_; }
  // Ends the first pass: all sized variables have been seen.
  void settle() { dynamic_ = round_up(end_, dynamic_align_); }
  uint64_t dynamic() const { return dynamic_; }

 private:
  std::map<std::pair<const ptx::Function*, std::string>, const ptx::Variable*> known_;
  std::map<const ptx::Variable*, uint64_t> offsets_;
  uint64_t end_ = 0, dynamic_ = 0, dynamic_align_ = 16;
  bool has_dynamic_ = false;
};

// The functions that a kernel reaches, while they are lowered.
struct Reached {
  const ptx::Function* entry;
  bool as_function;
  Kernel* kernel;
  SharedLayout shared;
  std::map<std::string, std::vector<DraftCall>> calls;  // by caller
};

// Larger totals are an error in ptxas.
constexpr uint64_t kMostStaticShared = 48 << 10;

// Local memory along the deepest call chain, by the rules of warp_frames.cpp; recursion is not followed.
uint64_t local_depth(const Routine& routine, std::set<const Routine*>* above, bool* recursive,
                     std::map<const Routine*, uint64_t>* known) {
  if (auto found = known->find(&routine); found != known->end()) return found->second;
  above->insert(&routine);
  uint64_t below = 0;
  bool cut = false;
  for (const CallSite& site : routine.calls) {
    if (site.target == CallSite::Target::kRegister) *recursive = true;
    if (!site.routine) continue;
    if (above->count(site.routine)) {
      *recursive = cut = true;
      continue;
    }
    uint64_t room_to_align = site.routine->local_align - 16;  // its frame starts at a multiple of that
    below = std::max(below, 16 + room_to_align + local_depth(*site.routine, above, recursive, known));
  }
  above->erase(&routine);
  uint64_t depth = round_up(routine.local_bytes, 16) + below;
  if (!cut) (*known)[&routine] = depth;
  return depth;
}

}  // namespace

uint64_t Code::Body::function_address(const std::string& name) {
  const ptx::Function* function = find(name);
  if (!function || !function->has_body) return 0;
  auto [found, is_new] = addresses.emplace(function->name, 0);
  if (is_new) {
    found->second = add_function(
        device, [weak = weak_from_this(), name = function->name]() -> Result<std::shared_ptr<const Kernel>> {
          auto body = weak.lock();
          if (!body) return Error{"its module was unloaded"};
          std::lock_guard lock(body->mutex);
          return body->lower(name, true);
        });
  }
  return found->second;
}

// Gives addresses to all functions whose address the text takes anywhere, so that the functions reachable
// through pointers are known before anything is lowered.
void Code::Body::give_addresses() {
  std::function<void(const ptx::Operand&)> look = [&](const ptx::Operand& operand) {
    if (const auto* symbol = std::get_if<ptx::Symbol>(&operand.value)) function_address(symbol->name);
    if (const auto* vector = std::get_if<ptx::Vector>(&operand.value))
      for (const ptx::Operand& one : vector->elements) look(one);
  };
  for (const ptx::Function& function : module->functions)
    for (const auto& item : function.body)
      if (const auto* one = std::get_if<ptx::Instruction>(&item))
        for (const ptx::Operand& operand : one->operands) look(operand);
  for (const ptx::Variable& variable : module->variables)
    for (const ptx::Initial& one : variable.initial)
      if (const auto* symbol = std::get_if<ptx::Symbol>(&one.value)) function_address(symbol->name);
}

Result<std::shared_ptr<const Kernel>> Code::Body::lower(const std::string& name, bool as_function) {
  std::string key = (as_function ? "function " : "kernel ") + name;
  if (auto found = kernels.find(key); found != kernels.end()) return found->second;
  auto result = made(name, as_function);
  if (result) kernels[key] = *result;
  return result;
}

Surroundings Code::Body::surroundings(Reached& reached, const ptx::Function& function) {
  Surroundings around;
  around.module = module;
  around.is_entry = &function == reached.entry && !reached.as_function;
  around.parameters = &reached.kernel->facts.parameters;
  around.shared = [shared = &reached.shared, of = &function](const std::string& symbol) {
    return shared->find(*of, symbol);
  };
  around.global = [this](const std::string& symbol) -> std::optional<uint64_t> {
    uint64_t at = address ? address(symbol) : 0;
    return at ? std::optional(at) : std::nullopt;
  };
  around.function = [this](const std::string& symbol) -> std::optional<uint64_t> {
    uint64_t at = function_address(symbol);
    return at ? std::optional(at) : std::nullopt;
  };
  around.callee = [this](const std::string& symbol) { return find(symbol); };
  return around;
}

// Lowers the entry and everything it reaches. A kernel that calls through pointers reaches every function
// whose address the module takes; one that cannot be lowered is an error only when it is called.
Status Code::Body::lower_reached(Reached& reached) {
  auto& [entry, as_function, kernel, shared, calls] = reached;
  kernel->routines.clear();
  kernel->by_address.clear();
  calls.clear();
  std::vector<std::string> waiting{entry->name};
  bool through_pointers = false;
  std::set<std::string> optional;
  for (size_t i = 0;; ++i) {
    if (i == waiting.size() && through_pointers)
      for (const auto& [taken, at] : addresses) {
        if (kernel->routines.count(taken) || find(taken)->is_kernel) continue;
        optional.insert(taken);
        waiting.push_back(taken);
      }
    if (i == waiting.size()) return {};
    const ptx::Function* function = find(waiting[i]);
    if (kernel->routines.count(function->name)) continue;
    auto routine = std::make_unique<Routine>();
    shared.add_body(*function);
    const Surroundings around = surroundings(reached, *function);
    Lowering lowering(*function, around, routine.get());
    if (Status status = lowering.run(); !status) {
      if (!optional.count(function->name)) return status;
      auto failed = std::make_unique<Routine>();
      failed->name = function->name;
      failed->cannot = status.error().message;
      kernel->routines[function->name] = std::move(failed);
      continue;
    }
    for (const DraftCall& call : lowering.calls())
      if (call.site.target == CallSite::Target::kRoutine) {
        waiting.push_back(find(call.callee)->name);
        if (optional.count(function->name) && !kernel->routines.count(waiting.back()))
          optional.insert(waiting.back());
        else
          optional.erase(waiting.back());
      }
    through_pointers |= lowering.calls_through_pointers();
    calls[function->name] = lowering.calls();
    kernel->routines[function->name] = std::move(routine);
  }
}

// Calls get their routines, and addresses theirs.
void Code::Body::connect(Reached& reached) {
  Kernel& kernel = *reached.kernel;
  for (auto& [caller, made_calls] : reached.calls) {
    Routine& routine = *kernel.routines.at(caller);
    for (size_t i = 0; i < made_calls.size(); ++i)
      if (made_calls[i].site.target == CallSite::Target::kRoutine)
        routine.calls[i].routine = kernel.routines.at(find(made_calls[i].callee)->name).get();
  }
  for (const auto& [taken, at] : addresses)
    if (auto found = kernel.routines.find(taken); found != kernel.routines.end())
      kernel.by_address[at] = found->second.get();
}

// What the kernel takes; an error if that is more than a kernel may take.
Status Code::Body::measure(const Reached& reached) {
  Kernel& kernel = *reached.kernel;
  const std::string& name = kernel.facts.name;
  kernel.facts.static_shared = reached.shared.end();
  kernel.shared_align = reached.shared.align();
  std::set<const Routine*> above;
  std::map<const Routine*, uint64_t> known;
  kernel.facts.local = local_depth(*kernel.entry, &above, &kernel.recursive, &known);
  if (kernel.facts.static_shared > kMostStaticShared)
    return Error{"{} has {} bytes of .shared variables, of at most {}", name, kernel.facts.static_shared,
                 kMostStaticShared};
  if (kernel.facts.local > kMostLocal)
    return Error{"{} takes {} bytes of local memory per thread, of at most {}", name, kernel.facts.local,
                 kMostLocal};
  kernel.facts.registers = static_cast<int>(
      std::min<uint32_t>(255, std::max<uint32_t>(16, kernel.entry->frame_bytes / (4 * kLanes))));
  const ptx::Function& entry = *reached.entry;
  if (!entry.max_threads.empty()) kernel.facts.max_threads = threads_of(entry.max_threads);
  if (!entry.required_threads.empty()) {
    for (size_t i = 0; i < 3; ++i)
      kernel.facts.required_threads[i] = i < entry.required_threads.size() ? entry.required_threads[i] : 1;
    kernel.facts.max_threads = threads_of(entry.required_threads);
  }
  for (const ptx::Variable& one : module->variables)
    if (one.space == ptx::Space::kConst) kernel.facts.constant += one.size();
  return {};
}

Result<std::shared_ptr<const Kernel>> Code::Body::made(const std::string& name, bool as_function) {
  threads::DefaultArithmetic arithmetic;  // for literals
  const ptx::Function* entry = find(name);
  if (!entry || !entry->has_body || (!as_function && !entry->is_kernel))
    return Error{"there is no {} {} in this module", as_function ? "function" : "kernel", name};
  if (Status status = check_clusters(*entry); !status) return status.error();
  auto kernel = std::make_shared<Kernel>();
  kernel->facts.name = name;
  kernel->facts.target = module->target;
  kernel->is_explicit_cluster = entry->is_explicit_cluster;
  lay_out_parameters(*entry, &kernel->facts);
  Reached reached{entry, as_function, kernel.get(), SharedLayout(*module), {}};
  SharedLayout& shared = reached.shared;
  // Twice if a variable has no size: its start is known only after all others have been seen.
  for (int round = 0; round < 2; ++round) {
    if (Status status = lower_reached(reached); !status) return status.error();
    connect(reached);
    uint64_t before = shared.dynamic();
    shared.settle();
    if (!shared.has_dynamic() || shared.dynamic() == before) break;
  }
  if (as_function && (shared.end() || shared.has_dynamic()))
    return Error{
        "{} has shared variables, and a kernel that was lowered without it calls it through a pointer", name};
  kernel->entry = kernel->routines.at(entry->name).get();
  if (Status status = measure(reached); !status) return status.error();
  return std::shared_ptr<const Kernel>(kernel);
}

Code::Code(std::shared_ptr<const ptx::Module> module, AddressOf address, int device)
    : body_(std::make_shared<Body>()) {
  body_->device = device;
  body_->module = std::move(module);
  body_->address = std::move(address);
  for (const ptx::Function& one : body_->module->functions) {
    const ptx::Function*& known = body_->functions[one.name];
    if (!known || one.has_body) known = &one;
  }
  body_->give_addresses();
}

Code::~Code() {
  std::lock_guard lock(body_->mutex);
  for (const auto& [name, address] : body_->addresses) remove_function(address);
}

Result<std::shared_ptr<const Kernel>> Code::kernel(const std::string& name) {
  std::lock_guard lock(body_->mutex);
  return body_->lower(name, false);
}

uint64_t Code::function_address(const std::string& name) {
  std::lock_guard lock(body_->mutex);
  return body_->function_address(name);
}

const KernelFacts& facts(const Kernel& kernel) { return kernel.facts; }

}  // namespace cropdl::engine
