#include "restart/process/attributes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "base/format.h"

namespace cropdl::process {
namespace {

// For the process's life: each checkpoint compares with them.
AttributeValues at_start;         // when the program began in this process
uid_t user;                       // effective user when the program began
std::set<std::string> own_names;  // changed by the program in an earlier run

bool is_limit(const Attribute& a) { return a.name.rfind("RLIMIT_", 0) == 0; }

// Compares limits; -1 (no limit) is the largest.
bool is_more(const std::string& a, const std::string& b) {
  return strtoull(a.c_str(), nullptr, 10) > strtoull(b.c_str(), nullptr, 10);
}

Error cannot(const Attribute& a, const std::string& value, const std::string& why) {
  return Error{
      "the program had set its {} to {}, which cannot be put back here ({}); restart it where it may", a.name,
      value, why};
}

bool stands(const Attribute& a, const std::string& value) {
  const std::string now = a.read(a.parameter);
  if (a.exact) return now == value;
  const auto bits = strtoull(value.c_str(), nullptr, 10);
  return (strtoull(now.c_str(), nullptr, 10) & bits) == bits;
}

// Whether a new thread inherits this value from its creator (kernel/fork.c).
bool has_new_thread(const std::string& name, const std::string& value) {
  if (name == "parent death signal") return value == "0";
  if (name != "scheduling policy") return true;
  const size_t flags = value.find(' ');  // SCHED_RESET_ON_FORK among them
  return flags == std::string::npos || value[flags + 1] == '0';
}

Status put_back(const Attribute& a, const std::string& value) {
  if (stands(a, value)) return {};
  errno = 0;
  if (a.write == nullptr || !a.write(a.parameter, value))
    return cannot(a, value, errno != 0 ? errno_text(errno) : "not possible");
  if (!stands(a, value)) return cannot(a, value, formatted("it is {} here", a.read(a.parameter)));
  return {};
}

// Calls visit(attribute, value) for the saved ones of the stage, in the table's order, until an error.
template <class Visit>
Status each_saved(const AttributeValues& saved, AttributeStage stage, Visit visit) {
  for (const Attribute& a : attributes())
    if (const auto found = saved.find(a.name); a.stage == stage && found != saved.end())
      if (Status s = visit(a, found->second); !s) return s;
  return {};
}

bool can_be_saved(const Attribute& a, const std::string& value) {
  return (a.write != nullptr || a.stage == AttributeStage::kCredentials) && !value.empty() &&
         (a.savable == nullptr || a.savable(value));
}

// Null: the table does not have it.
const Attribute* find_attribute(const std::string& name) {
  const auto found = std::ranges::find(attributes(), name, &Attribute::name);
  return found != attributes().end() ? &*found : nullptr;
}

}  // namespace

void remember_attributes() {
  user = geteuid();
  for (const Attribute& a : attributes()) at_start[a.name] = a.read(a.parameter);
}

std::string root_refusal() {
  const Attribute& root = *find_attribute("root directory");
  const auto then = at_start.find(root.name);
  if (then == at_start.end() || root.read(root.parameter) == then->second) return "";
  return "the program has changed its root directory (chroot), which cannot be saved yet";
}

Result<AttributeValues> changed_attributes() {
  // The images would belong to the new user, but the store belongs to the former one (mode 0700).
  if (geteuid() != user)
    return Error{
        "the program runs as user {} now and was started as user {}, whose store it may not write; "
        "that cannot be saved yet",
        geteuid(), user};
  AttributeValues changed;
  for (const Attribute& a : attributes()) {
    const std::string now = a.read(a.parameter), &then = at_start[a.name];
    if (now == then && own_names.count(a.name) == 0) continue;
    if (!can_be_saved(a, now))
      return Error{"the program has changed its {} (from {} to {}), which cannot be saved yet", a.name,
                   then.empty() ? "none" : then, now.empty() ? "none" : now};
    changed[a.name] = now;
  }
  return changed;
}

std::string unknown_attribute(const AttributeValues& saved) {
  for (const auto& [name, value] : saved)
    if (find_attribute(name) == nullptr)
      return formatted(
          "the program had set its {} to {}, and this CropDL does not know that attribute; restart the "
          "version with the CropDL that took it",
          name, value);
  return "";
}

Status restore_attributes(const AttributeValues& saved) {
  for (const auto& [name, value] : saved) own_names.insert(name);
  if (Status s = each_saved(saved, AttributeStage::kFirst, put_back); !s) return s;
  // Of the last stage, only raise limits now: that needs a privilege.
  const auto raise = [](const Attribute& a, const std::string& value) {
    return is_limit(a) && is_more(value, a.read(a.parameter)) ? put_back(a, value) : Status();
  };
  if (Status s = each_saved(saved, AttributeStage::kLast, raise); !s) return s;
  errno = 0;
  const int error = restore_credentials(saved) ? 0 : errno;
  const auto check = [error](const Attribute& a, const std::string& value) -> Status {
    if (stands(a, value)) return {};
    return cannot(a, value, error != 0 ? errno_text(error) : formatted("it is {} here", a.read(a.parameter)));
  };
  if (Status s = each_saved(saved, AttributeStage::kCredentials, check); !s) return s;
  return each_saved(saved, AttributeStage::kAfterCredentials, put_back);
}

Status restore_last_attributes(const AttributeValues& saved, bool limits) {
  return each_saved(saved, AttributeStage::kLast, [limits](const Attribute& a, const std::string& value) {
    return is_limit(a) == limits ? put_back(a, value) : Status();
  });
}

AttributeValues thread_attributes() {
  AttributeValues values;
  for (const Attribute& a : attributes())
    if (a.of_thread) values[a.name] = a.read(a.parameter);
  return values;
}

Result<AttributeValues> differing_attributes(const AttributeValues& mains) {
  AttributeValues differing;
  for (const auto& [name, mine] : thread_attributes()) {
    const std::string& main = mains.at(name);
    if (mine == main && has_new_thread(name, mine)) continue;
    const Attribute& a = *find_attribute(name);
    if (a.write == nullptr || !can_be_saved(a, mine))
      return Error{"has another {} than the main thread ({}, not {}), which cannot be saved yet", name,
                   mine.empty() ? "none" : mine, main.empty() ? "none" : main};
    differing[name] = mine;
  }
  return differing;
}

std::string put_back_differing(const AttributeValues& saved) {
  std::string line;
  for (const auto& [name, value] : saved) {
    const Attribute* const a = find_attribute(name);
    if (a == nullptr || put_back(*a, value)) continue;
    line += (line.empty() ? "" : ", ") + name + " " + value;
  }
  return line;
}

}  // namespace cropdl::process
