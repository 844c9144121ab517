// Finds a program's iterations in the stream of its collectives (docs/boundaries.md). Pure: no I/O, clock or
// threads. LH, agent's thread; tests.
#pragma once

#include <cstdint>
#include <vector>

namespace cropdl::boundaries {

// One collective. Equal values mean equal calls.
struct Symbol {
  uint64_t exact;  // hash that includes count, datatype and communicator
  uint64_t site;   // hash of the function and the caller only
  bool operator==(const Symbol&) const = default;
};

// One repeating iteration, as a hash of its symbols: of the sequence, or of the multiset if the order varies.
struct Pattern {
  uint32_t length = 0;  // symbols in one iteration; 0: none
  bool any_order = false;
  bool by_site = false;  // by sites only: counts or communicators differ each time
  uint64_t exact = 0, site = 0;
  uint32_t age = 0;  // number of patterns found before it
  // Iterations seen when it was found; 0: unknown, in an image of an older build.
  uint64_t found_after = 0;
  uint64_t windows = 0;   // iterations counted under this pattern
  uint64_t left_at = 0;   // iterations when another pattern replaced it
  uint64_t boundary = 0;  // and the position where its last one ended
  bool operator==(const Pattern&) const = default;
};

class PeriodFinder {
 public:
  static constexpr uint32_t kLongest = 1024;  // symbols in an iteration

  PeriodFinder();

  void add(Symbol symbol);
  // Symbols were lost at this position.
  void gap();
  // `iterations` iterations ended whose symbols were lost.
  void skip(uint64_t iterations);
  // Takes back the last boundary: if any order is allowed, the end of one iteration with the beginning of the
  // next looks like an iteration.
  void go_back_on_boundary();

  bool found() const { return current_.length != 0; }
  const Pattern& pattern() const { return current_; }
  // Completed iterations since the first found. Those of a new pattern count once it has held for as many as
  // the older ones; until then it may be an evaluation.
  uint64_t iterations() const;
  // The last symbol ended an iteration.
  bool at_boundary() const { return found() && since_boundary_ == 0; }
  // The last iteration directly followed the one before it.
  bool uninterrupted() const { return uninterrupted_; }

  // The current iteration has more symbols than the pattern: something else is running.
  bool interrupted() const { return since_boundary_ > current_.length; }

  // The position, for a finder that continues from here after a restart.
  struct Place {
    Pattern pattern;
    uint64_t iterations = 0;
    uint64_t symbols = 0;           // since the last boundary
    std::vector<Symbol> last = {};  // those symbols, at most length - 1
  };
  Place place() const;
  void resume(const Place& place);

 private:
  static constexpr uint32_t kHistory = 4 * kLongest;

  // Prefix hashes of all symbols, in a ring; a window's hash is the difference of two.
  class Sums {
   public:
    Sums() : multiset_(kHistory), sequence_(kHistory) {}
    void add(uint64_t position, uint64_t symbol);
    uint64_t window(bool any_order, uint64_t begin, uint64_t end) const;

   private:
    static uint64_t at(const std::vector<uint64_t>& sums, uint64_t n) { return sums[n % kHistory]; }
    std::vector<uint64_t> multiset_, sequence_;
  };

  void keep(Symbol symbol);
  // The older pattern, while the current one does not count yet.
  const Pattern* interrupted_pattern() const;
  uint64_t known() const;  // symbols in the history since the last gap
  const Symbol& symbol(uint64_t position) const { return symbols_[position % kHistory]; }
  uint64_t hash(uint64_t position, bool by_site) const {
    return by_site ? symbol(position).site : symbol(position).exact;
  }
  bool same(uint64_t a, uint64_t b, bool by_site) const { return hash(a, by_site) == hash(b, by_site); }
  bool ends_with(const Pattern& p, uint64_t back = 0) const;
  bool find(bool by_site);
  uint64_t equal_windows(uint64_t length, bool any_order, bool by_site, uint64_t most = ~uint64_t{0}) const;
  bool is_whole(uint64_t length, bool by_site) const;
  bool found_now(uint64_t length, bool any_order, bool by_site);
  bool always_new() const;
  double surprise(bool by_site) const;
  bool return_to_former();
  bool is_stranger(const Pattern& p) const;
  void change_to(Pattern next, uint64_t windows, bool is_former);
  void begin_behind_interruption(uint64_t boundary);

  Sums exact_, site_;
  std::vector<Symbol> symbols_;  // a ring
  uint64_t size_ = 0;            // symbols ever added
  uint64_t begin_ = 0;           // position after the last gap
  // Symbols since something was found, or since the search began.
  uint64_t learning_ = 0;
  Pattern current_;
  std::vector<Pattern> former_;
  uint32_t patterns_ = 0;        // ever found
  uint64_t iterations_ = 0;      // including those of a new pattern
  uint64_t in_a_row_ = 0;        // iterations since the pattern became current
  uint64_t since_boundary_ = 0;  // symbols
  bool uninterrupted_ = false;
};

}  // namespace cropdl::boundaries
