#include "gpu_state/software/device/printed.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

#include "gpu_state/software/device/context.h"

namespace cropdl::device {

namespace {

constexpr size_t kUsual = size_t{1} << 20;  // cuCtxSetLimit's default, as a device's

struct Printed {
  std::mutex mutex;
  std::map<CUcontext, std::string> of;
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
  std::string& buffer = printed().of[context];
  buffer += text;
  if (buffer.size() > most) buffer.erase(0, buffer.size() - most);
}

void show_printed(CUcontext context) {
  std::lock_guard lock(printed().mutex);
  auto at = printed().of.find(context);
  if (at == printed().of.end() || at->second.empty()) return;
  std::fwrite(at->second.data(), 1, at->second.size(), stdout);
  at->second.clear();
}

}  // namespace cropdl::device
