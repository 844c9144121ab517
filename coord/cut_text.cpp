// Unambiguous text of the agreement's messages and states, for traces and the explorer's state table. Pure.
#include <charconv>
#include <type_traits>

#include "base/fields.h"
#include "coord/cut.h"

namespace cropdl::coord {

namespace {

void put(const char* name, std::string* out) { *out += name; }
void put(const std::string& text, std::string* out) { *out += " \"" + text + '"'; }
template <class T>
requires std::is_arithmetic_v<T>
void put(T v, std::string* out) {
  char digits[32];
  *out += ' ';
  if constexpr (std::is_same_v<T, bool>)
    *out += v ? '1' : '0';
  else
    out->append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
}
template <class T>
void put(const std::vector<T>& v, std::string* out);
template <class T>
requires std::is_class_v<T>
void put(const T& message, std::string* out) {
  each_field(message, [out](const auto& member) { put(member, out); });
}
template <class T>
void put(const std::vector<T>& v, std::string* out) {
  *out += " [";
  for (const T& x : v) put(x, out);
  *out += ']';
}

template <class... A>
void line(std::string* out, const A&... a) {
  (put(a, out), ...);
  *out += ';';
}

// The alternative's name and its members (base/fields.h).
template <class V, size_t N>
void line_of(const char* const (&names)[N], const V& message, std::string* out) {
  static_assert(N == std::variant_size_v<V>);
  std::visit([&](const auto& m) { line(out, names[message.index()], m); }, message);
}

}  // namespace

void describe(const Order& order, std::string* out) {
  line_of({"Hold", "Targets", "Stop", "Drain", "Write", "Resume", "End"}, order, out);
}

void describe(const Report& report, std::string* out) {
  line_of({"StatusReport", "Sent", "Drained", "Written", "Refused", "Failed"}, report, out);
}

// Without what follows from the rest: RankSlot::behind, short_of_end, held_back and unexpected.
void Coordinator::describe(int64_t now, std::string* out) const {
  line(out, "C", static_cast<int>(stage_), attempt_, tries_, revision_, drain_revision_, raises_,
       version_begun_, discarding_, by_user_, end_status_);
  if (busy())
    line(out, "t", now - started_, now - raised_, now - last_motion_, now - last_drains_, patience_,
         !ends_.empty(), stage_ == Stage::kStopping ? bound_from_ - started_ : 0);
  for (const auto& [comm, begun] : targets_) line(out, "", comm, begun);
  for (const auto& [comm, since] : awaited_) line(out, "a", comm, now - since);
  for (const RankSlot& s : slots_) {
    line(out, "S", s.joined, s.gone.empty(), s.reported, s.revision, s.status);
    line(out, "s", s.stopped, s.examining, s.sent, s.expected, s.drain_revision, s.drained_revision,
         s.write_over);
  }
  *out += failure_;
}

void Participant::describe(std::string* out) const {
  line(out, "P", static_cast<int>(stage_), attempt_, revision_, drain_revision_, sent_reported_,
       last_examining_, end_status_);
  line(out, "l", last_status_, last_sent_);
}

}  // namespace cropdl::coord
