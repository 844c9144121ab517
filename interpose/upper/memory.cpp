// Placement of the program's memory in the window.
#include <asm/unistd.h>
#include <linux/mman.h>

#include "base/page.h"
#include "interpose/seam/extents.h"
#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

constexpr uint64_t kHugePage = 2ull << 20;
constexpr uint64_t kHugest = 1ull << 30;  // the largest page of hugetlbfs; the other is kHugePage
// Room below a mapping that grows down; the stack's limit bounds it, too.
constexpr uint64_t kGrowRoom = 1ull << 30;

seam::ReuseSlot* reuse_slot(uint64_t length) {
  return &seam::state()->reuse[(length >> 12) * 0x9E3779B97F4A7C15ull >> 55];
}
static_assert(seam::kReuseSlots == 1u << 9);

constexpr uint64_t kMapArea = seam::kMapEnd - seam::kMapBegin;

// Whether [begin, begin + length) lies in the mapping area. The program's numbers may overflow when added.
bool in_map_area(uint64_t begin, uint64_t length) {
  return begin >= seam::kMapBegin && begin <= seam::kMapEnd && length <= seam::kMapEnd - begin;
}

// Whether no mapping of this size is possible. page_up() of a number just below 2^64 is 0, as is page_up(0).
bool impossible(uint64_t bytes) { return bytes > kMapArea; }

// Where placement starts over. It leaves the room into which the main stack grows.
uint64_t map_first() {
  const uint64_t first = seam::state()->map_first;
  return first != 0 ? first : seam::kMapBegin;
}

// Transparent huge pages need this alignment.
uint64_t alignment(uint64_t length) { return length >= kHugePage ? kHugePage : kPage; }

// The next range; `length` is at most kMapArea. Wraps around: MAP_FIXED_NOREPLACE finds ranges in use.
uint64_t next_range(uint64_t length, uint64_t align) {
  auto* s = seam::state();
  uint64_t old = __atomic_load_n(&s->map_next, __ATOMIC_RELAXED), begin, end;
  do {
    begin = (old + align - 1) & ~(align - 1);
    if (!in_map_area(begin, length)) begin = (map_first() + align - 1) & ~(align - 1);
    end = begin + length;
  } while (!__atomic_compare_exchange_n(&s->map_next, &old, end, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return begin;
}

// Opens it with a number of the lower half: the program's next descriptor has the number that it would have
// natively, and a child of another thread's fork closes it (close_lower_files).
long open_maps() {
  constexpr long kCloseOnExec = 02000000, kDuplicate = 1030;  // O_CLOEXEC, F_DUPFD_CLOEXEC
  const long fd = raw(__NR_openat, -100, as_word("/proc/self/maps"), kCloseOnExec);
  if (failed(fd)) return fd;
  const long lower = raw(__NR_fcntl, fd, kDuplicate, seam::control()->first_lower_file);
  if (failed(lower)) return fd;
  raw(__NR_close, fd);
  return lower;
}

// Returns a gap of `length` bytes in the window's mapping area, from /proc/self/maps; 0: none. Used only if
// next_range meets used ranges repeatedly, after the whole window has been handed out once.
CROPDL_OWN_FRAME uint64_t find_gap(uint64_t length, uint64_t align) {
  const Undisturbed undisturbed;  // no cut and no longjmp leaves the file open
  const long fd = open_maps();
  if (failed(fd)) return 0;
  char buffer[128];
  uint64_t number = 0, begin = 0, free_from = map_first(), found = 0;
  const auto look_before = [&](uint64_t limit) {
    const uint64_t aligned = (free_from + align - 1) & ~(align - 1);
    if (limit > aligned && limit - aligned >= length) found = aligned;
  };
  bool in_addresses = true;  // BEGIN-END and a space begin each line
  for (long n; found == 0 && (n = raw(__NR_read, fd, as_word(buffer), sizeof buffer)) > 0;) {
    for (long i = 0; i < n && found == 0; ++i) {
      const char c = buffer[i];
      if (c == '\n') {
        in_addresses = true;
      } else if (in_addresses && c == '-') {
        begin = number;
        number = 0;
      } else if (in_addresses && c == ' ') {
        if (number > free_from) {
          look_before(begin < seam::kMapEnd ? begin : seam::kMapEnd);
          free_from = number;
        }
        in_addresses = false;
        number = 0;
      } else if (in_addresses) {
        number = number << 4 | static_cast<uint64_t>(c >= 'a' ? c - 'a' + 10 : c - '0');
      }
    }
  }
  if (found == 0) look_before(seam::kMapEnd);
  raw(__NR_close, fd);
  return found;
}

using seam::Extents;

bool is_noted(uint64_t begin, uint64_t end) {
  return end > seam::kLowBegin && (begin < seam::kWindowBegin || end > seam::kWindowEnd);
}

// Makes a call that removes memory outside the window, and updates the table, in one piece. No other thread
// changes the table meanwhile: a thread that gets the same addresses adds them afterwards.
template <class Call, class Note>
long take_and_note(Call call, Note note) {
  if (is_child()) return call();
  const Undisturbed undisturbed;
  Extents extents(seam::state(), LetRun());
  const long result = call();
  if (!failed(result)) note(extents, static_cast<uint64_t>(result));
  return result;
}

// Maps at an address of the program's choice, then records it, in one piece: a checkpoint in between would
// not know the owner. Not before the call, which may fail (MAP_FIXED_NOREPLACE over the lower half's memory).
long map_and_remember(const SystemCall& c, uint64_t at, uint64_t length) {
  if (seam::in_window(at) || length == 0) return pass_on(c);
  const Undisturbed undisturbed;
  const long result = pass_on(c);
  if (failed(result) || is_child()) return result;
  const auto begin = static_cast<uint64_t>(result);
  if (is_noted(begin, begin + length)) Extents(seam::state(), LetRun()).add(begin, begin + length);
  // The kernel would extend it unnoticed.
  if ((c.a[3] & MAP_GROWSDOWN) != 0 && begin >= seam::kLowEnd) seam::state()->grows_outside = 1;
  return result;
}

// mremap; to `to` if the flags have MREMAP_FIXED.
long remap_and_remember(const SystemCall& c, long flags, long to) {
  const auto remap = [&] { return raw(c.nr, c.a[0], c.a[1], c.a[2], flags, to); };
  const bool moves = (flags & MREMAP_FIXED) != 0;
  if (seam::in_window(c.a[0]) && (!moves || seam::in_window(to))) return remap();
  return take_and_note(remap, [&](Extents& extents, uint64_t now) {
    const auto from = static_cast<uint64_t>(c.a[0]);
    if (c.a[1] != 0 && (flags & MREMAP_DONTUNMAP) == 0) extents.remove(from, from + page_up(c.a[1]));
    const uint64_t end = now + page_up(c.a[2]);
    if (is_noted(now, end)) extents.add(now, end);
  });
}

long map_if_free(const SystemCall& c, uint64_t address) {
  return raw(c.nr, address, c.a[1], c.a[2], c.a[3] | MAP_FIXED_NOREPLACE, c.a[4], c.a[5]);
}

// Aligns for the largest huge page, so that one call suffices and its error is the native one.
long place_huge_pages(const SystemCall& c) {
  const uint64_t length = (page_up(c.a[1]) + kHugest - 1) & ~(kHugest - 1);
  for (int attempt = 0; length <= kMapArea && attempt < 65; ++attempt) {
    const uint64_t address = attempt < 64 ? next_range(length, kHugest) : find_gap(length, kHugest);
    const long result = address == 0 ? kNoMemory : map_if_free(c, address);
    if (result == kExists) continue;
    // There are mostly none, and programs ask again and again: return the addresses.
    if (failed(result)) {
      uint64_t end = address + length;
      __atomic_compare_exchange_n(&seam::state()->map_next, &end, address, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED);
    }
    return result;
  }
  return kNoMemory;
}

bool is_lower_half(uint64_t begin, uint64_t length) {
  return seam::state()->no_lower_half_below_4gib == 0 && begin < seam::kLowEnd &&
         (begin >= seam::kLowBegin || length > seam::kLowBegin - begin);
}

// Whether a thread's block lies in the range; natively it lies above 4 GiB, so the program may take lower
// addresses as free. It contains the word that the kernel clears at the thread's end (man 2 set_tid_address).
bool holds_thread_block(uint64_t begin, uint64_t length) {
  const auto* s = seam::state();
  if (begin >= seam::kLowEnd || is_child()) return false;
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i) {
    const auto& t = s->threads[i];
    if (t.used == seam::kLive && t.clear_tid >= begin && t.clear_tid - begin < length && t.clear_tid != 0)
      return true;
  }
  return false;
}

// Whether MAP_FIXED or MREMAP_FIXED may replace the range.
bool may_replace(uint64_t begin, uint64_t length) {
  if (is_lower_half(begin, length)) return false;
  if (!holds_thread_block(begin, length)) return true;
  say_once(kBlockInTheWay,
           "cropdl: the program places memory (MAP_FIXED) below 4 GiB where CropDL has put the thread-local "
           "storage of one of its threads: it is told ENOMEM\n");
  return false;
}

// Whether the call is the C library's request for a thread stack (glibc nptl/allocatestack.c). An executable
// stack must stay in the window, because code outside it is not followed.
bool is_thread_stack(const SystemCall& c, uint64_t length) {
  constexpr uint64_t kLargest = 64ull << 20;  // leaves room for other stacks
  const auto* s = seam::state();
  return c.a[0] == 0 && c.a[3] == (MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK) && (c.a[2] & PROT_EXEC) == 0 &&
         length <= kLargest && s->executable_stacks == 0 && s->no_lower_half_below_4gib == 0;
}

// Places a stack below 4 GiB, so that the thread's block at its upper end can be a segment's base. There is
// room for some hundred stacks of the usual size; the others lie elsewhere.
long place_low_stack(const SystemCall& c, uint64_t length) {
  auto* s = seam::state();
  constexpr int kFewAttempts = 4;  // each failure is a system call
  for (int attempt = 0; attempt < kFewAttempts; ++attempt) {
    uint64_t old = __atomic_load_n(&s->low_stack_next, __ATOMIC_RELAXED), begin;
    do {
      begin = old >= seam::kLowStacks && old + length <= seam::kLowBegin ? old : seam::kLowStacks;
    } while (!__atomic_compare_exchange_n(&s->low_stack_next, &old, begin + length, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    const long result = map_if_free(c, begin);
    if (result != kExists) return result;
  }
  return kExists;
}

}  // namespace

long place_mmap(const SystemCall& c) {
  const long flags = c.a[3];
  if (impossible(c.a[1])) return kNoMemory;
  const uint64_t length = page_up(c.a[1]);
  const long fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  if (fixed != 0 && is_lower_half(c.a[0], length)) return kNoMemory;
  if (fixed == MAP_FIXED && !may_replace(c.a[0], length)) return kNoMemory;
  if (length == 0 || fixed != 0 || (flags & MAP_32BIT) != 0) return map_and_remember(c, c.a[0], length);
  // hugetlbfs: the kernel maps whole huge pages and returns EINVAL for an address that is not aligned to one.
  if ((flags & (MAP_HUGETLB | MAP_ANONYMOUS)) == (MAP_HUGETLB | MAP_ANONYMOUS)) return place_huge_pages(c);
  if (is_thread_stack(c, length)) {
    const long result = place_low_stack(c, length);
    if (!failed(result)) return result;
  }
  const uint64_t hint = c.a[0] & ~4095l;
  if (in_map_area(hint, length)) {
    const long result = map_if_free(c, hint);
    if (!failed(result)) return result;
  }
  if ((flags & MAP_GROWSDOWN) != 0) {  // leaves room below for growth
    for (int attempt = 0; length <= kMapArea - kGrowRoom && attempt < 64; ++attempt) {
      const long result = map_if_free(c, next_range(length + kGrowRoom, alignment(length)) + kGrowRoom);
      if (result != kExists) return result;
    }
    return kNoMemory;
  }
  // Programs map the same sizes again and again: the last address, if free (otherwise the kernel refuses),
  // has warm page tables.
  seam::ReuseSlot* slot = reuse_slot(length);
  const seam::ReuseSlot last = *slot;
  if (last.length == length && in_map_area(last.address, length)) {
    const long result = map_if_free(c, last.address);
    if (result != kExists && result != kInvalid) return result;
  }
  for (int attempt = 0; attempt < 64; ++attempt) {
    const uint64_t address = next_range(length, alignment(length));
    const long result = map_if_free(c, address);
    if (result == kExists) continue;
    if (result == kInvalid && (flags & MAP_ANONYMOUS) == 0)
      return place_huge_pages(c);  // the file may be on hugetlbfs
    if (!failed(result)) *slot = {length, address};
    return result;
  }
  for (int attempt = 0; attempt < 64; ++attempt) {  // another thread may take the gap first
    const uint64_t address = find_gap(length, kHugePage);
    if (address == 0) return kNoMemory;
    const long result = map_if_free(c, address);
    if (result != kExists) return result;
  }
  return kNoMemory;
}

long place_thread_block(const SystemCall& c) {
  // Not for ld.so's reservation for a library with a larger alignment: its code would lie below 4 GiB.
  if ((c.a[3] & MAP_ANONYMOUS) != 0 && c.a[2] == (PROT_READ | PROT_WRITE)) {
    const long result = place_mmap({c.nr, {c.a[0], c.a[1], c.a[2], c.a[3] | MAP_32BIT, c.a[4], c.a[5]}});
    if (!failed(result)) return result;
  }
  return place_mmap(c);
}

long place_mremap(const SystemCall& c) {
  const long flags = c.a[3];
  if (impossible(c.a[1]) || impossible(c.a[2]))
    return raw(c.nr, c.a[0], c.a[1], c.a[2], flags & ~MREMAP_MAYMOVE, c.a[4]);
  if ((flags & MREMAP_FIXED) != 0) {
    if (!may_replace(c.a[4], page_up(c.a[2]))) return kNoMemory;
    return remap_and_remember(c, flags, c.a[4]);
  }
  if ((flags & MREMAP_DONTUNMAP) == 0) {
    const long in_place = remap_and_remember(c, flags & ~MREMAP_MAYMOVE, 0);
    if (!failed(in_place) || (flags & MREMAP_MAYMOVE) == 0) return in_place;
  }
  const uint64_t length = page_up(c.a[2]);
  // Reserve first: MREMAP_FIXED replaces existing mappings.
  const long reserved = place_mmap(
      {__NR_mmap,
       {0, static_cast<long>(length), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0}});
  if (failed(reserved)) return reserved;
  const long result = remap_and_remember(c, flags | MREMAP_FIXED, reserved);
  if (failed(result)) raw(__NR_munmap, reserved, length);
  return result;
}

// The filter traps munmap calls that begin outside the window.
long unmap(const SystemCall& c) {
  return take_and_note([&] { return pass_on(c); },
                       [&](Extents& extents, uint64_t) {
                         const auto from = static_cast<uint64_t>(c.a[0]);
                         extents.remove(from, from + page_up(c.a[1]));
                       });
}

long place_shmat(const SystemCall& c) {
  const Undisturbed undisturbed;  // the call and its note
  SystemCall call = c;
  if (c.a[1] == 0)  // the segment's size is not known here; shmat refuses an overlap
    call.a[1] = static_cast<long>(next_range(1ull << 36, kHugePage));
  const long result = pass_on(call);
  if (!failed(result)) seam::state()->uses_sysv_shm = 1;
  return result;
}

long move_brk(uint64_t wanted) {
  auto* s = seam::state();
  if (wanted < s->brk_first || wanted < seam::kBrkBegin || wanted > seam::kBrkEnd) return s->brk_current;
  const uint64_t need = page_up(wanted);
  if (need > s->brk_mapped) {
    const long result = raw(__NR_mmap, s->brk_mapped, need - s->brk_mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (failed(result)) return s->brk_current;  // e.g. a mapping of the program is in the way
  } else if (need < s->brk_mapped) {
    raw(__NR_munmap, need, s->brk_mapped - need);
  }
  s->brk_mapped = need;
  s->brk_current = wanted;
  return wanted;
}

}  // namespace cropdl::upper
