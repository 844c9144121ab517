// Builds the table of data-processing rows from the entries for this processor's instruction set.
#include <deque>
#include <initializer_list>
#include <set>
#include <string>

#include "gpu_state/software/engine/data/instruction_set.h"
#include "gpu_state/software/engine/data/matrix.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

std::string substituted(const Entry& entry) {
  std::string result;
  for (const char* at = entry.opcode; *at; ++at) {
    if (*at == '$')
      result += entry.first;
    else if (*at == '#')
      result += entry.second;
    else
      result += *at;
  }
  return result;
}

// Calls `each` with every expansion of {a|b}; alternatives contain no braces.
template <class Each>
void expand(const std::string& pattern, const Each& each) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) return each(pattern);
  const size_t close = pattern.find('}', open);
  for (size_t from = open + 1; from <= close;) {
    const size_t to = std::min(pattern.find('|', from), close);
    expand(pattern.substr(0, open) + pattern.substr(from, to - from) + pattern.substr(close + 1), each);
    from = to + 1;
  }
}

std::vector<Kind> counted(const Kind* kinds, size_t limit) {
  size_t count = 0;
  while (count < limit && kinds[count] != Kind::kNone) ++count;
  return {kinds, kinds + count};
}

struct Table {
  std::deque<std::string> opcodes;  // the storage behind the rows' views
  std::vector<Row> rows;

  void add(const MatrixEntry& entry) {
    expand(entry.opcode, [&](const std::string& opcode) {
      opcodes.push_back(opcode);
      rows.push_back({opcodes.back(), std::vector<Kind>(entry.destinations, entry.kind),
                      std::vector<Kind>(entry.sources, entry.kind), entry.execute, "matrix"});
    });
  }
  void add(const Entries& entries) {
    for (size_t i = 0; i < entries.count; ++i) {
      const Entry& entry = entries.first[i];
      expand(substituted(entry), [&](const std::string& opcode) {
        opcodes.push_back(opcode);
        rows.push_back({opcodes.back(), counted(entry.destinations, std::size(entry.destinations)),
                        counted(entry.sources, std::size(entry.sources)), entry.execute, entries.what});
      });
    }
  }
};

Table table() {
  Table result;
  const MatrixEntries matrices = matrix();
  for (size_t i = 0; i < matrices.count; ++i) result.add(matrices.first[i]);
  const auto add = [&result](std::initializer_list<Entries (*)()> all) {
    for (auto entries : all) result.add(entries());
  };
#define CROPDL_DATA_ADD(target)                                                                          \
  add({target::integer, target::logic, target::compare, target::floating, target::convert, target::half, \
       target::approximate})
  switch (instruction_set()) {
    case InstructionSet::kBaseline:
      CROPDL_DATA_ADD(baseline);
      break;
    case InstructionSet::kAvx2:
      CROPDL_DATA_ADD(avx2);
      break;
  }
#undef CROPDL_DATA_ADD
  add({baseline::half_compare, baseline::directed, baseline::narrow});
  result.add(baseline::narrow_integer());
  result.add(baseline::exact());
  result.add(baseline::video());
  return result;
}

}  // namespace

std::string canonical(std::string_view opcode) {
  static const std::set<std::string_view> kMovable = {"rn",  "rz",  "rm",  "rp",  "rni",       "rzi",  "rmi",
                                                      "rpi", "rna", "ftz", "sat", "satfinite", "relu", "NaN"};
  std::string kept;
  std::set<std::string_view> moved;
  while (!opcode.empty()) {
    const size_t length = opcode.find('.', 1);
    const std::string_view word = opcode.substr(0, length);  // with its dot, except for the first
    if (word[0] == '.' && kMovable.count(word.substr(1)))
      moved.insert(word);
    else
      kept += word;
    opcode.remove_prefix(word.size());
  }
  for (std::string_view word : moved) kept += word;
  return kept;
}

const std::vector<Row>& data_rows() {
  static const Table made = table();
  return made.rows;
}

}  // namespace cropdl::engine
