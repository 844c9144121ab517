#include "interpose/boundaries/period_finder.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace cropdl::boundaries {
namespace {

constexpr uint64_t kWindows = 3;    // that follow one another and are alike: at least
constexpr uint64_t kLookBack = 64;  // windows that are counted as proof, and symbols that are looked at
constexpr size_t kFormerPatterns = 3;
// What is between two iterations and longer than two of them by so many symbols may be a new pattern.
constexpr uint64_t kInterruption = 16;
// When a repetition is no chance: what is found in n random symbols by mistake, at any of n places, has a
// probability of about 2^-kBits * sum(n^-kGrowth).
constexpr double kBits = 6, kGrowth = 1.5;
// Programs make few kinds of calls; with fewer than this many seen so far nothing would ever be proved.
constexpr double kLeastKinds = 8;
// Behind so many symbols in which nothing was found, one in so many is a place to look at.
constexpr uint64_t kPatience = 20'000, kSeldom = 16;
constexpr uint64_t kBase = 0x9e37'79b9'7f4a'7c15;  // of the sequences' polynomial hash; odd

// splitmix64 (Steele, Lea, Flood 2014): sums of its values tell multisets apart.
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

uint64_t PeriodFinder::Sums::sequence(uint64_t begin, uint64_t end) const {
  return at(sequence_, end) - at(sequence_, begin) * power(kBase, end - begin);
}

PeriodFinder::PeriodFinder() : symbols_(kHistory) {}

uint64_t PeriodFinder::known() const { return std::min<uint64_t>(size_ - begin_, kHistory - 1); }

bool PeriodFinder::same(uint64_t a, uint64_t b, bool by_site) const {
  return by_site ? symbol(a).site == symbol(b).site : symbol(a).exact == symbol(b).exact;
}

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
      begin_behind_interruption();
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

// The shortest length of which the last windows are alike, in their order before those in any. If those prove
// nothing yet, a longer one, a multiple of it for instance, is not looked for.
bool PeriodFinder::find(bool by_site) {
  const Sums& sums = by_site ? site_ : exact_;
  const uint64_t longest = std::min<uint64_t>(known() / kWindows, kLongest);
  for (const bool any_order : {false, true})
    for (uint64_t length = 1 + any_order; length <= longest; ++length) {
      if (!any_order && !same(size_ - 1, size_ - 1 - length, by_site)) continue;
      if (!alike(sums, any_order, length)) continue;
      if (any_order && !is_whole(length, by_site)) continue;
      return found_now(length, any_order, by_site);
    }
  return false;
}

bool PeriodFinder::alike(const Sums& sums, bool any_order, uint64_t length) const {
  const uint64_t last = sums.window(any_order, size_ - length, size_);
  return sums.window(any_order, size_ - 2 * length, size_ - length) == last &&
         sums.window(any_order, size_ - 3 * length, size_ - 2 * length) == last;
}

// Of a loop in which a symbol comes several times in a row, windows that are shorter by one are the same
// multiset for a while: each begins one symbol deeper in the row.
bool PeriodFinder::is_whole(uint64_t length, bool by_site) const {
  const uint64_t alike = alike_at_the_end(length, by_site);
  std::unordered_map<uint64_t, uint64_t> counts;
  for (uint64_t i = size_ - length; i < size_; ++i) {
    const uint64_t often = ++counts[by_site ? symbol(i).site : symbol(i).exact];
    if (often > 1 && alike < often + kWindows) return false;
  }
  return true;
}

// How many of the last windows are the same multiset.
uint64_t PeriodFinder::alike_at_the_end(uint64_t length, bool by_site) const {
  const Sums& sums = by_site ? site_ : exact_;
  const uint64_t first = size_ - known(), last = sums.multiset(size_ - length, size_);
  uint64_t begin = size_ - length;
  while (begin >= first + length && sums.multiset(begin - length, begin) == last) begin -= length;
  return (size_ - begin) / length;
}

// Whether it is proved. The first window begins where the repetition does, so that iterations begin there.
bool PeriodFinder::found_now(uint64_t length, bool any_order, bool by_site) {
  const uint64_t first = size_ - known();
  uint64_t begin = size_ - kWindows * length;
  if (any_order) {
    begin = size_ - alike_at_the_end(length, by_site) * length;
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
  change_to(p, windows, false);
  since_boundary_ = rest;
  return true;
}

// Bits per symbol that a repetition tells, by the kinds that were seen lately.
double PeriodFinder::surprise(bool by_site) const {
  std::unordered_set<uint64_t> kinds;
  for (uint64_t i = 1; i <= std::min(known(), kLookBack); ++i)
    kinds.insert(by_site ? symbol(size_ - i).site : symbol(size_ - i).exact);
  return std::log2(std::max(kLeastKinds, static_cast<double>(kinds.size())));
}

// There are always calls that never were as they are: their counts or communicators are others each time.
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

// The last window is p's, and nothing of it is in an iteration of the current pattern.
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

// Two windows prove it, or a single one in its order of which the present loop makes no call.
bool PeriodFinder::return_to_former() {
  for (const Pattern& p : former_) {
    if (!ends_with(p)) continue;
    const bool is_second = interrupted() && ends_with(p, 1);
    if (!is_second && !is_stranger(p)) continue;
    uint64_t windows = is_second ? 2 : 1;
    while (since_boundary_ >= (windows + 1) * p.length && ends_with(p, windows)) ++windows;
    change_to(p, windows, true);
    since_boundary_ = 0;
    return true;
  }
  return false;
}

// What came in between until an older pattern comes back was an interruption.
void PeriodFinder::change_to(Pattern next, uint64_t windows, bool is_former) {
  if (is_former) std::erase(former_, next);
  if (found() && current_.by_site && !next.by_site && !is_former) {
    iterations_ -= std::min(iterations_, current_.windows);  // the same iterations, told better
  } else if (found()) {
    current_.left_at = iterations_;
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

// The last window has ended, and something came between it and the boundary before. Where that stands in the
// middle of a window, what was taken for the beginning of an iteration is not: calls like its last ones were
// made before the loop. It begins behind the interruption from now on; the iteration that has just
// begun there is counted, the boundary at its beginning is behind us.
void PeriodFinder::begin_behind_interruption() {
  const uint64_t length = current_.length, window = size_ - length, boundary = size_ - since_boundary_;
  since_boundary_ = 0;
  if (current_.any_order || current_.by_site || exact_.sequence(window, size_) != current_.exact) return;
  uint64_t before = 0, behind = 0;  // symbols of a window, on both sides of the interruption
  while (boundary + before < window && same(boundary + before, window + before, false)) ++before;
  while (behind < length - before && same(window - 1 - behind, size_ - 1 - behind, false)) ++behind;
  if (before == 0 || behind == 0 || before + behind != length || window - behind < boundary + before) return;
  current_.exact = exact_.sequence(window - behind, size_ - behind);
  current_.site = site_.sequence(window - behind, size_ - behind);
  since_boundary_ = size_ - boundary - before;
}

void PeriodFinder::gap() {
  begin_ = size_;
  since_boundary_ = 1;  // somewhere in an iteration
  uninterrupted_ = false;
}

void PeriodFinder::skip(uint64_t iterations) {
  iterations_ += iterations;
  in_a_row_ += iterations;
  current_.windows += iterations;
}

void PeriodFinder::go_back_on_boundary() {
  skip(~uint64_t{0});
  since_boundary_ = current_.length - 1;  // the next symbol may end one
  uninterrupted_ = false;
}

PeriodFinder::Place PeriodFinder::place() const {
  const Pattern* older = interrupted_pattern();
  Place p{older ? *older : current_, iterations(), since_boundary_, {}};
  if (older) p.symbols = older->length + 1ull;  // or more
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
