#include <pthread.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/procfs.h"
#include "interpose/host/process.h"

namespace cropdl::host {
namespace {

constexpr size_t kEnough = 2 << 20;  // stack size, for MPI's start and for writing an image
constexpr int kLayouts = 8;
constexpr int kFixedLayout = 4;  // not randomized: it may be free where random layouts keep colliding

void start_over(const launching::Boot& former) {
  const std::string exe = link_text("/proc/self/exe");
  if (exe.empty()) return;
  launching::Boot boot = former;
  const auto mine = static_cast<unsigned long>(personality(0xffffffff));  // reads it
  if (boot.layout == 0) boot.personality = mine;
  ++boot.layout;
  setenv(launching::kBootVariable, launching::boot_text(boot).c_str(), 1);
  if (boot.layout == kFixedLayout) personality(boot.personality | ADDR_NO_RANDOMIZE);
  std::vector<std::string> words = process_words("self");
  std::vector<char*> arguments(words.size() + 1);  // ends with a null pointer
  std::transform(words.begin(), words.end(), arguments.begin(),
                 [](std::string& word) { return word.data(); });
  execv(exe.c_str(), arguments.data());
  unsetenv(launching::kBootVariable);
}

}  // namespace

void with_enough_stack(void (*run)(int, char**), int argc, char** argv) {
  pthread_attr_t attributes;
  size_t size = 0;
  if (pthread_getattr_default_np(&attributes) == 0) {
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < kEnough &&
        pthread_attr_setstacksize(&attributes, kEnough) == 0)
      pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  rlimit limit{};
  static ucontext_t context;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kEnough && getcontext(&context) == 0) {
    void* const stack = mmap(nullptr, kEnough, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack != MAP_FAILED) {
      context.uc_stack.ss_sp = stack;
      context.uc_stack.ss_size = kEnough;
      // Pointers may be passed like this on x86-64 (man 3 makecontext, Notes).
      makecontext(&context, reinterpret_cast<void (*)()>(run), 2, argc, argv);
      setcontext(&context);
    }
  }
  run(argc, argv);
  _exit(1);
}

Status settle_addresses(const Process& p, const restart::Version& version,
                        host_memory::ReservedAddresses& reserved) {
  const auto folder = version.folder();
  if (!folder) return {};  // load() reports the error
  const auto image = restart::ImageReader::open(*folder, restart::image_name(p.launch.rank));
  if (!image) return {};
  const Status kept = reserved.reserve(*image);
  if (kept) return {};
  if (p.boot.layout < kLayouts) start_over(p.boot);
  return Error{
      "{}, in {} layouts one after the other: the program had placed memory there itself "
      "(MAP_FIXED). Try again",
      kept.error().message, p.boot.layout + 1};
}

void settled_in(const launching::Boot& boot) {
  if (boot.layout > 0) personality(boot.personality);
}

}  // namespace cropdl::host
