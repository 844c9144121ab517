#include "gpu_state/software/ptx/link.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/format.h"

namespace cropdl::ptx {

namespace {

using NewNames = std::map<std::string, std::string>;  // of one part: its local names that must be renamed

// The precedence of a name's definition; the higher one stays.
enum class Strength { kDeclared, kCommon, kWeak, kStrong };

Strength strength_of(const Variable& variable) {
  if (variable.is_extern) return Strength::kDeclared;
  if (variable.is_common) return Strength::kCommon;
  return variable.is_weak ? Strength::kWeak : Strength::kStrong;
}

bool is_shared_by_name(const Variable& variable) {
  return variable.is_extern || variable.is_visible || variable.is_weak || variable.is_common;
}

// One entry per name: a part's declarations are merged with its definition.
std::vector<Function> joined(std::vector<Function> functions) {
  std::vector<Function> all;
  std::map<std::string, size_t> places;
  for (Function& function : functions) {
    auto [place, is_new] = places.emplace(function.name, all.size());
    if (is_new) {
      all.push_back(std::move(function));
      continue;
    }
    Function& first = all[place->second];
    bool visible = first.is_visible || function.is_visible, weak = first.is_weak || function.is_weak;
    bool external = first.is_extern || function.is_extern;
    if (function.has_body && !first.has_body) first = std::move(function);
    first.is_visible = visible;
    first.is_weak = weak;
    first.is_extern = external && !first.has_body;
  }
  return all;
}

class Renaming {
 public:
  explicit Renaming(const NewNames& names) : names_(names) {}

  void apply(Module* module) const {
    if (names_.empty()) return;
    for (Variable& variable : module->variables) {
      change(&variable.name);
      for (Initial& initial : variable.initial) change(&initial);
    }
    for (Function& function : module->functions) apply(&function);
    std::map<std::string, std::string> aliases;
    for (const auto& [name, of] : module->aliases) {
      std::string its_name = name, its_function = of;
      change(&its_name);
      change(&its_function);
      aliases[its_name] = its_function;
    }
    module->aliases = std::move(aliases);
  }

 private:
  void apply(Function* function) const {
    change(&function->name);
    // Names that the function declares itself hide the module's.
    std::set<std::string, std::less<>> own;
    for (auto* list : {&function->returned, &function->parameters, &function->variables})
      for (const Variable& variable : *list) own.insert(variable.name);
    for (const RegisterRange& range : function->registers) own.insert(range.name);
    for (const auto& entry : function->body)
      if (auto* label = std::get_if<Label>(&entry)) own.insert(label->name);
    Renaming visible(*this);
    visible.hidden_ = &own;
    for (Variable& variable : function->variables)
      for (Initial& initial : variable.initial) visible.change(&initial);
    for (BranchTargets& targets : function->call_targets)
      for (std::string& target : targets.targets) visible.change(&target);
    for (auto& entry : function->body)
      if (auto* instruction = std::get_if<Instruction>(&entry)) {
        for (Operand& operand : instruction->operands) visible.change(&operand);
        if (instruction->call) visible.change(&instruction->call->target);
      }
  }

  void change(std::string* name) const {
    auto at = names_.find(*name);
    if (at != names_.end() && !(hidden_ && hidden_->contains(*name))) *name = at->second;
  }
  void change(Initial* initial) const {
    if (auto* symbol = std::get_if<Symbol>(&initial->value)) change(&symbol->name);
  }
  void change(Operand* operand) const {
    if (auto* symbol = std::get_if<Symbol>(&operand->value)) {
      change(&symbol->name);
    } else if (auto* address = std::get_if<Address>(&operand->value)) {
      if (auto* base = std::get_if<Symbol>(&address->base)) change(&base->name);
      for (Operand& more : address->more) change(&more);
    } else if (auto* vector = std::get_if<Vector>(&operand->value)) {
      for (Operand& element : vector->elements) change(&element);
    }
  }

  const NewNames& names_;
  const std::set<std::string, std::less<>>* hidden_ = nullptr;
};

class Linker {
 public:
  Linker(std::vector<Module> parts, const std::vector<std::string>& names)
      : parts_(std::move(parts)), names_(names) {}

  Result<Module> run() {
    for (Module& part : parts_) part.functions = joined(std::move(part.functions));
    keep_own_names_apart();
    for (size_t i = 0; i < parts_.size(); i++) {
      Module& part = parts_[i];
      if (number_of_target(part.target) > number_of_target(module_.target)) module_.target = part.target;
      module_.version = std::max(module_.version, part.version);
      for (Variable& variable : part.variables) add(std::move(variable), i);
      for (Function& function : part.functions) {
        bool is_alias = part.aliases.contains(function.name);
        add(std::move(function), i, is_alias);
      }
      // If another part's definition replaces an alias, the alias is dropped.
      for (const auto& [name, of] : part.aliases)
        if (!functions_.contains(name) || functions_.at(name).part == i) module_.aliases[name] = of;
    }
    if (!error_.empty()) return Error{error_};
    return std::move(module_);
  }

 private:
  struct Place {
    size_t index, part;
    Strength strength;
  };

  bool is_own(const Module& part, const Function& function) const {
    bool defined = function.has_body || part.aliases.contains(function.name);
    return defined && !function.is_kernel && !function.is_visible && !function.is_weak;
  }

  void keep_own_names_apart() {
    std::set<std::string> taken;
    for (const Module& part : parts_) {
      for (const Variable& variable : part.variables)
        if (is_shared_by_name(variable)) taken.insert(variable.name);
      for (const Function& function : part.functions)
        if (!is_own(part, function)) taken.insert(function.name);
    }
    for (size_t i = 0; i < parts_.size(); i++) {
      NewNames renamed;
      auto own = [&](const std::string& name) {
        if (!taken.insert(name).second) renamed[name] = formatted("{}.part{}", name, i + 1);
      };
      for (const Variable& variable : parts_[i].variables)
        if (!is_shared_by_name(variable)) own(variable.name);
      for (const Function& function : parts_[i].functions)
        if (is_own(parts_[i], function)) own(function.name);
      Renaming(renamed).apply(&parts_[i]);
    }
  }

  void add(Variable variable, size_t part) {
    Strength strength = strength_of(variable);
    auto [place, is_new] = variables_.emplace(variable.name, Place{module_.variables.size(), part, strength});
    if (is_new) {
      module_.variables.push_back(std::move(variable));
      return;
    }
    Place& its = place->second;
    Variable& first = module_.variables[its.index];
    if (strength == Strength::kStrong && its.strength == Strength::kStrong)
      return twice(variable.name, its.part, part);
    bool sized = first.size() && variable.size();
    bool common = strength == Strength::kCommon && its.strength == Strength::kCommon;
    if (first.space != variable.space || (sized && !common && first.size() != variable.size()))
      return differ(variable.name, its.part, part);
    bool larger = common && variable.size() > first.size();
    uint64_t align = std::max(first.align, variable.align);
    if (strength > its.strength || larger) {
      first = std::move(variable);
      its.strength = strength;
      its.part = part;
    }
    first.align = align;
  }

  static bool same_sizes(const std::vector<Variable>& a, const std::vector<Variable>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Variable& x, const Variable& y) { return x.size() == y.size(); });
  }

  void add(Function function, size_t part, bool is_alias) {
    bool defined = function.has_body || is_alias;
    Strength strength = !defined           ? Strength::kDeclared
                        : function.is_weak ? Strength::kWeak
                                           : Strength::kStrong;
    auto [place, is_new] = functions_.emplace(function.name, Place{module_.functions.size(), part, strength});
    if (is_new) {
      module_.functions.push_back(std::move(function));
      return;
    }
    Place& its = place->second;
    Function& first = module_.functions[its.index];
    if (strength == Strength::kStrong && its.strength == Strength::kStrong)
      return twice(function.name, its.part, part);
    if (first.is_kernel != function.is_kernel || !same_sizes(first.parameters, function.parameters) ||
        !same_sizes(first.returned, function.returned))
      return differ(function.name, its.part, part);
    if (strength > its.strength) {
      first = std::move(function);
      its.strength = strength;
      its.part = part;
    }
  }

  std::string name_of(size_t part) const {
    return part < names_.size() ? names_[part] : formatted("part {} of {}", part + 1, parts_.size());
  }
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  void twice(const std::string& name, size_t a, size_t b) {
    fail(formatted("device code cannot be linked: {} is defined in {} and in {}", name, name_of(a),
                   name_of(b)));
  }
  void differ(const std::string& name, size_t a, size_t b) {
    fail(formatted("device code cannot be linked: {} is not the same in {} and in {}", name, name_of(a),
                   name_of(b)));
  }

  std::vector<Module> parts_;
  const std::vector<std::string>& names_;
  Module module_;
  std::map<std::string, Place> variables_, functions_;
  std::string error_;
};

}  // namespace

int number_of_target(const std::string& target) {
  int number = 0;
  size_t digits = target.find_first_of("0123456789");
  if (digits != std::string::npos)
    std::from_chars(target.data() + digits, target.data() + target.size(), number);
  return number;
}

Result<Module> link(std::vector<Module> parts, const std::vector<std::string>& names) {
  if (parts.empty()) return Error{"device code cannot be linked: there is none"};
  return Linker(std::move(parts), names).run();
}

}  // namespace cropdl::ptx
