#include "interpose/lower/libraries.h"

#include <cstdio>

#include "interpose/handles/heap.h"
#include "interpose/lower/control_page.h"

namespace cropdl::lower {

Library* Libraries::by_number(uint32_t number) const {
  for (Library* l : all_)
    if (l->number() == number) return l;
  return nullptr;
}

Status Libraries::format() const {
  if (!all_.empty()) handles::heap_format();
  for (Library* l : all_)
    if (auto s = l->format(); !s) return s;
  return {};
}

Status Libraries::restart() const {
  if (all_.empty()) return {};
  if (const char* why = handles::heap_check()) return Error{std::string("cannot restart: ") + why};
  for (Library* l : all_)
    if (auto s = l->restart(); !s) return s;
  return {};
}

void Libraries::publish() const {
  for (Library* l : all_) {
    seam::LowerLibrary& entry = writable_control->libraries[l->number()];
    snprintf(entry.implementation, sizeof entry.implementation, "%s", l->implementation());
    entry.table = l->table();
  }
}

void Libraries::hold() const {
  for (Library* l : all_) l->hold();
}
void Libraries::set_targets(std::span<const coord::CollectiveCount> targets) const {
  for (Library* l : all_) l->set_targets(targets);
}
void Libraries::release() const {
  for (Library* l : all_) l->release();
}
void Libraries::fill_standing(coord::Standing& standing) const {
  for (Library* l : all_) l->fill_standing(standing);
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

void Libraries::end_early_drain() const {
  for (Library* l : all_) l->end_early_drain();
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

void Libraries::resume() const {
  for (Library* l : all_)
    if (l->active()) l->resume();
}

}  // namespace cropdl::lower
