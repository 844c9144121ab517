// Assigns places to registers by liveness analysis and a linear scan, so that a function's thousands of
// virtual registers share few places and a frame fits into the caches. Liveness along one thread's path holds
// for all lanes, since a lane's values are its own. But only registers of the same lane size share places:
// diverged lanes are in different parts of the function, and lane 9 of a 4-byte register overlaps lane 4 of
// an 8-byte one.
#include <algorithm>
#include <cstring>
#include <set>

#include "gpu_state/software/engine/draft.h"

namespace cropdl::engine {

namespace {

struct Interval {
  uint32_t begin = ~0u, end = 0;  // instructions, inclusive
  void include(uint32_t at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

constexpr uint64_t kMostBits = uint64_t{1} << 32;  // limit for each of the two liveness bit sets: half a GiB

struct Part {  // a basic block
  uint32_t begin, end;
  std::vector<uint32_t> next;
};

class Bits {
 public:
  explicit Bits(size_t count) : words_((count + 63) / 64) {}
  void set(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void clear(uint32_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  bool merge(const Bits& other) {
    bool changed = false;
    for (size_t i = 0; i < words_.size(); ++i) {
      uint64_t now = words_[i] | other.words_[i];
      changed |= now != words_[i];
      words_[i] = now;
    }
    return changed;
  }
  template <class Each>
  void each(const Each& call) const {
    for (size_t i = 0; i < words_.size(); ++i)
      for (uint64_t word = words_[i]; word; word &= word - 1)
        call(static_cast<uint32_t>(i * 64 + static_cast<size_t>(__builtin_ctzll(word))));
  }

 private:
  std::vector<uint64_t> words_;
};

std::vector<Part> parts_of(const DraftRoutine& draft) {
  std::set<uint32_t> starts{0};
  for (const auto& [name, at] : draft.labels) starts.insert(at);
  for (uint32_t i = 0; i < draft.code.size(); ++i) {
    const Draft& one = draft.code[i];
    if (!one.label.empty() || !one.labels.empty() || !one.falls_through) starts.insert(i + 1);
  }
  std::vector<Part> parts;
  std::map<uint32_t, uint32_t> number;
  for (auto at = starts.begin(); at != starts.end(); ++at) {
    if (*at >= draft.code.size()) break;
    auto after = std::next(at);
    uint32_t end = after == starts.end() ? static_cast<uint32_t>(draft.code.size())
                                         : std::min(*after, static_cast<uint32_t>(draft.code.size()));
    number[*at] = static_cast<uint32_t>(parts.size());
    parts.push_back({*at, end, {}});
  }
  for (Part& part : parts) {
    const Draft& last = draft.code[part.end - 1];
    auto to = [&](uint32_t at) {
      auto found = number.find(at);
      if (found != number.end()) part.next.push_back(found->second);
    };
    if (!last.label.empty()) to(draft.labels.at(last.label));
    for (const std::string& label : last.labels) to(draft.labels.at(label));
    if (last.falls_through) to(part.end);
  }
  return parts;
}

std::vector<Interval> intervals_of(const DraftRoutine& draft, const std::vector<Part>& parts) {
  const size_t count = draft.registers.size();
  std::vector<Interval> intervals(count);
  std::vector<Bits> in(parts.size(), Bits(count)), out(parts.size(), Bits(count));
  auto through = [&](const Part& part, Bits alive) {
    for (uint32_t i = part.end; i-- > part.begin;) {
      const Draft& one = draft.code[i];
      // A guarded write keeps the values of the excluded lanes; a parameter is written word by word.
      if (one.guard.what == Ref::What::kNone)
        for (uint32_t r : one.writes)
          if (!draft.registers[r].is_parameter) alive.clear(r);
      if (one.guard.what == Ref::What::kRegister) alive.set(one.guard.number);
      for (uint32_t r : one.reads)
        if (!draft.registers[r].is_parameter) alive.set(r);
    }
    return alive;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t p = parts.size(); p-- > 0;) {
      for (uint32_t next : parts[p].next) changed |= out[p].merge(in[next]);
      changed |= in[p].merge(through(parts[p], out[p]));
    }
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    in[p].each([&](uint32_t r) { intervals[r].include(parts[p].begin); });
    out[p].each([&](uint32_t r) { intervals[r].include(parts[p].end - 1); });
    for (uint32_t i = parts[p].begin; i < parts[p].end; ++i) {
      const Draft& one = draft.code[i];
      for (const auto* list : {&one.writes, &one.reads})
        for (uint32_t r : *list) intervals[r].include(i);
      if (one.guard.what == Ref::What::kRegister) intervals[one.guard.number].include(i);
    }
  }
  for (size_t r = 0; r < count; ++r)
    if (draft.registers[r].stays) intervals[r] = {0, static_cast<uint32_t>(draft.code.size())};
  return intervals;
}

// Free bytes of a frame; first fit.
class FrameRoom {
 public:
  explicit FrameRoom(uint32_t unit) : unit_(unit) {}
  uint32_t take(uint32_t bytes) {
    bytes = rounded(bytes);
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second < bytes) continue;
      uint32_t at = hole->first, left = hole->second - bytes;
      holes_.erase(hole);
      if (left) holes_[at + bytes] = left;
      return at;
    }
    uint32_t at = end_;
    end_ += bytes;
    return at;
  }
  void give(uint32_t at, uint32_t bytes) {
    bytes = rounded(bytes);
    auto hole = holes_.emplace(at, bytes).first;
    auto after = std::next(hole);
    if (after != holes_.end() && hole->first + hole->second == after->first) {
      hole->second += after->second;
      holes_.erase(after);
    }
    if (hole != holes_.begin()) {
      auto before = std::prev(hole);
      if (before->first + before->second == hole->first) {
        before->second += hole->second;
        holes_.erase(hole);
      }
    }
  }
  uint32_t end() const { return end_; }

 private:
  uint32_t rounded(uint32_t bytes) const { return (bytes + unit_ - 1) / unit_ * unit_; }
  uint32_t unit_, end_ = 0;
  std::map<uint32_t, uint32_t> holes_;
};

std::vector<Place> scan(const DraftRoutine& draft, const std::vector<Part>& parts, uint32_t* frame_bytes) {
  auto intervals = intervals_of(draft, parts);
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < intervals.size(); ++r)
    if (intervals[r].begin != ~0u) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(intervals[a].begin, a) < std::pair(intervals[b].begin, b);
  });
  std::vector<Place> places(intervals.size(), 0);
  std::map<uint32_t, FrameRoom> rooms;            // by lane size; 0: predicates
  std::set<std::pair<uint32_t, uint32_t>> alive;  // by end
  auto room_of = [&](uint32_t r) -> FrameRoom& {
    uint32_t lane = draft.registers[r].is_parameter ? 4 : draft.registers[r].lane_bytes;
    return rooms.try_emplace(lane, lane ? std::max<uint32_t>(64, lane * kLanes) : 4).first->second;
  };
  for (uint32_t r : order) {
    while (!alive.empty() && alive.begin()->first < intervals[r].begin) {
      uint32_t dead = alive.begin()->second;
      room_of(dead).give(static_cast<uint32_t>(places[dead]), draft.registers[dead].bytes);
      alive.erase(alive.begin());
    }
    places[r] = static_cast<Place>(room_of(r).take(draft.registers[r].bytes));
    alive.emplace(intervals[r].end, r);
  }
  // Consecutively, predicates last.
  std::map<const FrameRoom*, uint32_t> bases;
  uint32_t end = 0;
  for (auto room = rooms.rbegin(); room != rooms.rend(); ++room) {
    bases[&room->second] = end;
    end += room->second.end();
  }
  for (uint32_t r : order) places[r] += static_cast<Place>(bases[&room_of(r)]);
  *frame_bytes = (end + 127) / 64 * 64;
  return places;
}

Status check_labels(const DraftRoutine& draft, const Routine& routine) {
  for (const Draft& one : draft.code) {
    auto labels = one.labels;
    if (!one.label.empty()) labels.push_back(one.label);
    for (const std::string& label : labels)
      if (!draft.labels.count(label))
        return Error{"{} (line {} of the PTX) in {} goes to {}, which is not there", one.source->opcode,
                     one.source->line, routine.name, label};
  }
  return {};
}

struct Places {
  std::vector<Place> registers, constants;
  Place of(const Ref& ref) const {
    switch (ref.what) {
      case Ref::What::kRegister:
        return registers[ref.number];
      case Ref::What::kConstant:
        return constants[ref.number];
      case Ref::What::kNone:
        return kNowhere;
    }
    return kNowhere;
  }
};

// Writes the constants, each replicated for 32 lanes, below the end of the routine's storage.
std::vector<Place> place_constants(const DraftRoutine& draft, Routine* routine) {
  std::vector<Place> constants(draft.constants.size());
  Place below = 0;
  for (const auto& [value, number] : draft.constants) {
    below -= static_cast<Place>(std::max<uint64_t>(value[0] * kLanes, 64));
    constants[number] = below;
  }
  routine->storage.resize(static_cast<size_t>(-below) + 64);
  auto end =
      (reinterpret_cast<uintptr_t>(routine->storage.data()) + static_cast<size_t>(-below) + 63) / 64 * 64;
  routine->constants = reinterpret_cast<std::byte*>(end);
  for (const auto& [value, number] : draft.constants) {
    std::byte* to = routine->constants + constants[number];
    if (!value[0]) {  // a predicate
      uint32_t bits = value[1] ? kAllLanes : 0;
      std::memcpy(to, &bits, 4);
    }
    for (size_t l = 0; value[0] && l < kLanes; ++l) std::memcpy(to + l * value[0], &value[1], value[0]);
  }
  return constants;
}

void place_code(const DraftRoutine& draft, const Places& places, Routine* routine) {
  for (const Draft& one : draft.code) {
    Instruction in = one.instruction;
    if (one.operands.size() > Instruction::kOperands) {
      auto& many = routine->many.emplace_back();
      for (const Ref& ref : one.operands) many.push_back(places.of(ref));
      in.many = many.data();
    } else {
      for (size_t i = 0; i < one.operands.size(); ++i) in.operands[i] = places.of(one.operands[i]);
    }
    if (one.guard.what != Ref::What::kNone) in.guard = places.of(one.guard);
    if (!one.label.empty()) in.immediate = draft.labels.at(one.label);
    if (!one.labels.empty()) {
      in.immediate = static_cast<int64_t>(routine->tables.size());
      auto& table = routine->tables.emplace_back();
      for (const std::string& label : one.labels) table.push_back(draft.labels.at(label));
    }
    routine->code.push_back(in);
    routine->source.push_back(one.source);
  }
}

void place_calls(DraftRoutine& draft, const Places& places, Routine* routine) {
  auto parameter = [&](uint32_t r, uint32_t size) { return Parameter{places.registers[r], size}; };
  for (size_t i = 0; i < draft.parameters.size(); ++i)
    routine->parameters[i].place = places.registers[draft.parameters[i]];
  for (size_t i = 0; i < draft.returned.size(); ++i)
    routine->returned[i].place = places.registers[draft.returned[i]];
  for (DraftCall& call : draft.calls) {
    for (size_t i = 0; i < call.arguments.size(); ++i)
      call.site.arguments[i] = parameter(call.arguments[i], call.site.arguments[i].size);
    for (size_t i = 0; i < call.returned.size(); ++i)
      call.site.returned[i] = parameter(call.returned[i], call.site.returned[i].size);
    if (call.site.target == CallSite::Target::kRegister) call.site.address = places.registers[call.address];
    routine->calls.push_back(call.site);
  }
}

}  // namespace

Status place(DraftRoutine& draft, Routine* routine) {
  if (Status labels = check_labels(draft, *routine); !labels) return labels;
  auto parts = parts_of(draft);
  if (uint64_t bits = uint64_t{parts.size()} * draft.registers.size(); bits > kMostBits)
    return Error{"{} has too many registers and branches: {} and {}", routine->name, draft.registers.size(),
                 parts.size()};
  Places places;
  places.registers = scan(draft, parts, &routine->frame_bytes);
  places.constants = place_constants(draft, routine);
  place_code(draft, places, routine);
  place_calls(draft, places, routine);
  routine->barriers = draft.barriers;
  routine->matrices = draft.matrices;
  for (DraftCollective& collective : draft.collectives) {
    collective.use.mask = collective.mask.what == Ref::What::kNone ? 0 : places.of(collective.mask);
    routine->collectives.push_back(collective.use);
  }
  return {};
}

}  // namespace cropdl::engine
