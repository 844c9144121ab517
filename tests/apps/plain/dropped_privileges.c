// Permanently drops groups, capabilities and, with the argument `user`, the user id; checks that they do not
// come back. Must run as root, at least of a user namespace.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

static char expected[2048], found[2048];

static void look(char* to) {
  gid_t groups[64];
  uid_t user[3];
  gid_t group[3];
  const int n = getgroups(64, groups);
  STEPLOG_CHECK(n >= 0 && !getresuid(&user[0], &user[1], &user[2]) &&
                !getresgid(&group[0], &group[1], &group[2]));
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  STEPLOG_CHECK(!syscall(SYS_capget, &header, data));
  int at = sprintf(to, "user %u %u %u %d group %u %u %u %d caps %x %x %x %x %x %x bits %d:", user[0], user[1],
                   user[2], setfsuid((uid_t)-1), group[0], group[1], group[2], setfsgid((gid_t)-1),
                   data[0].effective, data[1].effective, data[0].permitted, data[1].permitted,
                   data[0].inheritable, data[1].inheritable, prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
  for (int i = 0; i < n; i++) at += sprintf(to + at, " %u", groups[i]);
  for (unsigned long c = 0; c < 41; c++)
    at += sprintf(to + at, "%c",
                  prctl(PR_CAPBSET_READ, c, 0, 0, 0) > 0
                      ? prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, c, 0, 0) > 0 ? 'a' : 'b'
                      : '-');
}

static void give_up(const char* what) {
  gid_t groups[] = {1000, 2000, 3000};
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  // impossible in a user namespace that maps one user
  if (setgroups(3, groups)) STEPLOG_CHECK(errno == EPERM);
  if (!strcmp(what, "group")) STEPLOG_CHECK(!setresgid(1000, 1000, 1000));
  STEPLOG_CHECK(!prctl(PR_CAPBSET_DROP, CAP_SYS_RAWIO, 0, 0, 0) &&
                !prctl(PR_CAPBSET_DROP, CAP_SYS_MODULE, 0, 0, 0));
  STEPLOG_CHECK(!prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0));
  STEPLOG_CHECK(!syscall(SYS_capget, &header, data));
  data[0].inheritable = data[0].permitted = data[0].effective = 1u << CAP_KILL | 1u << CAP_CHOWN;
  data[1].inheritable = data[1].permitted = data[1].effective = 0;
  data[0].effective = 1u << CAP_KILL;
  if (!strcmp(what, "user")) {
    STEPLOG_CHECK(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && !setresgid(1000, 1000, 1000) &&
                  !setresuid(1000, 1000, 1000));
  }
  STEPLOG_CHECK(!syscall(SYS_capset, &header, data));
  STEPLOG_CHECK(!prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0));
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  steplog_open(argc, argv, -1);
  give_up(argv[1]);
  look(expected);
  while (steplog_done < steplog_steps) {
    look(found);
    if (strcmp(expected, found)) steplog_fail("was %s, is %s", expected, found);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
