// Descriptors other than plain files: each is held open, most with data in it, and used in every step.
#define _GNU_SOURCE
#include "edge_case.h"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <termios.h>

static void fifo(void) {
  unlink("fifo");
  EDGE_CHECK(mkfifo("fifo", 0600) == 0);
  int fd = open("fifo", O_RDWR);
  char got;
  EDGE_CHECK(write(fd, "abc", 3) == 3);
  while (edge_more()) EDGE_CHECK(read(fd, &got, 1) == 1 && write(fd, &got, 1) == 1);
}

static void listening_socket(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  EDGE_CHECK(bind(fd, (struct sockaddr*)&at, sizeof at) == 0 && listen(fd, 5) == 0 &&
             getsockname(fd, (struct sockaddr*)&at, &size) == 0);
  while (edge_more()) {
    int one = socket(AF_INET, SOCK_STREAM, 0), two;
    EDGE_CHECK(connect(one, (struct sockaddr*)&at, sizeof at) == 0 && (two = accept(fd, NULL, NULL)) >= 0);
    EDGE_CHECK(close(one) == 0 && close(two) == 0);
  }
}

static void unconnected_socket(void) {  // some libraries' getaddrinfo and if_nametoindex leave one like this
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, got;
  socklen_t size = sizeof got;
  EDGE_CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on) == 0);
  while (edge_more()) EDGE_CHECK(getsockopt(fd, SOL_SOCKET, SO_BROADCAST, &got, &size) == 0 && got == 1);
}

static void inotify(void) {
  int fd = inotify_init1(IN_NONBLOCK), watch = inotify_add_watch(fd, ".", IN_CREATE);
  char buffer[4096];
  for (int k = 0; edge_more(); k++) {
    snprintf(buffer, 64, "watched-%d", k);
    unlink(buffer);
    close(open(buffer, O_CREAT | O_WRONLY | O_EXCL, 0600));
    EDGE_CHECK(read(fd, buffer, sizeof buffer) > 0 && ((struct inotify_event*)buffer)->wd == watch);
  }
}

static void process_descriptor(void) {
  int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  while (edge_more()) EDGE_CHECK(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0);
}

static void secret_memory(void) {
  int fd = (int)syscall(447 /* memfd_secret */, 0);
  if (fd < 0) fd = memfd_create("instead", 0);
  EDGE_CHECK(ftruncate(fd, 4096) == 0);
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  EDGE_CHECK(page != MAP_FAILED);
  close(fd);
  strcpy(page, "hidden");
  while (edge_more()) EDGE_CHECK(!strcmp(page, "hidden"));
}

static void io_ring(void) {
  struct io_uring_params parameters = {0};
  int fd = (int)syscall(SYS_io_uring_setup, 4, &parameters);
  if (fd < 0) fd = eventfd(0, 0);  // forbidden on some systems
  while (edge_more()) EDGE_CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC || fcntl(fd, F_GETFD) == 0);
}

static void asynchronous_context(void) {  // io_setup(2): not a descriptor, but a mapping made by the kernel
  aio_context_t context = 0;
  EDGE_CHECK(syscall(SYS_io_setup, 8, &context) == 0);
  int fd = edge_file("read behind", 100, 1, O_RDONLY);
  unsigned char byte;
  for (int k = 0; edge_more(); k++) {
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PREAD,
                       .aio_fildes = (unsigned)fd,
                       .aio_buf = (uintptr_t)&byte,
                       .aio_nbytes = 1,
                       .aio_offset = k};
    struct iocb* list[] = {&one};
    struct io_event event;
    struct timespec soon = {5, 0};
    EDGE_CHECK(syscall(SYS_io_submit, context, 1, list) == 1 &&
               syscall(SYS_io_getevents, context, 1, 1, &event, &soon) == 1);
    EDGE_CHECK(event.res == 1 && byte == edge_byte(1, (uint64_t)k));
  }
}

static void performance_counter(void) {
  struct perf_event_attr what = {.type = PERF_TYPE_SOFTWARE,
                                 .size = sizeof what,
                                 .config = PERF_COUNT_SW_TASK_CLOCK,
                                 .exclude_kernel = 1};
  int fd = (int)syscall(SYS_perf_event_open, &what, 0, -1, -1, 0);
  uint64_t value, last = 0;
  bool counts = fd >= 0;
  if (!counts) fd = eventfd(1, EFD_NONBLOCK);  // forbidden on some systems
  while (edge_more())
    if (counts) {
      EDGE_CHECK(read(fd, &value, 8) == 8 && value >= last);
      last = value;
    }
}

static void user_faults(void) {
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (fd < 0) fd = eventfd(0, EFD_CLOEXEC);
  while (edge_more()) EDGE_CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

static void posix_message_queue(void) {
  char name[64], text[16];
  snprintf(name, sizeof name, "/odd-%d-%llx", getpid(), (unsigned long long)steplog_nonce);
  struct mq_attr size = {.mq_maxmsg = 4, .mq_msgsize = 16};
  mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &size);
  if (queue < 0)
    queue = eventfd(0, 0);  // this kernel has no message queues
  else
    mq_unlink(name);
  unsigned priority;
  while (edge_more())
    if (mq_send(queue, "message", 8, 3) == 0)
      EDGE_CHECK(mq_receive(queue, text, 16, &priority) == 8 && priority == 3 && !strcmp(text, "message"));
}

static void fanotify(void) {
  int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
  if (fd < 0) fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_NONBLOCK, O_RDONLY);
  if (fd < 0) fd = inotify_init();
  while (edge_more()) EDGE_CHECK(fcntl(fd, F_GETFD) >= 0);
}

static void opened_namespace(void) {
  int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
  EDGE_CHECK(fd >= 0);
  struct stat s;
  while (edge_more()) EDGE_CHECK(fstat(fd, &s) == 0 && s.st_ino);
}

static void proc_self_mem(void) {  // some garbage collectors scan their own memory like this
  int fd = open("/proc/self/mem", O_RDWR);
  volatile int value = 0;
  int got;
  for (int k = 1; edge_more(); k++) {
    EDGE_CHECK(pwrite(fd, &k, sizeof k, (off_t)&value) == sizeof k && value == k);
    EDGE_CHECK(pread(fd, &got, sizeof got, (off_t)&value) == sizeof got && got == k);
  }
}

static void proc_self_pagemap(void) {
  int fd = open("/proc/self/pagemap", O_RDONLY);
  static char page[4096] __attribute__((aligned(4096)));
  uint64_t entry;
  while (edge_more()) {
    page[5] = 1;
    EDGE_CHECK(pread(fd, &entry, 8, (off_t)((uintptr_t)page / 4096 * 8)) == 8 && entry >> 63);
  }
}

// --- System V and POSIX shared things ---

static void shared_segment(void) {
  int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
  char* at = shmat(id, NULL, 0);
  EDGE_CHECK(at != (void*)-1 && shmctl(id, IPC_RMID, NULL) == 0);
  strcpy(at + 5000, "in the segment");
  while (edge_more()) EDGE_CHECK(!strcmp(at + 5000, "in the segment"));
}

static void detached_segment(void) {  // not mapped at a cut
  int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
  for (int k = 0; edge_more(); k++) {
    int* at = shmat(id, NULL, 0);
    EDGE_CHECK(at != (void*)-1 && at[100] == k);
    at[100]++;
    EDGE_CHECK(shmdt(at) == 0);
  }
  shmctl(id, IPC_RMID, NULL);
}

static void segment_of_others(void) {  // this process never attached it
  int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
  while (edge_more()) EDGE_CHECK(id >= 0);
  shmctl(id, IPC_RMID, NULL);
}

static void semaphore_set(void) {
  int id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(semctl(id, 1, GETVAL) == k);
    struct sembuf up = {1, 1, 0};
    EDGE_CHECK(semop(id, &up, 1) == 0);
  }
  semctl(id, 0, IPC_RMID);
}

static void many_removed_objects(void) {  // more of each than are alive at any time
  while (edge_more()) {
    for (int i = 0; i < 40; i++) {
      int set = semget(IPC_PRIVATE, 1, 0600), queue = msgget(IPC_PRIVATE, 0600);
      int segment = shmget(IPC_PRIVATE, 4096, 0600);
      struct sembuf up = {0, 1, SEM_UNDO};
      EDGE_CHECK(semop(set, &up, 1) == 0 && semctl(set, 0, IPC_RMID) == 0);
      EDGE_CHECK(msgctl(queue, IPC_RMID, NULL) == 0 && shmctl(segment, IPC_RMID, NULL) == 0);
    }
  }
}

static void named_semaphore(void) {
  char name[64];
  snprintf(name, sizeof name, "/odd-%d-%llx", getpid(), (unsigned long long)steplog_nonce);
  sem_t* semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 2);
  EDGE_CHECK(semaphore != SEM_FAILED && sem_unlink(name) == 0);
  int value;
  while (edge_more())
    EDGE_CHECK(sem_wait(semaphore) == 0 && sem_getvalue(semaphore, &value) == 0 && value == 1 &&
               sem_post(semaphore) == 0);
}

static void shared_object(void) {
  char name[64];
  snprintf(name, sizeof name, "/odd-%d-%llx", getpid(), (unsigned long long)steplog_nonce);
  int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
  EDGE_CHECK(fd >= 0 && shm_unlink(name) == 0 && ftruncate(fd, 4096) == 0);
  int* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int k = 0, got; edge_more(); k++) {
    page[9] = k;
    EDGE_CHECK(pread(fd, &got, sizeof got, 36) == sizeof got && got == k);
  }
}

#define KIND(name) \
  { #name, name }
static const struct edge_case table[] = {
    KIND(fifo),
    KIND(listening_socket),
    KIND(unconnected_socket),
    KIND(inotify),
    KIND(process_descriptor),
    KIND(secret_memory),
    KIND(io_ring),
    KIND(asynchronous_context),
    KIND(performance_counter),
    KIND(user_faults),
    KIND(posix_message_queue),
    KIND(fanotify),
    KIND(opened_namespace),
    KIND(proc_self_mem),
    KIND(proc_self_pagemap),
    KIND(shared_segment),
    KIND(detached_segment),
    KIND(segment_of_others),
    KIND(semaphore_set),
    KIND(many_removed_objects),
    KIND(named_semaphore),
    KIND(shared_object),
};

EDGE_MAIN(table)
