// Holds a descriptor or a lock that cannot be saved in the first half of the steps, and releases it for the
// second: refused_files
// scm|ptmx|pts|peer|proc|pressure|queue|linked|directory|lock|record|ofd|fuse|fuse-record|fuse-many|lease|
// owner|signal|given|notify|shared|sharedmemory
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "refused.h"

static int fds[3] = {-1, -1, -1};
static char name[4096], other[4200];

static int file(void) {
  snprintf(name, sizeof name, "/tmp/refused-files-XXXXXX");
  const int fd = mkstemp(name);
  STEPLOG_CHECK(fd >= 0);
  snprintf(other, sizeof other, "%s.other", name);
  return fd;
}

// A descriptor received in a message, over sockets that are closed afterwards.
static int received(int sent) {
  int pair[2], got;
  STEPLOG_CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  char byte = 1, space[CMSG_SPACE(sizeof(int))];
  struct iovec piece = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr* header = CMSG_FIRSTHDR(&m);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &sent, sizeof sent);
  STEPLOG_CHECK(sendmsg(pair[0], &m, 0) == 1);
  m.msg_controllen = sizeof space;
  STEPLOG_CHECK(recvmsg(pair[1], &m, 0) == 1);
  memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
  close(pair[0]);
  close(pair[1]);
  return got;
}

static int open_another(void* unused) {
  (void)unused;
  close_range(900, ~0u, 0);
  return open("/dev/null", O_RDONLY) < 0;
}

static void take(const char* what) {
  if (!strcmp(what, "scm")) {
    int pair[2];
    STEPLOG_CHECK(!pipe(pair));
    fds[0] = received(pair[0]);
    close(pair[0]);
    close(pair[1]);
  } else if (!strcmp(what, "ptmx")) {
    fds[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  } else if (!strcmp(what, "pts") || !strcmp(what, "peer")) {
    fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
    STEPLOG_CHECK(fds[0] >= 0 && !grantpt(fds[0]) && !unlockpt(fds[0]));
    fds[1] = !strcmp(what, "pts") ? open(ptsname(fds[0]), O_RDWR | O_NOCTTY)
                                  : ioctl(fds[0], TIOCGPTPEER, O_RDWR | O_NOCTTY);
    STEPLOG_CHECK(fds[1] >= 0);
    fds[2] = fds[0];  // only the other end stays open
    close(fds[0]);
    fds[0] = fds[1];
  } else if (!strcmp(what, "proc")) {
    fds[0] = open("/proc/self/status", O_RDONLY);
  } else if (!strcmp(what, "pressure")) {
    static const char trigger[] = "some 150000 2000000";
    fds[0] = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK);
    STEPLOG_CHECK(fds[0] >= 0 && write(fds[0], trigger, sizeof trigger) == sizeof trigger);
  } else if (!strcmp(what, "queue")) {
    snprintf(name, sizeof name, "/refused-files-%d", (int)getpid());
    fds[0] = mq_open(name, O_RDWR | O_CREAT, 0600, NULL);
    STEPLOG_CHECK(fds[0] >= 0);
    mq_unlink(name);
  } else if (!strcmp(what, "linked")) {
    fds[0] = file();
    STEPLOG_CHECK(!link(name, other) && !unlink(name));
  } else if (!strcmp(what, "directory")) {
    snprintf(name, sizeof name, "/tmp/refused-files-XXXXXX");
    STEPLOG_CHECK(mkdtemp(name));
    fds[0] = open(name, O_RDONLY | O_DIRECTORY);
    STEPLOG_CHECK(!rmdir(name));
  } else if (!strcmp(what, "lock")) {
    STEPLOG_CHECK(!flock(1, LOCK_EX));
  } else if (!strcmp(what, "record") || !strcmp(what, "ofd")) {
    fds[0] = file();
    struct flock lock = {.l_type = F_WRLCK};
    STEPLOG_CHECK(!fcntl(fds[0], what[0] == 'r' ? F_SETLK : F_OFD_SETLK, &lock));
  } else if (!strncmp(what, "fuse", 4)) {  // on a file system that the driver has mounted there
    struct flock lock = {.l_type = F_WRLCK};
    if (!strcmp(what, "fuse-many")) {  // and one that is not locked stays open to the end
      fds[1] = open("fuse/other", O_RDONLY);
      for (int i = 0; i < 100; i++) {
        snprintf(other, sizeof other, "fuse/locked-%d", i);
        const int fd = open(other, O_RDWR);
        STEPLOG_CHECK(fds[1] >= 0 && fd >= 0 && !flock(fd, LOCK_EX) && !close(fd));
      }
      other[0] = 0;
    }
    fds[0] = open("fuse/locked", O_RDWR);
    STEPLOG_CHECK(!strcmp(what, "fuse-record") ? !fcntl(fds[0], F_SETLKW, &lock) : !flock(fds[0], LOCK_EX));
  } else if (!strcmp(what, "lease")) {
    fds[0] = file();
    STEPLOG_CHECK(!fcntl(fds[0], F_SETLEASE, F_WRLCK));
  } else if (!strcmp(what, "owner")) {
    STEPLOG_CHECK(!fcntl(1, F_SETOWN, getpid()));
  } else if (!strcmp(what, "signal")) {
    STEPLOG_CHECK(!fcntl(1, F_SETSIG, SIGUSR2));
  } else if (!strcmp(what, "given")) {
    fds[0] = 47;  // a number that no launcher uses
    STEPLOG_CHECK(fcntl(47, F_GETFD) >= 0);
  } else if (!strcmp(what, "notify")) {
    signal(SIGIO, SIG_IGN);
    const int fd = open("/tmp", O_RDONLY);
    STEPLOG_CHECK(!fcntl(fd, F_NOTIFY, DN_DELETE));
    close(fd);
  } else if (!strcmp(what, "shared")) {  // a child with shared descriptors but separate memory
    static char stack[65536];
    int status;
    const pid_t child = clone(open_another, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
    STEPLOG_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  } else if (!strcmp(what, "sharedmemory")) {  // with shared memory, the core sees what it does
    static char stack[65536];
    int status;
    const pid_t child =
        clone(open_another, stack + sizeof stack, CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    STEPLOG_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  } else {
    steplog_fail("unknown: %s", what);
  }
  STEPLOG_CHECK(!strcmp(what, "lock") || !strcmp(what, "owner") || !strcmp(what, "signal") ||
                !strcmp(what, "notify") || !strncmp(what, "shared", 6) || fds[0] >= 0);
}

static void let_go(const char* what) {
  if (!strcmp(what, "lock")) STEPLOG_CHECK(!flock(1, LOCK_UN));
  if (!strcmp(what, "owner")) STEPLOG_CHECK(!fcntl(1, F_SETOWN, 0));
  if (!strcmp(what, "signal")) STEPLOG_CHECK(!fcntl(1, F_SETSIG, 0));
  if (fds[0] >= 0) close(fds[0]);
  if (name[0] == '/') unlink(name);
  if (other[0]) unlink(other);
}

int main(int argc, char** argv) { return refused_main(argc, argv, take, let_go); }
