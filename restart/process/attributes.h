// What the kernel keeps of a process besides memory, files, signals and ids: limits, credentials, scheduling,
// prctl's switches, namespaces and so on, in one table (attribute_table.cpp). What the program has changed
// since its start is saved and put back, or the checkpoint is refused by its name; what it left alone is as
// the environment of each start has it (a launcher's binding, a batch system's limits). LH, main thread: many
// belong to a thread, and the program's is that one.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"

namespace cropdl::process {

using AttributeValues = std::map<std::string, std::string>;  // by name

// When a changed one is put back. Credentials come after all that may need them; what hinders the LH itself
// at the very last.
enum class AttributeStage { kFirst, kCredentials, kAfterCredentials, kLast };

struct Attribute {
  std::string name;   // for people, and in images
  std::string shown;  // where the kernel shows it: `status:Groups limits:Max_cpu_time prctl:PR_GET_TSC`
  AttributeStage stage = AttributeStage::kFirst;
  std::string (*read)(int) = nullptr;                      // "": this kernel has no such thing
  bool (*write)(int, const std::string& value) = nullptr;  // errno when false; null: cannot be put back
  int parameter = 0;
  bool (*savable)(const std::string& value) = nullptr;  // null: every value is, if there is a `write`
  bool exact = true;       // false: more than the value may stand afterwards (registrations)
  bool of_thread = false;  // each thread has its own, at first that of the one that made it
};
const std::map<std::string, Attribute>& attributes_by_name();
std::span<const Attribute> attributes();  // in the order in which they are put back

// What else /proc shows, and why it is not in the table: `status:VmPeak` -> "statistics".
const std::map<std::string, std::string>& other_attributes();

// Just before the program runs (a first time, or again): from here on changes are its own.
void remember_attributes();

// "" or a line: the program has changed the root directory, which is the LH's, too. Any thread of the LH.
std::string root_refusal();

// Those that are the program's: changed since its start, in this run or before. An error names one that
// cannot be saved.
Result<AttributeValues> changed_attributes();

// Puts them back, in the stages up to kAfterCredentials: the MPI has been started, nothing privileged
// follows. Limits are raised here, and lowered in the last stage, which cannot fail then.
Status restore_attributes(const AttributeValues& saved);
Status restore_last_attributes();
Status restore_limits();  // last of all: threads are made before, which they may forbid

// Of the calling thread. One that differs from the main thread's is the program's, or of the program's
// making; an error says which cannot be saved, after the thread's name.
AttributeValues thread_attributes();
Result<AttributeValues> differing_attributes(const AttributeValues& mains);
// "" or what could not be put back, and is as the main thread has it.
std::string put_back_differing(const AttributeValues& saved);

// Credentials are put back together (credentials.cpp).
bool restore_credentials(const AttributeValues& saved);

}  // namespace cropdl::process
