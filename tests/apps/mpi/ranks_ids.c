// Ranks know each other by their process ids, stored at the start and asked for anew. Calls and paths with
// another rank's id reach that rank, and what names a sender, a peer or the holder of a lock has its id.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "steplog.h"

enum { kMost = 16 };
static int rank, ranks, next, former;
static pid_t pids[kMost];  // of the first step
static long word, words[kMost];
static volatile sig_atomic_t signals;
static volatile pid_t sender;

static void note_sender(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  sender = info->si_pid;
  signals++;
}

static void all_have_the_ids_of_the_first_step(void) {
  const pid_t own = getpid();
  pid_t now[kMost];
  MPI_Allgather(&own, 1, MPI_INT, now, 1, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++)
    if (now[r] != pids[r]) steplog_fail("rank %d: pid %d, first %d", r, now[r], pids[r]);
}

// Nothing of this leaves a descriptor open.
static void calls_reach(pid_t other) {
  long there = 0;
  struct iovec to = {&there, sizeof there}, from = {(void*)words[next], sizeof there};
  STEPLOG_CHECK(process_vm_readv(other, &to, 1, &from, 1, 0) == sizeof there);
  STEPLOG_CHECK(there == 100 * steplog_done + next);
  cpu_set_t cpus;
  struct rlimit limit;
  STEPLOG_CHECK(!kill(other, 0) && getpgid(other) > 0 && getsid(other) > 0);
  STEPLOG_CHECK(!sched_getaffinity(other, sizeof cpus, &cpus) && sched_getscheduler(other) >= 0);
  STEPLOG_CHECK(!prlimit(other, RLIMIT_CORE, NULL, &limit));
  const int descriptor = (int)syscall(SYS_pidfd_open, other, 0);
  STEPLOG_CHECK(descriptor >= 0 && !syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0) &&
                !close(descriptor));
}

// A rank's log is open in that rank alone.
static void paths_reach(pid_t other) {
  struct stat log, found;
  unsigned long logs[kMost];
  int numbers[kMost], number = fileno(steplog_file);
  char path[64];
  STEPLOG_CHECK(!fstat(number, &log));
  unsigned long mine = log.st_ino;
  MPI_Allgather(&mine, 1, MPI_UNSIGNED_LONG, logs, 1, MPI_UNSIGNED_LONG, MPI_COMM_WORLD);
  MPI_Allgather(&number, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_WORLD);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", other, numbers[next]);
  STEPLOG_CHECK(!stat(path, &found) && found.st_ino == logs[next] && found.st_dev == log.st_dev);
}

// Both signals are blocked but for a moment: they are pending at many cuts.
static void signals_name_their_sender(const sigset_t* handled, const sigset_t* queued) {
  const int number = SIGRTMIN + 3;
  const union sigval value = {.sival_int = 7 * rank + (int)steplog_done};
  const long before = signals;
  siginfo_t info;
  STEPLOG_CHECK(!kill(pids[next], SIGUSR2) && !sigqueue(pids[next], number, value));
  STEPLOG_CHECK(!kill(pids[next], SIGRTMIN + 4));
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(2000);
  STEPLOG_CHECK(!sigprocmask(SIG_UNBLOCK, handled, NULL) && !sigprocmask(SIG_BLOCK, handled, NULL));
  if (signals != before + 1 || sender != pids[former])
    steplog_fail("%ld signals from %d instead of %d", (long)signals - before, sender, pids[former]);
  for (int i = 0; i < 2; i++) {
    const int taken = sigwaitinfo(queued, &info);
    STEPLOG_CHECK(taken == number || taken == SIGRTMIN + 4);
    if (info.si_pid != pids[former])
      steplog_fail("signal %d from %d instead of %d", taken, info.si_pid, pids[former]);
    if (taken == number) STEPLOG_CHECK(info.si_value.sival_int == 7 * former + (int)steplog_done);
  }
}

// Refuses checkpoints meanwhile.
static void locks_name_their_holder(const char* log) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  if (rank == 0) STEPLOG_CHECK(!fcntl(fileno(steplog_file), F_SETLK, &lock));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) {
    const int file = open(log, O_RDONLY);
    STEPLOG_CHECK(file >= 0 && !fcntl(file, F_GETLK, &lock) && lock.l_type == F_WRLCK);
    if (lock.l_pid != pids[0]) steplog_fail("the lock is of %d instead of %d", lock.l_pid, pids[0]);
    STEPLOG_CHECK(!close(file));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  lock.l_type = F_UNLCK;
  if (rank == 0) STEPLOG_CHECK(!fcntl(fileno(steplog_file), F_SETLK, &lock));
}

// Refuses checkpoints meanwhile.
static void sockets_name_their_peer(void) {
  int pair[2], yes = 1;
  struct ucred peer;
  socklen_t size = sizeof peer;
  char byte = 0;
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(struct ucred))];
  } control;
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  STEPLOG_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  STEPLOG_CHECK(!getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid == getpid());
  STEPLOG_CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) &&
                write(pair[1], "x", 1) == 1);
  STEPLOG_CHECK(recvmsg(pair[0], &message, 0) == 1 && control.header.cmsg_type == SCM_CREDENTIALS);
  memcpy(&peer, CMSG_DATA(&control.header), sizeof peer);
  STEPLOG_CHECK(peer.pid == getpid());
  STEPLOG_CHECK(!fcntl(pair[0], F_SETOWN, getpid()) && fcntl(pair[0], F_GETOWN) == getpid());
  STEPLOG_CHECK(!close(pair[0]) && !close(pair[1]));
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_sigaction = note_sender, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigset_t handled, queued;
  // Before the MPI starts threads of its own, which would take the signals.
  sigemptyset(&handled), sigaddset(&handled, SIGUSR2);
  sigemptyset(&queued), sigaddset(&queued, SIGRTMIN + 3), sigaddset(&queued, SIGRTMIN + 4);
  STEPLOG_CHECK(!sigprocmask(SIG_BLOCK, &handled, NULL) && !sigprocmask(SIG_BLOCK, &queued, NULL));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  STEPLOG_CHECK(ranks > 1 && ranks <= kMost);
  next = (rank + 1) % ranks, former = (rank + ranks - 1) % ranks;
  const char* log = NULL;  // rank 0's
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--log")) log = argv[i + 1];
  STEPLOG_CHECK(!sigaction(SIGUSR2, &action, NULL));
  const pid_t own = getpid();
  const long at = (long)&word;
  MPI_Allgather(&own, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Allgather(&at, 1, MPI_LONG, words, 1, MPI_LONG, MPI_COMM_WORLD);
  while (steplog_done < steplog_steps) {
    all_have_the_ids_of_the_first_step();
    word = 100 * steplog_done + rank;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0,
          0);  // for Yama; a kernel without it does not know the option
    MPI_Barrier(MPI_COMM_WORLD);
    calls_reach(pids[next]);
    paths_reach(pids[next]);
    signals_name_their_sender(&handled, &queued);
    if (log && steplog_done % 4 == 0) locks_name_their_holder(log);
    if (steplog_done % 4 == 2) sockets_name_their_peer();
    MPI_Barrier(MPI_COMM_WORLD);  // until then each rank keeps its word
    steplog_mix((uint64_t)signals);
    steplog_step();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
