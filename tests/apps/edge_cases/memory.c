// Unusual memory: mappings with all flags, advice, addresses and protections. Each case also compares the
// mapping's /proc/self/smaps.
#define _GNU_SOURCE
#include "edge_case.h"

#include <setjmp.h>
#include <sys/auxv.h>

static const size_t page = 4096;
#define RW (PROT_READ | PROT_WRITE)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static unsigned char* mapped(size_t size, int protection, int flags) {
  unsigned char* at = (unsigned char*)mmap(NULL, size, protection, flags, -1, 0);
  EDGE_CHECK(at != MAP_FAILED);
  return at;
}

// Whether the mapping at `at` has `flag` (two letters) in its VmFlags.
static bool has_flag(const void* at, const char* flag) {
  FILE* file = fopen("/proc/self/smaps", "r");
  char line[4096];
  bool inside = false, found = false;
  while (fgets(line, sizeof line, file)) {
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
      inside = from <= (unsigned long)at && (unsigned long)at < to;
    if (inside && !strncmp(line, "VmFlags:", 8)) {
      char word[8];
      snprintf(word, sizeof word, " %s", flag);
      found = strstr(line, word) != NULL;
    }
  }
  fclose(file);
  return found;
}

static sigjmp_buf out_of_fault;
static volatile sig_atomic_t faults, fault_code;
static void* volatile fault_at;

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  faults++;
  fault_code = info->si_code;
  fault_at = info->si_addr;
  siglongjmp(out_of_fault, 1);
}

static void catch_faults(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
}

static bool faulted(volatile unsigned char* at, bool writing) {
  if (sigsetjmp(out_of_fault, 1)) return true;
  if (writing)
    *at = 1;
  else
    (void)*at;
  return false;
}

static void separate_touched_pages(void) {  // 3000 separate ranges in one mapping
  unsigned char* p = mapped(6000 * page, RW, ANONYMOUS);
  for (size_t i = 0; i < 3000; i++) p[i * 2 * page + i] = (unsigned char)(i + 1);
  while (edge_more())
    for (size_t i = 0; i < 3000; i++)
      EDGE_CHECK(p[i * 2 * page + i] == (unsigned char)(i + 1) && p[(i * 2 + 1) * page] == 0);
}

static void five_hundred_and_twenty_pages(void) {
  unsigned char* p = mapped(520 * 2 * page, RW, ANONYMOUS);
  for (size_t i = 0; i < 520; i++) p[i * 2 * page] = 1;
  while (edge_more())
    for (size_t i = 0; i < 520; i++) EDGE_CHECK(p[i * 2 * page] == 1);
}

static void many_small_mappings(void) {
  static unsigned char* p[3000];
  for (int i = 0; i < 3000; i++) {
    p[i] = mapped(page, RW, ANONYMOUS);
    *p[i] = (unsigned char)i;
    if (i % 2) EDGE_CHECK(mprotect(p[i], page, PROT_READ) == 0);
  }
  while (edge_more())
    for (int i = 0; i < 3000; i++) EDGE_CHECK(*p[i] == (unsigned char)i);
}

static void holes_without_access(void) {
  unsigned char* p = mapped(64 * page, RW, ANONYMOUS);
  memset(p, 7, 64 * page);
  for (int i = 0; i < 64; i += 3) EDGE_CHECK(mprotect(p + (size_t)i * page, page, PROT_NONE) == 0);
  catch_faults();
  while (edge_more())
    for (int i = 0; i < 64; i++) {
      if (i % 3)
        EDGE_CHECK(p[(size_t)i * page + 9] == 7);
      else
        EDGE_CHECK(faulted(p + (size_t)i * page + 9, false) && fault_code == SEGV_ACCERR &&
                   fault_at == p + (size_t)i * page + 9);
    }
  for (int i = 0; i < 64; i += 3)
    EDGE_CHECK(mprotect(p + (size_t)i * page, page, PROT_READ) == 0 && p[(size_t)i * page + 9] == 7);
}

static void guard_pages(void) {  // MADV_GUARD_INSTALL, since Linux 6.13
  unsigned char* p = mapped(16 * page, RW, ANONYMOUS);
  memset(p, 7, 16 * page);
  if (madvise(p + 4 * page, 2 * page, 102)) EDGE_CHECK(mprotect(p + 4 * page, 2 * page, PROT_NONE) == 0);
  catch_faults();
  while (edge_more()) {
    EDGE_CHECK(p[3 * page] == 7 && p[6 * page] == 7);
    EDGE_CHECK(faulted(p + 4 * page, true) && faulted(p + 6 * page - 1, false));
  }
}

static void protection_changed_in_the_fault_handler(void) {  // like write barriers of garbage collectors
  unsigned char* p = mapped(16 * page, RW, ANONYMOUS);
  catch_faults();
  for (unsigned char k = 0; edge_more(); k++) {
    EDGE_CHECK(mprotect(p, 16 * page, PROT_READ) == 0 && p[5 * page] == k);
    EDGE_CHECK(faulted(p + 5 * page, true));
    EDGE_CHECK(mprotect(p + 5 * page, page, RW) == 0);
    p[5 * page] = (unsigned char)(k + 1);
    EDGE_CHECK(faulted(p + 6 * page, true) && !faulted(p + 5 * page + 1, true));
  }
}

static void grows_down(void) {
  unsigned char* room = mapped(300 * page, PROT_NONE, ANONYMOUS);
  EDGE_CHECK(munmap(room, 300 * page) == 0);
  unsigned char* top =
      (unsigned char*)mmap(room + 299 * page, page, RW, ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
  EDGE_CHECK(top != MAP_FAILED);
  for (int k = 0; edge_more(); k++) {
    for (int i = 0; i <= k; i++) top[-i * (long)page] = (unsigned char)(i + 1);
    for (int i = 0; i <= k; i++) EDGE_CHECK(top[-i * (long)page] == i + 1);
  }
}

static void wiped_on_fork(void) {
  unsigned char *wiped = mapped(page, RW, ANONYMOUS), *gone = mapped(page, RW, ANONYMOUS);
  *wiped = *gone = 9;
  EDGE_CHECK(madvise(wiped, page, MADV_WIPEONFORK) == 0 && madvise(gone, page, MADV_DONTFORK) == 0);
  while (edge_more()) EDGE_CHECK(*wiped == 9 && *gone == 9 && has_flag(wiped, "wf") && has_flag(gone, "dc"));
  int status;
  pid_t child = fork();
  if (!child) {
    unsigned char seen;
    _exit(*wiped == 0 && mincore(gone, page, &seen) < 0 && errno == ENOMEM ? 0 : 1);
  }
  EDGE_CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void advice_of_every_kind(void) {
  static const struct {
    int advice;
    const char* flag;
  } kinds[] = {{MADV_SEQUENTIAL, "sr"}, {MADV_RANDOM, "rr"},     {MADV_DONTDUMP, "dd"},
               {MADV_HUGEPAGE, "hg"},   {MADV_NOHUGEPAGE, "nh"}, {MADV_MERGEABLE, "mg"}};
  unsigned char* p[6];
  bool set[6];
  for (int i = 0; i < 6; i++) {
    p[i] = mapped(8 * page, RW, ANONYMOUS);
    mapped(page, PROT_NONE, ANONYMOUS);  // a gap between neighbours
    p[i][page] = 3;
    set[i] = madvise(p[i], 8 * page, kinds[i].advice) == 0 && has_flag(p[i], kinds[i].flag);
  }
  while (edge_more())
    for (int i = 0; i < 6; i++) EDGE_CHECK(p[i][page] == 3 && has_flag(p[i], kinds[i].flag) == set[i]);
}

static void not_reserved(void) {
  unsigned char* p = mapped(4l << 30, RW, ANONYMOUS | MAP_NORESERVE);
  p[3l << 30] = 5;
  while (edge_more()) EDGE_CHECK(p[3l << 30] == 5 && p[1l << 30] == 0 && has_flag(p, "nr"));
}

static void locked_memory(void) {
  unsigned char *now = mapped(4 * page, RW, ANONYMOUS), *later = mapped(64 * page, RW, ANONYMOUS);
  EDGE_CHECK(mlock(now, 4 * page) == 0 && syscall(SYS_mlock2, later, 64 * page, MLOCK_ONFAULT) == 0);
  *now = *later = 5;
  while (edge_more()) EDGE_CHECK(*now == 5 && *later == 5 && has_flag(now, "lo") && has_flag(later, "lo"));
}

static void future_mappings_locked(void) {
  if (mlockall(MCL_FUTURE | MCL_ONFAULT) != 0) EDGE_CHECK(errno == EPERM || errno == ENOMEM);
  bool locked = has_flag(mapped(page, RW, ANONYMOUS), "lo");
  while (edge_more()) {
    unsigned char* p = mapped(page, RW, ANONYMOUS);
    *p = 1;
    EDGE_CHECK(has_flag(p, "lo") == locked && munmap(p, page) == 0);
  }
}

static void droppable(void) {  // MAP_DROPPABLE, since Linux 6.11: pages may become zeros
  unsigned char* p = (unsigned char*)mmap(NULL, 4 * page, RW, MAP_ANONYMOUS | 0x08, -1, 0);
  if (p == MAP_FAILED) p = mapped(4 * page, RW, ANONYMOUS);
  bool dropped = has_flag(p, "dp");
  while (edge_more()) {
    EDGE_CHECK(p[5] == 77 || p[5] == 0);
    EDGE_CHECK(has_flag(p, "dp") == dropped);
    p[5] = 77;
  }
}

static void shared_read_only_file(void) {
  int fd = edge_file("constants", 5 * page, 1, O_RDONLY);
  const unsigned char* p = (const unsigned char*)mmap(NULL, 5 * page, PROT_READ, MAP_SHARED, fd, 0);
  EDGE_CHECK(p != MAP_FAILED && close(fd) == 0);
  while (edge_more()) {
    for (size_t i = 0; i < 5 * page; i += 77) EDGE_CHECK(p[i] == edge_byte(1, i));
    EDGE_CHECK(has_flag(p, "ms"));
  }
}

static void beyond_the_end_of_a_file(void) {  // SIGBUS beyond the end until the file grows
  int fd = edge_file("short", 100, 1, O_RDWR);
  unsigned char* p = (unsigned char*)mmap(NULL, 4 * page, RW, MAP_PRIVATE, fd, 0);
  p[7] = 99;
  catch_faults();
  while (edge_more()) {
    EDGE_CHECK(p[7] == 99 && p[50] == edge_byte(1, 50) && p[200] == 0);
    EDGE_CHECK(faulted(p + 2 * page, false) && fault_code == BUS_ADRERR);
  }
  EDGE_CHECK(ftruncate(fd, 3 * (off_t)page) == 0 && pwrite(fd, "x", 1, 2 * (off_t)page) == 1 &&
             p[2 * page] == 'x');
}

static void executable_memory(
    void) {  // like a just-in-time compiler: writable, then executable, patched in every step
  unsigned char* p = mapped(page, RW, ANONYMOUS);
  static const unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};  // mov $0, %eax; ret
  memcpy(p, code, sizeof code);
  int (*function)(void);
  memcpy(&function, &p, sizeof function);
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(mprotect(p, page, RW) == 0);
    memcpy(p + 1, &k, sizeof k);
    EDGE_CHECK(mprotect(p, page, PROT_READ | PROT_EXEC) == 0 && function() == k);
  }
}

static void system_call_in_generated_code(void) {
  unsigned char* p = mapped(page, PROT_READ | PROT_WRITE | PROT_EXEC, ANONYMOUS);
  static const unsigned char code[] = {0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89,
                                       0xd6, 0x48, 0x89, 0xca, 0x0f, 0x05, 0xc3};  // syscall(n, a, b, c)
  memcpy(p, code, sizeof code);
  long (*call)(long, long, long, long);
  memcpy(&call, &p, sizeof call);
  int fd = edge_file("by code", 1000, 1, O_RDONLY);
  unsigned char byte;
  for (uint64_t at = 0; edge_more(); at++) {
    EDGE_CHECK(call(SYS_getpid, 0, 0, 0) == getpid());
    EDGE_CHECK(call(SYS_read, fd, (long)&byte, 1) == 1 && byte == edge_byte(1, at));
    long copy = call(SYS_dup, fd, 0, 0);
    EDGE_CHECK(copy > fd && call(SYS_close, copy, 0, 0) == 0);
  }
}

static void mapped_at_fixed_addresses(void) {
  static const uintptr_t wanted[] = {0x10000,        0x7000000,      0x80000000,     0x100000000,
                                     0x123456789000, 0x200000000000, 0x600000000000, 0x7000deadb000};
  unsigned char* got[8];
  for (int i = 0; i < 8; i++) {
    got[i] = (unsigned char*)mmap((void*)wanted[i], 3 * page, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got[i] == MAP_FAILED)
      got[i] = NULL;
    else
      got[i][page + 5] = (unsigned char)(i + 1);
  }
  EDGE_CHECK(got[0] && got[2]);
  while (edge_more())
    for (int i = 0; i < 8; i++)
      EDGE_CHECK(!got[i] || ((uintptr_t)got[i] == wanted[i] && got[i][page + 5] == i + 1));
}

static void moved_and_resized(void) {
  unsigned char* p = mapped(4 * page, RW, ANONYMOUS);
  size_t size = 4 * page;
  p[3 * page] = 33;
  for (int k = 0; edge_more(); k++) {
    size_t next = (size_t)(4 + k * 7 % 50) * page;
    unsigned char* q = (unsigned char*)mremap(p, size, next, MREMAP_MAYMOVE);
    EDGE_CHECK(q != MAP_FAILED && q[3 * page] == 33);
    unsigned char* place = mapped(next, PROT_NONE, ANONYMOUS);
    EDGE_CHECK(mremap(q, next, next, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place && place[3 * page] == 33);
    p = place, size = next;
  }
}

static void moved_and_left_behind(void) {  // MREMAP_DONTUNMAP: the old place reads as zeros
  unsigned char *p = mapped(4 * page, RW, ANONYMOUS), *q;
  for (unsigned char k = 1; edge_more(); k++) {
    p[page] = k;
    q = (unsigned char*)syscall(SYS_mremap, p, 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    EDGE_CHECK(q != MAP_FAILED && q != p && q[page] == k && p[page] == 0);
    EDGE_CHECK(munmap(q, 4 * page) == 0);
  }
}

static void replaced_in_the_middle(void) {
  unsigned char* p = mapped(9 * page, RW, ANONYMOUS);
  memset(p, 1, 9 * page);
  int fd = edge_file("in between", page, 1, O_RDONLY);
  for (int k = 0; edge_more(); k++) {
    unsigned char* at = p + (size_t)(k % 7 + 1) * page;
    EDGE_CHECK(mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == at && at[9] == edge_byte(1, 9) &&
               at[-1] == 1 && at[page] == 1);
    EDGE_CHECK(mmap(at, page, RW, ANONYMOUS | MAP_FIXED, -1, 0) == at && at[9] == 0);
    memset(at, 1, page);
  }
}

static void unusual_lengths(void) {  // the kernel refuses them; they must have no effect
  unsigned char* p = mapped(page, RW, ANONYMOUS);
  *p = 5;
  while (edge_more()) {
    EDGE_CHECK(mmap(NULL, SIZE_MAX - 5, RW, ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    EDGE_CHECK(mmap(NULL, SIZE_MAX - 0xfff, RW, ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    EDGE_CHECK(mmap(NULL, 0, RW, ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    EDGE_CHECK(mmap((void*)0x1001, page, RW, ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EINVAL);
    EDGE_CHECK(mremap(p, page, SIZE_MAX - 0xffff, MREMAP_MAYMOVE) == MAP_FAILED);
    EDGE_CHECK(munmap(p, SIZE_MAX - 5) < 0 && munmap(p + 1, page) < 0 && errno == EINVAL);
    EDGE_CHECK(mmap((void*)0xffffffffff000000, page, RW, ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED &&
               errno == ENOMEM);
    unsigned char* q = mapped(1, RW, ANONYMOUS);
    q[4095] = 1;
    EDGE_CHECK(*p == 5 && munmap(q, 1) == 0);
  }
}

static void program_break(void) {
  unsigned char* start = (unsigned char*)sbrk(0);
  for (int k = 1; edge_more(); k++) {
    unsigned char* at = (unsigned char*)sbrk(3 * 4096 + 7);
    EDGE_CHECK(at != (void*)-1);
    at[3 * 4096] = (unsigned char)k;
    EDGE_CHECK(k < 2 || at[-7] == (unsigned char)(k - 1));
    EDGE_CHECK((unsigned char*)sbrk(0) == at + 3 * 4096 + 7 && at >= start);
  }
}

// A mapping of the program lies above the break, which therefore cannot grow (malloc works without).
static void mapping_above_the_break(void) {
  unsigned char* start = (unsigned char*)(((uintptr_t)sbrk(0) + page - 1) & ~(page - 1));
  unsigned char* p = mmap(start + (1 << 20), page, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EDGE_CHECK(p == start + (1 << 20));
  while (edge_more()) {
    *p = 7;
    EDGE_CHECK(sbrk(2 << 20) == (void*)-1 && *p == 7);
  }
}

static void freed_lazily(void) {
  unsigned char* p = mapped(8 * page, RW, ANONYMOUS);
  while (edge_more()) {
    memset(p, 9, 8 * page);
    EDGE_CHECK(madvise(p, 4 * page, MADV_FREE) == 0);
    for (size_t i = 0; i < 4; i++) EDGE_CHECK(p[i * page + 1] == 9 || p[i * page + 1] == 0);
    for (size_t i = 4; i < 8; i++) EDGE_CHECK(p[i * page + 1] == 9);
    EDGE_CHECK(madvise(p + 6 * page, page, MADV_DONTNEED) == 0 && p[6 * page + 5] == 0 &&
               p[7 * page + 5] == 9);
    madvise(p, 8 * page, 20 /* MADV_COLD */), madvise(p, 8 * page, 21 /* MADV_PAGEOUT */),
        madvise(p, 8 * page, 23 /* MADV_POPULATE_WRITE */);
  }
}

static void named_memory(void) {  // PR_SET_VMA_ANON_NAME is visible in maps, if the kernel supports it
  unsigned char* p = mapped(3 * page, RW, ANONYMOUS);
  *p = 1;
  bool named = prctl(0x53564d41, 0, p, 3 * page, "odd name") == 0;
  while (edge_more()) {
    FILE* file = fopen("/proc/self/maps", "r");
    char line[4096];
    bool found = false;
    while (fgets(line, sizeof line, file))
      if (strstr(line, "[anon:odd name]")) found = true;
    fclose(file);
    EDGE_CHECK(found == named);
  }
}

static void huge_page_wanted(void) {
  unsigned char* p = mapped(8l << 20, RW, ANONYMOUS);
  p = (unsigned char*)(((uintptr_t)p + (2l << 20) - 1) & ~((2ul << 20) - 1));
  madvise(p, 4l << 20, MADV_HUGEPAGE);
  for (size_t i = 0; i < 4l << 20; i += 4096) p[i] = (unsigned char)(i >> 12);
  madvise(p, 2l << 20, 25 /* MADV_COLLAPSE */);
  while (edge_more())
    for (size_t i = 0; i < 4l << 20; i += 4096) EDGE_CHECK(p[i] == (unsigned char)(i >> 12) && p[i + 1] == 0);
}

static void protection_keys(void) {
  unsigned char* p = mapped(page, RW, ANONYMOUS);
  *p = 4;
  int key = pkey_alloc(0, PKEY_DISABLE_WRITE);
  catch_faults();
  if (key > 0) EDGE_CHECK(pkey_mprotect(p, page, RW, key) == 0);
  while (edge_more()) {
    EDGE_CHECK(*p == 4);
    if (key > 0) {
      EDGE_CHECK(pkey_get(key) == PKEY_DISABLE_WRITE && faulted(p, true) && fault_code == SEGV_PKUERR);
      // A handler starts with the kernel's default rights, and this one did not return.
      pkey_set(key, PKEY_DISABLE_WRITE);
    }
  }
}

static void sealed(void) {  // mseal(2), since Linux 6.10
  unsigned char* p = mapped(page, RW, ANONYMOUS);
  *p = 4;
  bool there = syscall(462, p, page, 0) == 0;
  while (edge_more()) EDGE_CHECK(*p == 4 && (!there || (mprotect(p, page, PROT_READ) < 0 && errno == EPERM)));
}

static void reads_its_own_maps(
    void) {  // every readable line of maps can be read, and the vDSO is at the address in auxv
  while (edge_more()) {
    FILE* file = fopen("/proc/self/maps", "r");
    char line[4096];
    volatile unsigned char sum = 0;
    bool vdso = false, stack = false, heap = false;
    void* end = sbrk(0);
    while (fgets(line, sizeof line, file)) {
      unsigned long from, to;
      char protection[5];
      EDGE_CHECK(sscanf(line, "%lx-%lx %4s", &from, &to, protection) == 3);
      if (strstr(line, "[vdso]") && from == getauxval(AT_SYSINFO_EHDR)) vdso = true;
      if (strstr(line, "[stack]") && from <= (unsigned long)&line && (unsigned long)&line < to) stack = true;
      if (from <= (unsigned long)end - 1 && (unsigned long)end - 1 < to) heap = true;
      if (protection[0] == 'r' && !strstr(line, "[v")) sum += *(unsigned char*)from;
    }
    fclose(file);
    EDGE_CHECK(vdso && stack && heap);
  }
}

static void auxiliary_vector(void) {
  unsigned long vector[64], entry = getauxval(AT_ENTRY), headers = getauxval(AT_PHDR),
                            random = getauxval(AT_RANDOM);
  char* name = (char*)getauxval(AT_EXECFN);
  unsigned char kept[16];
  memcpy(kept, (void*)random, 16);
  while (edge_more()) {
    int fd = open("/proc/self/auxv", O_RDONLY);
    ssize_t size = read(fd, vector, sizeof vector);
    close(fd);
    EDGE_CHECK(size > 0);
    bool seen = false;
    for (int i = 0; i < (int)(size / 16); i++) {
      if (vector[2 * i] == AT_ENTRY) EDGE_CHECK(vector[2 * i + 1] == entry);
      if (vector[2 * i] == AT_PHDR) EDGE_CHECK(vector[2 * i + 1] == headers);
      seen |= vector[2 * i] == AT_SYSINFO_EHDR && vector[2 * i + 1] == getauxval(AT_SYSINFO_EHDR);
    }
    EDGE_CHECK(seen && !memcmp(kept, (void*)random, 16) && strstr(name, "edge_cases/memory"));
  }
}

static void vdso_function_found_in_the_elf_image(
    void) {  // its address is looked up once in the ELF image that auxv names
  unsigned char* image = (unsigned char*)getauxval(AT_SYSINFO_EHDR);
  EDGE_CHECK(image && !memcmp(image, "\177ELF", 4));
  uint64_t headers = *(uint64_t*)(image + 32), dynamic = 0, base = 0;
  int count = *(uint16_t*)(image + 56);
  for (int i = 0; i < count; i++) {
    unsigned char* header = image + headers + (size_t)i * 56;
    if (*(uint32_t*)header == 1)
      base = (uint64_t)image + *(uint64_t*)(header + 8) - *(uint64_t*)(header + 16);
    if (*(uint32_t*)header == 2) dynamic = (uint64_t)image + *(uint64_t*)(header + 8);
  }
  uint64_t symbols = 0, strings = 0;
  for (uint64_t* d = (uint64_t*)dynamic; d[0]; d += 2) {
    if (d[0] == 5) strings = base + d[1];
    if (d[0] == 6) symbols = base + d[1];
  }
  int (*clock)(clockid_t, struct timespec*) = NULL;
  for (uint64_t symbol = symbols; symbol < strings; symbol += 24)
    if (!strcmp((char*)(strings + *(uint32_t*)symbol), "__vdso_clock_gettime")) {
      uint64_t address = base + *(uint64_t*)(symbol + 8);
      memcpy(&clock, &address, sizeof clock);
    }
  EDGE_CHECK(clock);
  struct timespec a, b;
  while (edge_more()) {
    EDGE_CHECK(clock(CLOCK_REALTIME, &a) == 0 && clock_gettime(CLOCK_REALTIME, &b) == 0);
    EDGE_CHECK(labs(a.tv_sec - b.tv_sec) <= 1);
  }
}

static void read_by_other_system_calls(void) {
  char here[64], there[64];
  for (int k = 0; edge_more(); k++) {
    snprintf(there, sizeof there, "text %d", k);
    struct iovec to = {here, sizeof here}, from = {there, sizeof there};
    EDGE_CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof here && !strcmp(here, there));
    there[0] = 'T';
    EDGE_CHECK(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == sizeof here && here[0] == 'T');
  }
}

static void resident_pages(void) {
  unsigned char *p = mapped(8 * page, RW, ANONYMOUS), seen[8];
  while (edge_more()) {
    EDGE_CHECK(madvise(p, 8 * page, MADV_DONTNEED) == 0);
    p[2 * page] = 1;
    EDGE_CHECK(mincore(p, 8 * page, seen) == 0 && (seen[2] & 1) && !(seen[5] & 1));
  }
}

static void two_views_of_one_memory(
    void) {  // a ring buffer mapped twice in sequence; private memory from mremap of a shared mapping
  int fd = memfd_create("ring", 0);
  EDGE_CHECK(ftruncate(fd, (off_t)page) == 0);
  unsigned char* p = mapped(2 * page, PROT_NONE, ANONYMOUS);
  EDGE_CHECK(mmap(p, page, RW, MAP_SHARED | MAP_FIXED, fd, 0) == p &&
             mmap(p + page, page, RW, MAP_SHARED | MAP_FIXED, fd, 0) == p + page);
  close(fd);
  for (unsigned char k = 0; edge_more(); k++) {
    p[k * 10] = k;
    EDGE_CHECK(p[page + k * 10] == k);
  }
}

static void memory_policy(void) {
  unsigned char* p = mapped(4 * page, RW, ANONYMOUS);
  unsigned long nodes = 1, got = 0;
  int mode = -1;
  bool set = syscall(SYS_mbind, p, 4 * page, 2 /* MPOL_BIND */, &nodes, 64, 0) == 0;
  *p = 1;
  while (edge_more())
    if (set)
      EDGE_CHECK(syscall(SYS_get_mempolicy, &mode, &got, 64, p, 2 /* MPOL_F_ADDR */) == 0 && mode == 2 &&
                 got == 1);
}

static void policy_of_the_process(void) {
  unsigned long nodes = 1, got = 0;
  int mode = -1;
  bool set = syscall(SYS_set_mempolicy, 3 /* MPOL_INTERLEAVE */, &nodes, 64) == 0;
  while (edge_more())
    if (set) EDGE_CHECK(syscall(SYS_get_mempolicy, &mode, &got, 64, NULL, 0) == 0 && mode == 3 && got == 1);
}

static void resized_at_a_fixed_address(void) {
  unsigned char* const at = (unsigned char*)0x7000000000;
  EDGE_CHECK(mmap(at, 4 * page, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
  EDGE_CHECK(mremap(at, 4 * page, 12 * page, 0) == at);
  for (size_t i = 0; i < 12; i++) at[i * page + i] = (unsigned char)(i + 1);
  while (edge_more())
    for (size_t i = 0; i < 12; i++) EDGE_CHECK(at[i * page + i] == (unsigned char)(i + 1));
}

static void grows_down_at_a_fixed_address(void) {
  unsigned char* volatile place = (unsigned char*)0x7000000000;
  unsigned char* const at = place;
  EDGE_CHECK(mmap(at, 4 * page, RW, ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN, -1, 0) == at);
  for (size_t i = 1; i < 20; i++) at[0 - i * page] = (unsigned char)i;
  while (edge_more())
    for (size_t i = 1; i < 20; i++) EDGE_CHECK(at[0 - i * page] == (unsigned char)i);
}

#define KIND(name) \
  { #name, name }
static const struct edge_case table[] = {
    KIND(separate_touched_pages),
    KIND(five_hundred_and_twenty_pages),
    KIND(many_small_mappings),
    KIND(holes_without_access),
    KIND(guard_pages),
    KIND(protection_changed_in_the_fault_handler),
    KIND(grows_down),
    KIND(wiped_on_fork),
    KIND(advice_of_every_kind),
    KIND(not_reserved),
    KIND(locked_memory),
    KIND(future_mappings_locked),
    KIND(droppable),
    KIND(shared_read_only_file),
    KIND(beyond_the_end_of_a_file),
    KIND(executable_memory),
    KIND(system_call_in_generated_code),
    KIND(mapped_at_fixed_addresses),
    KIND(moved_and_resized),
    KIND(moved_and_left_behind),
    KIND(replaced_in_the_middle),
    KIND(unusual_lengths),
    KIND(program_break),
    KIND(mapping_above_the_break),
    KIND(freed_lazily),
    KIND(named_memory),
    KIND(huge_page_wanted),
    KIND(protection_keys),
    KIND(sealed),
    KIND(reads_its_own_maps),
    KIND(auxiliary_vector),
    KIND(vdso_function_found_in_the_elf_image),
    KIND(read_by_other_system_calls),
    KIND(resident_pages),
    KIND(two_views_of_one_memory),
    KIND(memory_policy),
    KIND(policy_of_the_process),
    KIND(resized_at_a_fixed_address),
    KIND(grows_down_at_a_fixed_address),
};

EDGE_MAIN(table)
