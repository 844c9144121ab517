// Process attributes (attribute_table.cpp): what the kernel keeps besides memory, files, signals and ids,
// such as limits, credentials, scheduling, prctl switches and namespaces. Those that the program changed
// since its start are saved and put back; one that cannot be saved refuses the checkpoint by its name. The
// others come from the environment of each start (a launcher's binding, a batch system's limits). LH, main
// thread: many attributes belong to a thread, and this one is the program's.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"

namespace cropdl::process {

using AttributeValues = std::map<std::string, std::string>;  // by name
inline constexpr char kAffinity[] = "CPU affinity";

// When an attribute is put back: credentials after those that may need them; what hinders the LH, last.
enum class AttributeStage { kFirst, kCredentials, kAfterCredentials, kLast };

using AttributeReader = std::string(int parameter);                     // "": this kernel lacks the attribute
using AttributeWriter = bool(int parameter, const std::string& value);  // false: see errno
using AttributeTest = bool(const std::string& value);

struct Attribute {
  bool of_thread = false;  // each thread has its own value, at first its creator's
  std::string name;        // in messages and images
  std::string shown;       // where the kernel shows it: `status:Groups limits:Max_cpu_time prctl:PR_GET_TSC`
  AttributeReader* read = nullptr;
  AttributeWriter* write = nullptr;  // null: cannot be put back, or together with others (kCredentials)
  int parameter = 0;
  AttributeStage stage = AttributeStage::kFirst;
  AttributeTest* savable = nullptr;  // null: every value, if `write` is set
  bool exact = true;  // false: more bits than the value's may be set afterwards (registrations)
};
std::span<const Attribute> attributes();  // in the order in which they are put back

// Records the values just before the program runs, also at a restart. Later changes are the program's.
void remember_attributes();

// "" or a refusal: the program has changed the root directory, which the LH shares. Any thread of the LH.
std::string root_refusal();

// The attributes that the program changed in any of its runs. An error names one that cannot be saved.
Result<AttributeValues> changed_attributes();

// "" or a refusal: a saved attribute (of a newer CropDL) that the table does not have. Any thread of the LH.
std::string unknown_attribute(const AttributeValues& saved);

// Puts attributes back, in the stages up to kAfterCredentials. The MPI runs already, and nothing privileged
// follows. Raises limits; the last stage only lowers them, which cannot fail.
Status restore_attributes(const AttributeValues& saved);
// `limits`: only these, last of all, since one could forbid making threads; else the others.
Status restore_last_attributes(const AttributeValues& saved, bool limits = false);

// Attributes of the calling thread. differing_attributes() returns those that differ from the main thread's
// (`mains`), or are not inherited by a new thread. An error, to follow the thread's name, says which cannot.
AttributeValues thread_attributes();
Result<AttributeValues> differing_attributes(const AttributeValues& mains);
// "" or the attributes that could not be put back; they keep the main thread's values.
std::string put_back_differing(const AttributeValues& saved);

bool restore_credentials(const AttributeValues& saved);  // all together (credentials.cpp)

}  // namespace cropdl::process
