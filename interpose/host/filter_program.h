// Assembles a seccomp filter. A jump goes forward to the next place with its label, however far that is: a
// test in classic BPF reaches 255 instructions, and one whose target is farther away jumps to a BPF_JA behind
// it. So only a test that jumps far costs an instruction more. LH, START.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
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
  void label(Label l) { labels_.push_back({l, instructions_.size()}); }

  Result<std::vector<sock_filter>> finish() {
    for (size_t i = 0; i < instructions_.size(); ++i) {
      Instruction& in = instructions_[i];
      if (!find(i, &in.yes) || !find(i, &in.no)) return Error{"a jump of the seccomp filter has no target"};
    }
    while (lengthen()) place();
    std::vector<sock_filter> code;
    for (const Instruction& in : instructions_) put(in, code);
    if (code.size() > BPF_MAXINSNS)
      return Error{"the seccomp filter has {} instructions; the kernel takes {}", code.size(), BPF_MAXINSNS};
    return code;
  }

 private:
  static constexpr size_t kReach = 255;
  struct Jump {
    Label label;
    size_t to = 0;     // the index of the target, once it is found
    bool far = false;  // by a BPF_JA
  };
  struct Instruction {
    sock_filter code;
    Jump yes, no;
    size_t at = 0;  // where it will be
    size_t hops() const { return size_t{yes.far} + size_t{no.far}; }
  };
  struct Place {
    Label label;
    size_t index;
  };

  void add(sock_filter code, Label yes = kNext, Label no = kNext) {
    instructions_.push_back({code, {yes}, {no}, instructions_.size()});
  }
  bool find(size_t from, Jump* jump) const {
    if (jump->label == kNext) {
      jump->to = from + 1;
      return true;
    }
    for (const Place& p : labels_) {
      if (p.label != jump->label || p.index <= from || p.index >= instructions_.size()) continue;
      jump->to = p.index;
      return true;
    }
    return false;
  }
  // How many instructions lie between `in` and the target.
  size_t between(const Instruction& in, const Jump& jump) const {
    const size_t to = jump.to < instructions_.size() ? instructions_[jump.to].at : in.at + in.hops() + 1;
    return to - in.at - 1;
  }
  // Whether it has found jumps that are too long for a test. Their BPF_JAs may make others too long.
  bool lengthen() {
    bool found = false;
    for (Instruction& in : instructions_) {
      for (Jump* jump : {&in.yes, &in.no}) {
        if (jump->far || between(in, *jump) <= kReach) continue;
        jump->far = found = true;
      }
    }
    return found;
  }
  void place() {
    size_t at = 0;
    for (Instruction& in : instructions_) {
      in.at = at;
      at += 1 + in.hops();
    }
  }
  // The test, then its BPF_JAs.
  void put(const Instruction& in, std::vector<sock_filter>& code) const {
    sock_filter test = in.code;
    if (BPF_CLASS(test.code) == BPF_JMP) {
      test.jt = static_cast<uint8_t>(in.yes.far ? 0 : between(in, in.yes));
      test.jf = static_cast<uint8_t>(in.no.far ? in.yes.far : between(in, in.no));
    }
    code.push_back(test);
    for (const Jump* jump : {&in.yes, &in.no}) {
      if (!jump->far) continue;
      const size_t to = instructions_[jump->to].at;
      code.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(to - code.size() - 1)));
    }
  }

  std::vector<Instruction> instructions_;
  std::vector<Place> labels_;  // ascending
};

}  // namespace cropdl::host
