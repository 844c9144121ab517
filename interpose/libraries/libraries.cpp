#include "interpose/libraries/libraries.h"

#include <cstdio>

#include "interpose/handles/heap.h"
#include "interpose/seam/control_page.h"

namespace cropdl::libraries {

Library* Libraries::by_number(uint32_t number) const {
  for (Library* l : all_)
    if (l->number() == number) return l;
  return nullptr;
}

std::optional<Library::Table> Libraries::table(uint32_t number) const {
  for (Library* l : all_)
    for (const Library::Table& t : l->seam_tables())
      if (t.number == number) return t;
  return std::nullopt;
}

Status Libraries::format() const {
  if (!all_.empty()) handles::heap_format();
  for (Library* l : all_)
    if (auto s = l->format(); !s) return s;
  return {};
}

Status Libraries::restart() const {
  if (all_.empty()) return {};
  // Without one the program used none of these libraries.
  if (!handles::heap_exists()) return format();
  if (const char* why = handles::heap_check()) return Error{std::string("cannot restart: ") + why};
  for (Library* l : all_)
    if (auto s = l->restart(); !s) return s;
  return {};
}

void Libraries::prepare(const launching::Boot& boot) const {
  for (Library* l : all_) l->prepare(boot);
}

std::string Libraries::function_name(uint32_t library, uint32_t function) const {
  const auto found = table(library);
  return found && found->names != nullptr && function < found->functions ? found->names[function] : "";
}

bool Libraries::follow_objects() const {
  for (Library* l : all_)
    if (l->follows_objects()) return true;
  return false;
}

Status Libraries::look_at(const LoadedObject& object) const {
  for (Library* l : all_)
    if (l->follows_objects())
      if (auto s = l->look_at(object); !s) return s;
  return {};
}

void Libraries::publish() const {
  for (Library* l : all_) {
    for (const Library::Table& t : l->seam_tables()) {
      seam::LowerLibrary& entry = seam::writable_control->libraries[t.number];
      snprintf(entry.implementation, sizeof entry.implementation, "%s", t.name);
      entry.table = t.entries;
    }
  }
}

void Libraries::fill_status(coord::RankStatus& status) const {
  counting::fill(*this, status);
  for (Library* l : all_) l->fill_status(status);
}

void Libraries::add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*target)(uint64_t)) const {
  for (Library* l : all_) l->add_counts(counts, target);
}

std::vector<coord::PeerCount> Libraries::sent() const {
  for (Library* l : all_)
    if (auto counts = l->sent(); !counts.empty()) return counts;
  return {};
}

std::string Libraries::drain_trouble() const {
  for (Library* l : all_)
    if (std::string line = l->drain_trouble(); !line.empty()) return line;
  return "";
}

std::optional<Library::Place> Libraries::place() const {
  for (Library* l : all_)
    if (auto place = l->place()) return place;
  return std::nullopt;
}

std::string Libraries::refusal() const {
  for (Library* l : all_)
    if (std::string line = l->refusal(); !line.empty()) return line;
  return "";
}

bool Libraries::open_descriptors() const {
  for (Library* l : all_)
    if (l->used()) return true;
  return false;
}

bool Libraries::drains_early() const {
  for (Library* l : all_)
    if (l->active() && l->drains_early()) return true;
  return false;
}

void Libraries::begin_early_drain() const {
  for (Library* l : all_)
    if (l->active() && l->drains_early()) l->begin_early_drain();
}

std::string Libraries::early_drain_trouble() const {
  for (Library* l : all_)
    if (std::string line = l->early_drain_trouble(); !line.empty()) return line;
  return "";
}

std::string Libraries::stop_trouble(int64_t since) const {
  for (Library* l : all_)
    if (std::string line = l->stop_trouble(since); !line.empty()) return line;
  return "";
}

void Libraries::end_early_drain() const {
  for (Library* l : all_) l->end_early_drain();
}

void Libraries::drive(seam::LibraryNumber held_in) const {
  for (Library* l : all_)
    if (l->active()) l->drive(l->number() == held_in);
}

void Libraries::progress() const {
  for (Library* l : all_)
    if (l->active()) l->progress();
}

void Libraries::begin_drain(std::span<const coord::PeerCount> expected) const {
  for (Library* l : all_)
    if (l->active()) l->begin_drain(expected);
}

bool Libraries::drain_step() const {
  bool done = true;
  for (Library* l : all_)
    if (l->active()) done = l->drain_step() && done;
  return done;
}

Status Libraries::quiesce() const {
  Status all;
  for (Library* l : all_)
    if (l->active())
      if (Status one = l->quiesce(); !one && all) all = one;
  return all;
}

void Libraries::announce_end() const {
  for (Library* l : all_)
    if (l->active()) l->announce_end();
}

void Libraries::resume() const {
  for (Library* l : all_)
    if (l->active()) l->resume();
}

Status Libraries::save_contents(restart::ChunkSink& sink) const {
  for (Library* l : all_)
    if (auto s = l->used() ? l->save_contents(sink) : Status(); !s) return s;
  return {};
}

uint64_t Libraries::memory_in_use() const {
  uint64_t bytes = 0;
  for (Library* l : all_)
    if (l->used()) bytes += l->memory_in_use();
  return bytes;
}

uint64_t Libraries::content_bytes() const {
  uint64_t bytes = 0;
  for (Library* l : all_)
    if (l->used()) bytes += l->content_bytes();
  return bytes;
}

std::string Libraries::devices() const {
  std::string text;
  for (Library* l : all_)
    if (const std::string its = l->used() ? l->devices() : ""; !its.empty())
      text += (text.empty() ? "" : ", ") + its;
  return text;
}

Status Libraries::load_contents(const restart::ImageReader& image) const {
  for (Library* l : all_)
    if (auto s = l->used() ? l->load_contents(image) : Status(); !s) return s;
  return {};
}

}  // namespace cropdl::libraries
