#include "interpose/boundaries/token_ring.h"

namespace cropdl::boundaries {

TokenRing ring;

void note_callers_slowly(Token* t, const uint64_t* frame, uint64_t number) {
  Frame f = frame_of(frame);
  FrameRule* rule = &frame_rules.find(f);
  while (rule->in_binding && step_out(*rule, &f)) rule = &frame_rules.find(f);
  t->caller = f.site;
  t->outer = 0;
  t->stack = reinterpret_cast<uint64_t>(frame);
  if (step_out(*rule, &f)) {
    const FrameRule& next = frame_rules.find(f);
    if (next.in_object) {
      t->outer = f.site;
      if (step_out(next, &f)) t->stack = depth_and(t->stack, f.site);
    } else {
      FrameRules::forget(*rule);
    }
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t->number = number;
}

}  // namespace cropdl::boundaries
