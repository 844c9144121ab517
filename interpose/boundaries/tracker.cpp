#include "interpose/boundaries/tracker.h"

#include <algorithm>

#include "interpose/boundaries/token_ring.h"

namespace cropdl::boundaries {

namespace {

// us between looks; the ring must hold all tokens written meanwhile. If the first calls of a loop are lost,
// each rank begins to count its iterations somewhere else, and no end of an iteration is common to all.
constexpr int64_t kLearning = 20'000;
constexpr int64_t kFollowing = 100'000;
constexpr int64_t kSlowly = 4 * kFollowing;   // if few tokens come
constexpr int64_t kNothingComes = 1'000'000;  // before the program's first collective, MPI_Init included
// After more iterations than this without a call, a communicator is dropped.
constexpr uint32_t kForgotten = 2;
// Number of communicators watched while no iteration is known.
constexpr size_t kCommunicators = 4096;
// Number of loops whose iterations are remembered call by call.
constexpr size_t kLoops = 16;

uint64_t mixed_with(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e37'79b9'7f4a'7c15;
  return h ^ (h >> 29);
}

}  // namespace

int64_t Tracker::look(int64_t now) {
  const uint64_t written = ring.written, before = finder_.iterations();
  came_ += written - read_;
  if (written + 1 < read_ || (written > read_ && written - read_ > TokenRing::kTokens))
    lose(written);
  else if (written < read_)  // a thread of a library that counts otherwise is writing
    return now + kLearning;
  while (read_ != written) {
    const Token& t = ring.tokens[read_ % TokenRing::kTokens];
    const uint64_t number = t.number;
    const uint64_t call = t.call, what = t.what, identity = t.identity, begun = t.begun, caller = t.caller,
                   outer = t.outer, stack = t.stack;
    if (number < read_ + 1) break;  // its thread is still writing it
    if (number > read_ + 1 || t.number != number) {
      lose(ring.written);
      break;
    }
    ++read_;
    try {
      if (call & kMakesObjects) {
        count(identity, begun);
        continue;
      }
      uint64_t site = mixed_with(mixed_with(0, call), caller);
      if (outer != 0) site = mixed_with(site, outer);
      take({call, identity, caller, outer}, begun,
           {mixed_with(mixed_with(mixed_with(site, what), identity), stack), site});
    } catch (...) {  // no memory: this token was taken in part
      tear();
      throw;
    }
  }
  if (finder_.iterations() != before) measure(now);
  if (now < next_look_) return next_look_;  // at a cut it is looked more often
  pause_ = next_pause();
  came_ = 0;
  // All ranks of a node look at the same moments: what they take from a program whose ranks wait for one
  // another is then lost once, not once for each.
  next_look_ = now - now % pause_ + pause_;
  return next_look_;
}

int64_t Tracker::next_pause() const {
  // Iterations are timed by the looks.
  const bool well_timed = iteration_us_ != 0 && (iteration_us_ < kFollowing || iteration_us_ > 20 * kSlowly);
  const int64_t longest = read_ == 0 ? kNothingComes : well_timed ? kSlowly : kFollowing;
  if (came_ == 0) return std::clamp(pause_ * 2, kLearning, longest);
  if (!finder_.found()) return kLearning;
  if (came_ > TokenRing::kTokens / 4) return kFollowing;
  return std::clamp(came_ < TokenRing::kTokens / 16 ? pause_ * 2 : pause_, kFollowing, longest);
}

// Median of the last three: a checkpoint or an evaluation in between does not count as an iteration's time.
void Tracker::measure(int64_t now) {
  if (measured_at_ != 0 && finder_.iterations() > measured_iterations_) {
    const auto ended = static_cast<int64_t>(finder_.iterations() - measured_iterations_);
    std::rotate(lately_.begin(), lately_.begin() + 1, lately_.end());
    lately_.back() = std::max<int64_t>(1, (now - measured_at_) / ended);
    std::array<int64_t, 3> sorted = lately_;
    std::sort(sorted.begin(), sorted.end());
    iteration_us_ = sorted[1] != 0 ? sorted[1] : sorted[2];
  }
  measured_at_ = now;
  measured_iterations_ = finder_.iterations();
}

// Keeps only the newer half of the ring: the older half may be overwritten while it is read.
void Tracker::lose(uint64_t written) {
  read_ = written - std::min(written, TokenRing::kTokens / 2);
  tear();
}

void Tracker::tear() {
  finder_.gap();
  taken_count_ = 0;
  torn_ = finder_.found();
  refused_ = 0;
}

void Tracker::count(uint64_t identity, uint64_t begun) {
  if (counts_.size() > kCommunicators && (!finder_.found() || finder_.interrupted()))
    counts_.clear();  // programs make and free them
  if (identity == 0) return;
  Count& count = counts_[identity];
  count.now = begun;
  if (torn_) count_what_was_lost(count);
}

void Tracker::take(const Call& call, uint64_t begun, Symbol symbol) {
  count(call.identity, begun);
  taken_[taken_count_++ % kCalls] = call;
  finder_.add(symbol);
  if (!finder_.at_boundary()) return;
  if (torn_ && finder_.pattern().any_order && !counts_agree() &&
      refused_ < uint64_t{2} * PeriodFinder::kLongest) {
    ++refused_;
    return finder_.go_back_on_boundary();
  }
  torn_ = false;
  end_iteration();
  if (finder_.uninterrupted()) note_iteration();
}

// Once per pattern: its calls are the same each time.
void Tracker::note_iteration() {
  const Pattern& pattern = finder_.pattern();
  if (pattern.length > std::min<uint64_t>(taken_count_, kCalls)) return;
  const auto known = iteration_of_.find(pattern.age);
  if (known != iteration_of_.end() && known->second.exact == pattern.exact) return;
  Iteration noted{pattern.exact, {}};
  for (uint64_t n = pattern.length; n > 0; --n) noted.calls.push_back(taken_[(taken_count_ - n) % kCalls]);
  iteration_of_[pattern.age] = std::move(noted);
  if (iteration_of_.size() <= kLoops) return;
  const auto oldest = iteration_of_.begin();
  iteration_of_.erase(oldest->first == pattern.age ? std::next(oldest) : oldest);
}

std::vector<Call> Tracker::iteration() const {
  if (!finder_.found()) return {};
  const auto known = iteration_of_.find(finder_.place().pattern.age);
  return known == iteration_of_.end() ? std::vector<Call>() : known->second.calls;
}

void Tracker::resume(const PeriodFinder::Place& place, std::vector<Call> iteration) {
  finder_.resume(place);
  if (!iteration.empty()) iteration_of_[place.pattern.age] = {place.pattern.exact, std::move(iteration)};
}

// Calls on a communicator used in each iteration tell how many iterations ended, if nothing came between
// them.
void Tracker::count_what_was_lost(const Count& count) {
  if (count.every == 0) return;
  const uint64_t before = count.now - 1;
  const uint64_t ended = (before - std::min(before, count.at_boundary)) / count.every;
  if (ended == 0) return;
  for (auto& [identity, other] : counts_) other.at_boundary += ended * other.every;
  finder_.skip(ended);
}

bool Tracker::counts_agree() const {
  return std::all_of(counts_.begin(), counts_.end(), [](const auto& c) {
    const Count& count = c.second;
    return count.every == 0 || (count.now - count.at_boundary) % count.every == 0;
  });
}

void Tracker::end_iteration() {
  for (auto c = counts_.begin(); c != counts_.end();) {
    Count& count = c->second;
    count.quiet = count.now == count.at_boundary ? count.quiet + 1 : 0;
    if (finder_.uninterrupted()) count.every = count.at_boundary == 0 ? 0 : count.now - count.at_boundary;
    count.at_boundary = count.now;
    c = count.quiet > kForgotten ? counts_.erase(c) : std::next(c);
  }
}

coord::NextBoundary Tracker::next_boundary() const {
  coord::NextBoundary next;
  if (!finder_.found() || torn_ || finder_.interrupted()) return next;
  const bool here = finder_.at_boundary();
  for (const auto& [identity, c] : counts_) {
    if (c.every == 0) continue;
    const uint64_t begun = c.at_boundary + (here ? 0 : c.every);
    if (c.now > begun) return {};
    next.counts.push_back({identity, begun, c.every});
  }
  if (next.counts.empty()) return next;
  next.iteration = finder_.iterations() + (here ? 0 : 1);
  next.iteration_us = static_cast<uint64_t>(iteration_us_);
  return next;
}

}  // namespace cropdl::boundaries
