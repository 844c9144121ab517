// Symbols of ELF objects in memory, by their dynamic symbol tables. The core has its own
// (interpose/upper/patch.cpp): no C library, no PT_DYNAMIC mapped yet. LH; any thread.
#pragma once

#include <elf.h>

#include <cstdint>

namespace cropdl::host {

// The address of the function or variable `name` that the object with this dynamic section defines; 0: none.
// `bias`: where it lies, less where it is linked. `relocated`: the section has the addresses in memory.
uint64_t dynamic_symbol(const Elf64_Dyn* dynamic, uint64_t bias, bool relocated, const char* name);

// The same for an object at `elf_header`. Not relocated: the vDSO, the core, the program's ld.so at first.
uint64_t dynamic_symbol(uint64_t elf_header, const char* name, bool relocated = false);

}  // namespace cropdl::host
