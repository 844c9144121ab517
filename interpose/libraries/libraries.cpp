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

std::string Libraries::function_name(uint32_t library, uint32_t function) const {
  const auto found = table(library);
  return found && found->names != nullptr && function < found->functions ? found->names[function] : "";
}

Status Libraries::look_at(const LoadedObject& object) const {
  for (Library* l : all_)
    if (l->follows_objects())
      if (auto s = l->look_at(object); !s) return s;
  return {};
}

void Libraries::publish() const {
  for (Library* l : all_)
    for (const Library::Table& t : l->seam_tables()) {
      seam::LowerLibrary& entry = seam::writable_control->libraries[t.number];
      snprintf(entry.implementation, sizeof entry.implementation, "%s", t.name);
      entry.table = t.entries;
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

std::optional<Library::Place> Libraries::place() const {
  for (Library* l : all_)
    if (auto place = l->place()) return place;
  return std::nullopt;
}

bool Libraries::drains_early() const {
  return std::ranges::any_of(all_, [](Library* l) { return l->active() && l->drains_early(); });
}

void Libraries::begin_early_drain() const {
  for (Library* l : all_)
    if (l->active() && l->drains_early()) l->begin_early_drain();
}

void Libraries::drive(seam::LibraryNumber held_in) const {
  for (Library* l : all_)
    if (l->active()) l->drive(l->number() == held_in);
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

Status Libraries::save_contents(restart::ChunkSink& sink) const {
  for (Library* l : all_)
    if (auto s = l->used() ? l->save_contents(sink) : Status(); !s) return s;
  return {};
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
