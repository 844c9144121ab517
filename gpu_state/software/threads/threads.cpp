#include "gpu_state/software/threads/threads.h"

#include <signal.h>

#include <memory>
#include <utility>

namespace cropdl::threads {

namespace {

void* begin(void* given) {
  std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(given));
  std::fesetenv(FE_DFL_ENV);  // threads inherit it
  (*work)();
  return nullptr;
}

}  // namespace

bool start(std::function<void()> work, pthread_t* joined) {
  auto given = std::make_unique<std::function<void()>>(std::move(work));
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (int of_an_instruction : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    sigdelset(&blocked, of_an_instruction);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);  // threads inherit it
  pthread_t made;
  const bool began = pthread_create(&made, nullptr, begin, given.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!began) return false;
  (void)given.release();  // the new thread owns it
  if (joined)
    *joined = made;
  else
    pthread_detach(made);
  return true;
}

}  // namespace cropdl::threads
