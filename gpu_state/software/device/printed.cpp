#include "gpu_state/software/device/printed.h"

#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "gpu_state/software/device/context.h"

namespace cropdl::device {

namespace {

constexpr size_t kUsual = size_t{1} << 20;  // cuCtxSetLimit's default on devices

// Complete texts; if there is no room, the oldest are dropped.
struct Buffer {
  std::deque<std::string> texts;
  size_t bytes = 0;
};
struct Printed {
  std::mutex mutex;
  std::map<CUcontext, Buffer> of;
};
Printed& printed() {
  static auto* all = new Printed;
  return *all;
}

}  // namespace

void print(CUcontext context, std::string_view text) {
  size_t most = context->limits[CU_LIMIT_PRINTF_FIFO_SIZE].load();
  if (most == 0) most = kUsual;
  std::lock_guard lock(printed().mutex);
  Buffer& buffer = printed().of[context];
  buffer.texts.emplace_back(text);
  buffer.bytes += text.size();
  while (buffer.bytes > most && buffer.texts.size() > 1) {
    buffer.bytes -= buffer.texts.front().size();
    buffer.texts.pop_front();
  }
}

void show_printed(CUcontext context) {
  std::lock_guard lock(printed().mutex);
  auto at = printed().of.find(context);
  if (at == printed().of.end()) return;
  for (const std::string& text : at->second.texts) std::fwrite(text.data(), 1, text.size(), stdout);
  at->second = {};
}

}  // namespace cropdl::device
