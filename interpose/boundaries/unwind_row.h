// Reads DWARF call frame information, as compilers write it for x86-64 (.eh_frame and its sorted table
// .eh_frame_hdr: Linux Standard Base Core 5.0, 10.6; the instructions: DWARF 5, 6.4). Only what tells where a
// frame's caller is. Pure, apart from reading the tables: no lock, no allocation.
#pragma once

#include <cstdint>

namespace cropdl::boundaries {

inline constexpr int kRbp = 6, kRsp = 7, kReturnAddress = 16;  // DWARF's numbers (x86-64 psABI, 3.6.2)

struct UnwindRow {
  int cfa_register = -1;  // -1: the CFA is an expression
  int32_t cfa_offset = 0;
  int32_t saved_rbp = 0;  // bytes below the CFA; 0: rbp is the caller's
  bool rbp_is_lost = false;
};

// False: there is no entry for the address, the frame is a signal handler's, or the entry has a form that
// compilers do not use for x86-64.
bool find_unwind_row(uint64_t address, uint64_t eh_frame_hdr, UnwindRow* row);

}  // namespace cropdl::boundaries
