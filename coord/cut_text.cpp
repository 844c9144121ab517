// Readable and unambiguous text of the agreement's messages and states: traces, and the explorer's state
// table. Pure.
#include <charconv>

#include "coord/cut.h"

namespace cropdl::coord {

namespace {

void put(const char* name, std::string* out) { *out += name; }
void put(uint64_t v, std::string* out) {
  char digits[24];
  *out += ' ';
  out->append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
}
void put(const std::vector<CollectiveCount>& v, std::string* out) {
  *out += " [";
  for (const CollectiveCount& c : v) put(c.comm, out), put(c.begun, out);
  *out += ']';
}
void put(const std::vector<PeerCount>& v, std::string* out) {
  *out += " [";
  for (const PeerCount& p : v) put(uint64_t{p.world_rank}, out), put(p.messages, out);
  *out += ']';
}
void put(const std::vector<uint64_t>& v, std::string* out) {
  *out += " [";
  for (const uint64_t x : v) put(x, out);
  *out += ']';
}
void put(const Standing& s, std::string* out) {
  put(s.counts, out);
  put(s.inside, out);
  put(s.held, out);
  put(s.progress, out);
  *out += s.refusal;
}

template <class... A>
void line(std::string* out, const A&... a) {
  (put(a, out), ...);
  *out += ';';
}

}  // namespace

void describe(const Order& order, std::string* out) {
  if (const auto* m = std::get_if<Hold>(&order)) line(out, "Hold", m->attempt);
  if (const auto* m = std::get_if<Targets>(&order)) line(out, "Targets", m->attempt, m->revision, m->targets);
  if (const auto* m = std::get_if<Stop>(&order)) line(out, "Stop", m->attempt);
  if (const auto* m = std::get_if<Drain>(&order)) line(out, "Drain", m->attempt, m->revision, m->expected);
  if (const auto* m = std::get_if<Write>(&order)) line(out, "Write", m->attempt);
  if (const auto* m = std::get_if<Resume>(&order)) line(out, "Resume", m->attempt);
}

void describe(const Report& report, std::string* out) {
  if (const auto* m = std::get_if<Stands>(&report)) line(out, "Stands", m->attempt, m->revision, m->standing);
  if (const auto* m = std::get_if<Sent>(&report))
    line(out, "Sent", m->attempt, uint64_t{m->stopped}, m->sent);
  if (const auto* m = std::get_if<Drained>(&report)) line(out, "Drained", m->attempt, m->revision);
  if (const auto* m = std::get_if<Written>(&report)) line(out, "Written", m->attempt);
  if (const auto* m = std::get_if<Refused>(&report)) line(out, "Refused", m->attempt);
  if (const auto* m = std::get_if<Failed>(&report)) line(out, "Failed", m->attempt);
}

void Coordinator::describe(int64_t now, std::string* out) const {
  line(out, "C", static_cast<uint64_t>(stage_), attempt_, tries_, revision_, drain_revision_, raises_,
       uint64_t{version_begun_});
  if (busy())
    line(out, "t", static_cast<uint64_t>(now - started_), static_cast<uint64_t>(now - targets_told_),
         static_cast<uint64_t>(now - last_motion_), static_cast<uint64_t>(now - last_drains_));
  for (const auto& [comm, begun] : targets_) line(out, "", comm, begun);
  for (const Seat& s : seats_) {
    line(out, "S", uint64_t{s.joined}, uint64_t{s.gone.empty()}, uint64_t{s.reported}, s.revision,
         s.standing);
    line(out, "s", uint64_t{s.stopped}, s.sent, s.expected, s.drain_revision, s.drained_revision,
         uint64_t{s.write_over});
  }
  *out += failure_;
}

void Participant::describe(std::string* out) const {
  line(out, "P", static_cast<uint64_t>(stage_), attempt_, revision_, drain_revision_,
       uint64_t{sent_reported_});
  line(out, "l", last_standing_, last_sent_);
}

}  // namespace cropdl::coord
