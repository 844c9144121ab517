// Assembles a seccomp filter. A jump goes forward to the next place with its label, however far: a test in
// classic BPF reaches 255 instructions, and a farther target costs one more, a BPF_JA. LH, START.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"

namespace cropdl::host {

class FilterProgram {
 public:
  using Label = int;
  static constexpr Label kNext = 0;  // the next instruction

  void load(uint32_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void mask(uint32_t bits) { add(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)); }
  void result(uint32_t value) { add(BPF_STMT(BPF_RET | BPF_K, value)); }
  void jump(uint16_t test, uint32_t value, Label yes, Label no = kNext) {
    add(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, 0, 0), yes, no);
  }
  void label(Label l) { parts_.push_back({true, {}, l, kNext}); }

  Result<std::vector<sock_filter>> finish() const {
    std::vector<sock_filter> code;    // begins with the last instruction: all targets are known
    std::map<Label, size_t> targets;  // the instructions from the next place with the label on; 0: none
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      if (part->is_label) {
        targets[part->yes] = code.size();
        continue;
      }
      sock_filter instruction = part->instruction;
      if (BPF_CLASS(instruction.code) == BPF_JMP) {
        targets[kNext] = code.size();
        size_t yes = targets[part->yes], no = targets[part->no];
        if (yes == 0 || no == 0) return Error{"a jump of the seccomp filter has no target"};
        for (size_t* target : {&no, &yes}) {
          if (code.size() + 1 - *target <= kReach) continue;  // 1: the other one's BPF_JA
          code.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(code.size() - *target)));
          *target = code.size();
        }
        instruction.jt = static_cast<uint8_t>(code.size() - yes);
        instruction.jf = static_cast<uint8_t>(code.size() - no);
      }
      code.push_back(instruction);
    }
    if (code.size() > BPF_MAXINSNS)
      return Error{"the seccomp filter has {} instructions; the kernel takes {}", code.size(), BPF_MAXINSNS};
    return std::vector(code.rbegin(), code.rend());
  }

 private:
  static constexpr size_t kReach = 255;
  struct Part {  // an instruction, or a place with the label `yes`
    bool is_label;
    sock_filter instruction;
    Label yes, no;
  };

  void add(sock_filter instruction, Label yes = kNext, Label no = kNext) {
    parts_.push_back({false, instruction, yes, no});
  }

  std::vector<Part> parts_;
};

}  // namespace cropdl::host
