// The mmap that all libraries of an executable see if it is linked with this file: steered (steering.h),
// otherwise the C library's. LH; mmap runs with the LH's FS base.
// UCX (under MPICH) intercepts mmap by writing into its code. It then patches this function, and calls no
// longer reach its body. So the driver's own relocation table is pointed at a function without a public name.
// Calls that this function does not steer go on to mmap, where UCX sees them.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "base/page.h"
#include "gpu_state/memory/steering.h"

namespace {

using Mmap = void* (*)(void*, size_t, int, int, int, off_t);

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  void* steered = cropdl::memory::steered_mapping(address, length, protection, flags, fd, offset);
  if (steered != MAP_FAILED) return steered;
  static Mmap next;  // found at the first call: libraries that patch the C library's mmap still see it
  if (!__atomic_load_n(&next, __ATOMIC_RELAXED))
    __atomic_store_n(&next, reinterpret_cast<Mmap>(dlsym(RTLD_NEXT, "mmap")), __ATOMIC_RELAXED);
  return next(address, length, protection, flags, fd, offset);
}

void* map_for_driver(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  void* steered = cropdl::memory::steered_mapping(address, length, protection, flags, fd, offset);
  return steered != MAP_FAILED ? steered : mmap(address, length, protection, flags, fd, offset);
}

// The object's dynamic section, by tag. ld.so has relocated the values that are addresses.
std::array<uint64_t, DT_NUM> dynamic_of(const dl_phdr_info& object) {
  std::array<uint64_t, DT_NUM> values{};
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const Elf64_Dyn*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag > 0 && entry->d_tag < DT_NUM)
        values[static_cast<size_t>(entry->d_tag)] = entry->d_un.d_val;
  }
  return values;
}

void lead_here(const dl_phdr_info& object, uint64_t slot) {
  auto* entry = reinterpret_cast<uint64_t*>(object.dlpi_addr + slot);
  const auto ours = reinterpret_cast<uint64_t>(&map_for_driver);
  if (*entry == ours) return;
  void* page = reinterpret_cast<void*>(cropdl::page_down(object.dlpi_addr + slot));
  bool sealed = false;  // ld.so made the page read-only after relocation
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const Elf64_Phdr& part = object.dlpi_phdr[i];
    sealed |= part.p_type == PT_GNU_RELRO && slot >= part.p_vaddr && slot < part.p_vaddr + part.p_memsz;
  }
  if (sealed && mprotect(page, cropdl::kPage, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(entry, ours, __ATOMIC_RELEASE);
  if (sealed) mprotect(page, cropdl::kPage, PROT_READ);
}

int look_at(dl_phdr_info* object, size_t, void*) {
  const char* slash = strrchr(object->dlpi_name, '/');
  const char* name = slash ? slash + 1 : object->dlpi_name;
  // NVIDIA's driver, or the library that contains the software device's.
  if (strncmp(name, "libcuda.so", 10) != 0 && strncmp(name, "libcropdl-software-gpu", 22) != 0) return 0;
  const auto dynamic = dynamic_of(*object);
  const auto* symbols = reinterpret_cast<const Elf64_Sym*>(dynamic[DT_SYMTAB]);
  const auto* names = reinterpret_cast<const char*>(dynamic[DT_STRTAB]);
  if (!symbols || !names) return 0;
  const auto look = [&](size_t table, size_t bytes) {
    const auto* all = reinterpret_cast<const Elf64_Rela*>(dynamic[table]);
    for (size_t i = 0; all && i < dynamic[bytes] / sizeof(Elf64_Rela); ++i) {
      const auto type = ELF64_R_TYPE(all[i].r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const char* symbol = names + symbols[ELF64_R_SYM(all[i].r_info)].st_name;
      if (strcmp(symbol, "mmap") == 0 || strcmp(symbol, "mmap64") == 0) lead_here(*object, all[i].r_offset);
    }
  };
  look(DT_JMPREL, DT_PLTRELSZ);
  look(DT_RELA, DT_RELASZ);
  return 0;
}

[[gnu::constructor]] void steer_the_driver() {
  cropdl::memory::at_steering = [] { dl_iterate_phdr(look_at, nullptr); };
}

}  // namespace

extern "C" {

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return map(address, length, protection, flags, fd, offset);
}

void* mmap64(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return map(address, length, protection, flags, fd, offset);
}

}  // extern "C"
