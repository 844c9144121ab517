// Signal handlers, mask and alternate stack: SIGUSR2 on the alternate stack, SIGUSR1 with SA_SIGINFO, a
// blocked signal that becomes pending and is delivered later, an ignored signal, sigaction and sigprocmask
// read back.
#define _GNU_SOURCE
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "steplog.h"

static volatile sig_atomic_t usr1, usr2, hup, on_alternate;
static char alternate[64 * 1024];

static void on_usr1(int number, siginfo_t* info, void* context) {
  const stack_t* shown = &((ucontext_t*)context)->uc_stack;
  usr1 += number == SIGUSR1 && info->si_signo == SIGUSR1 && shown->ss_sp == alternate;
}

static void on_usr2(int number) {
  char here;
  usr2 += number == SIGUSR2;
  on_alternate += &here >= alternate && &here < alternate + sizeof alternate;
}

static void on_hup(int number) { hup += number == SIGHUP; }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  STEPLOG_CHECK(!sigaltstack(&stack, NULL));
  struct sigaction action = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  struct sigaction other = {.sa_handler = on_usr2, .sa_flags = SA_ONSTACK};
  sigfillset(&other.sa_mask);
  sigaction(SIGUSR2, &other, NULL);
  signal(SIGHUP, on_hup);
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGHUP);
  sigaddset(&blocked, SIGWINCH);
  sigprocmask(SIG_BLOCK, &blocked, NULL);

  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    STEPLOG_CHECK(usr1 == step && usr2 == step && on_alternate == step && hup == step);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    raise(SIGHUP);
    STEPLOG_CHECK(usr1 == step + 1 && usr2 == step + 1 && hup == step);
    steplog_spin(steplog_pace);  // SIGHUP is pending meanwhile
    sigset_t pending;
    sigpending(&pending);
    STEPLOG_CHECK(sigismember(&pending, SIGHUP) == 1 && sigismember(&pending, SIGUSR1) == 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &blocked, &old);
    STEPLOG_CHECK(hup == step + 1);
    STEPLOG_CHECK(sigismember(&old, SIGHUP) && sigismember(&old, SIGWINCH) && !sigismember(&old, SIGUSR1));
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    STEPLOG_CHECK(now.sa_sigaction == on_usr1 && now.sa_flags & SA_SIGINFO && now.sa_flags & SA_RESTART);
    sigaction(SIGPIPE, NULL, &now);
    STEPLOG_CHECK(now.sa_handler == SIG_IGN);
    sigaction(SIGTERM, NULL, &now);
    STEPLOG_CHECK(now.sa_handler == SIG_DFL);
    stack_t is;
    sigaltstack(NULL, &is);
    STEPLOG_CHECK(is.ss_sp == alternate && is.ss_size == sizeof alternate && is.ss_flags == 0);
    steplog_mix((uint64_t)(usr1 + usr2 + hup));
    steplog_step();
  }
  steplog_ok();
  return 0;
}
