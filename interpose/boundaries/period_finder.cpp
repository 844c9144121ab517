#include "interpose/boundaries/period_finder.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace cropdl::boundaries {
namespace {

constexpr uint64_t kWindows = 3;  // minimum number of consecutive, equal windows
// Maximum number of windows counted as proof, and of symbols examined.
constexpr uint64_t kLookBack = 64;
constexpr size_t kFormerPatterns = 3;
// A part between two iterations that is longer than two iterations by this many symbols may be a new pattern.
constexpr uint64_t kInterruption = 16;
// Threshold against chance repetitions: the probability of a false find in n random symbols, at any of n
// positions, is about 2^-kBits * sum(n^-kGrowth).
constexpr double kBits = 6, kGrowth = 1.5;
// Programs make few kinds of calls; with fewer kinds than this, nothing would ever be proved.
constexpr double kLeastKinds = 8;
// After kPatience symbols without a find, only every kSeldom-th position is examined.
constexpr uint64_t kPatience = 20'000, kSeldom = 16;
constexpr uint64_t kBase = 0x9e37'79b9'7f4a'7c15;  // of the polynomial hash of sequences; odd

// splitmix64 (Steele, Lea, Flood 2014); sums of its values distinguish multisets.
uint64_t mixed(uint64_t x) {
  x += 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

}  // namespace

void PeriodFinder::Sums::add(uint64_t position, uint64_t symbol) {
  const uint64_t hash = mixed(symbol), next = (position + 1) % kHistory;
  multiset_[next] = at(multiset_, position) + hash;
  sequence_[next] = at(sequence_, position) * kBase + hash;
}

uint64_t PeriodFinder::Sums::window(bool any_order, uint64_t begin, uint64_t end) const {
  return any_order ? at(multiset_, end) - at(multiset_, begin)
                   : at(sequence_, end) - at(sequence_, begin) * power(kBase, end - begin);
}

PeriodFinder::PeriodFinder() : symbols_(kHistory) {}

uint64_t PeriodFinder::known() const { return std::min<uint64_t>(size_ - begin_, kHistory - 1); }

bool PeriodFinder::ends_with(const Pattern& p, uint64_t back) const {
  if (p.length == 0 || known() < (back + 1) * p.length) return false;
  const uint64_t end = size_ - back * p.length, begin = end - p.length;
  return (!p.by_site && exact_.window(p.any_order, begin, end) == p.exact) ||
         site_.window(p.any_order, begin, end) == p.site;
}

const Pattern* PeriodFinder::interrupted_pattern() const {
  for (const Pattern& older : former_)
    if (older.age < current_.age && in_a_row_ < older.windows) return &older;
  return nullptr;
}

uint64_t PeriodFinder::iterations() const {
  const Pattern* older = interrupted_pattern();
  return older ? older->left_at : iterations_;
}

void PeriodFinder::keep(Symbol symbol) {
  symbols_[size_ % kHistory] = symbol;
  exact_.add(size_, symbol.exact);
  site_.add(size_, symbol.site);
  ++size_;
}

void PeriodFinder::add(Symbol symbol) {
  keep(symbol);
  ++since_boundary_;
  ++learning_;
  if (found() && since_boundary_ >= current_.length && ends_with(current_)) {
    uninterrupted_ = since_boundary_ == current_.length;
    if (uninterrupted_)
      since_boundary_ = 0;
    else
      begin_behind_interruption(size_ - since_boundary_);
    skip(1);
    if (!current_.by_site) return;
  }
  if (found() && !at_boundary() && return_to_former()) return;
  if (found() && !current_.by_site && since_boundary_ < 2ull * current_.length + kInterruption) {
    learning_ = 0;
    return;
  }
  if (learning_ > kPatience && size_ % kSeldom != 0) return;
  if (find(false) || (found() && current_.by_site)) return;
  if (size_ % kSeldom == 0 && always_new()) find(true);
}

// Finds the shortest length whose last windows are equal, in order first, then in any order. If they prove
// nothing yet, longer lengths (multiples) are not tried.
bool PeriodFinder::find(bool by_site) {
  const uint64_t longest = std::min<uint64_t>(known() / kWindows, kLongest);
  for (const bool any_order : {false, true})
    for (uint64_t length = 1 + any_order; length <= longest; ++length) {
      if (!any_order && !same(size_ - 1, size_ - 1 - length, by_site)) continue;
      if (equal_windows(length, any_order, by_site, kWindows) < kWindows) continue;
      if (any_order && !is_whole(length, by_site)) continue;
      return found_now(length, any_order, by_site);
    }
  return false;
}

// Number of last windows that are equal, at most `most`.
uint64_t PeriodFinder::equal_windows(uint64_t length, bool any_order, bool by_site, uint64_t most) const {
  const Sums& sums = by_site ? site_ : exact_;
  const uint64_t last = sums.window(any_order, size_ - length, size_);
  uint64_t windows = 1, begin = size_ - length;
  for (; windows < most && begin >= size_ - known() + length; ++windows, begin -= length)
    if (sums.window(any_order, begin - length, begin) != last) break;
  return windows;
}

// If a loop repeats a symbol several times in a row, windows that are one too short are equal multisets for a
// while, each beginning one symbol deeper in the row. Rejects these.
bool PeriodFinder::is_whole(uint64_t length, bool by_site) const {
  const uint64_t alike = equal_windows(length, true, by_site);
  std::unordered_map<uint64_t, uint64_t> counts;
  for (uint64_t i = size_ - length; i < size_; ++i) {
    const uint64_t often = ++counts[hash(i, by_site)];
    if (often > 1 && alike < often + kWindows) return false;
  }
  return true;
}

// Accepts the length if the repetition is proved. Iterations begin where the repetition begins.
bool PeriodFinder::found_now(uint64_t length, bool any_order, bool by_site) {
  const uint64_t first = size_ - known();
  uint64_t begin = size_ - kWindows * length;
  if (any_order) {
    begin = size_ - equal_windows(length, true, by_site) * length;
  } else {
    while (begin > first && same(begin - 1, begin - 1 + length, by_site)) --begin;
  }
  const uint64_t windows = (size_ - begin) / length, rest = (size_ - begin) % length;
  double proof = static_cast<double>(std::min(windows, kLookBack) - 1) *
                 (static_cast<double>(length) * surprise(by_site) -
                  (any_order ? std::lgamma(static_cast<double>(length) + 1) / std::log(2.0) : 0));
  if (proof < kBits + kGrowth * std::log2(static_cast<double>(size_))) return false;
  Pattern p;
  p.length = static_cast<uint32_t>(length);
  p.any_order = any_order;
  p.by_site = by_site;
  p.exact = exact_.window(any_order, size_ - rest - length, size_ - rest);
  p.site = site_.window(any_order, size_ - rest - length, size_ - rest);
  p.age = patterns_++;
  p.found_after = windows;
  change_to(p, windows, false);
  since_boundary_ = rest;
  return true;
}

// Bits of evidence per repeated symbol, from the number of kinds seen lately.
double PeriodFinder::surprise(bool by_site) const {
  std::unordered_set<uint64_t> kinds;
  for (uint64_t i = 1; i <= std::min(known(), kLookBack); ++i) kinds.insert(hash(size_ - i, by_site));
  return std::log2(std::max(kLeastKinds, static_cast<double>(kinds.size())));
}

// Whether new calls keep appearing, because counts or communicators differ each time.
bool PeriodFinder::always_new() const {
  constexpr uint64_t kBefore = 7 * kLookBack, kEnough = 4;
  if (learning_ < 2 * kLookBack || known() < 2 * kLookBack) return false;
  std::unordered_set<uint64_t> kinds;
  const uint64_t begin = size_ - std::min(known(), kBefore + kLookBack);
  for (uint64_t i = begin; i < size_ - kLookBack; ++i) kinds.insert(symbol(i).exact);
  uint64_t fresh = 0;
  for (uint64_t i = size_ - kLookBack; i < size_; ++i) fresh += kinds.insert(symbol(i).exact).second;
  return fresh >= kEnough;
}

// Whether the last window is p's and shares no site with an iteration of the current pattern.
bool PeriodFinder::is_stranger(const Pattern& p) const {
  if (p.length < 2 || p.any_order || p.by_site || since_boundary_ < p.length) return false;
  if (known() < since_boundary_ + current_.length) return false;
  std::unordered_set<uint64_t> sites;
  const uint64_t boundary = size_ - since_boundary_;
  for (uint64_t i = boundary - current_.length; i < boundary; ++i) sites.insert(symbol(i).site);
  for (uint64_t i = size_ - p.length; i < size_; ++i)
    if (sites.count(symbol(i).site) != 0) return false;
  return true;
}

// Two windows prove a return; so does one window in order if the current loop makes none of its calls.
bool PeriodFinder::return_to_former() {
  for (const Pattern& p : former_) {
    if (!ends_with(p)) continue;
    const bool is_second = interrupted() && ends_with(p, 1);
    if (!is_second && !is_stranger(p)) continue;
    uint64_t windows = is_second ? 2 : 1;
    while (since_boundary_ >= (windows + 1) * p.length && ends_with(p, windows)) ++windows;
    const uint64_t boundary = p.boundary;
    change_to(p, windows, true);
    since_boundary_ = 0;
    if (windows == 1) begin_behind_interruption(boundary);
    return true;
  }
  return false;
}

// If an older pattern returns, the part in between was an interruption.
void PeriodFinder::change_to(Pattern next, uint64_t windows, bool is_former) {
  if (is_former) std::erase(former_, next);
  if (found() && current_.by_site && !next.by_site && !is_former) {
    iterations_ -= std::min(iterations_, current_.windows);  // the same iterations, now by exact symbols
  } else if (found()) {
    current_.left_at = iterations_;
    current_.boundary = size_ - since_boundary_;
    former_.push_back(current_);
    if (former_.size() > kFormerPatterns) former_.erase(former_.begin());
  }
  iterations_ = (is_former && next.age < current_.age ? next.left_at : iterations_) + windows;
  in_a_row_ = windows;
  next.windows += windows;
  current_ = next;
  uninterrupted_ = true;
  learning_ = 0;
}

// The last window has ended, after an interruption since `boundary`, the one before. If the interruption is
// inside the window, the assumed beginning of an iteration was wrong: calls like its last ones were made
// before the loop. From now on iterations begin after the interruption; the one that has just begun is
// counted, its first boundary has passed.
void PeriodFinder::begin_behind_interruption(uint64_t boundary) {
  const uint64_t length = current_.length, window = size_ - length;
  since_boundary_ = 0;
  if (current_.any_order || current_.by_site || exact_.window(false, window, size_) != current_.exact) return;
  if (boundary < size_ - known()) return;  // forgotten
  uint64_t before = 0, behind = 0;         // symbols of a window, on both sides of the interruption
  while (boundary + before < window && same(boundary + before, window + before, false)) ++before;
  while (behind < length - before && same(window - 1 - behind, size_ - 1 - behind, false)) ++behind;
  if (before == 0 || behind == 0 || before + behind != length || window - behind < boundary + before) return;
  current_.exact = exact_.window(false, window - behind, size_ - behind);
  current_.site = site_.window(false, window - behind, size_ - behind);
  since_boundary_ = size_ - boundary - before;
}

void PeriodFinder::gap() {
  begin_ = size_;
  since_boundary_ = 1;  // a position somewhere within an iteration
  uninterrupted_ = false;
}

void PeriodFinder::skip(uint64_t iterations) {
  iterations_ += iterations;
  in_a_row_ += iterations;
  current_.windows += iterations;
}

void PeriodFinder::go_back_on_boundary() {
  skip(~uint64_t{0});
  since_boundary_ = current_.length - 1;  // the next symbol may end an iteration
  uninterrupted_ = false;
}

PeriodFinder::Place PeriodFinder::place() const {
  const Pattern* older = interrupted_pattern();
  Place p{older ? *older : current_, iterations(), since_boundary_, {}};
  // At least this many: the older pattern is interrupted.
  if (older) p.symbols = older->length + 1ull;
  if (!found()) return p;
  for (uint64_t n = std::min<uint64_t>({p.symbols, known(), p.pattern.length - 1}); n > 0; --n)
    p.last.push_back(symbol(size_ - n));
  return p;
}

void PeriodFinder::resume(const Place& place) {
  *this = PeriodFinder();
  current_ = place.pattern;
  in_a_row_ = current_.windows;
  patterns_ = current_.age + 1;
  iterations_ = place.iterations;
  since_boundary_ = place.symbols;
  for (const Symbol& s : place.last) keep(s);
}

}  // namespace cropdl::boundaries
