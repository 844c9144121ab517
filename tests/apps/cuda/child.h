// Runs a function in a child process that has not used the device yet, so that a broken context affects only
// the child. RUN_CHILD=N in the environment: the Nth function runs in this process, which ends with it; those
// before it do not run.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "check.h"

struct Ended {
  int status;  // the exit status, or 128 + the signal
  std::string output, errors;
};

inline int children;

// Must be called before the parent's first call of the runtime (a context does not survive fork).
template <class Function>
Ended in_child(Function function) {
  if (const char* wanted = std::getenv("RUN_CHILD")) {
    if (++children != std::atoi(wanted)) return {};
    function();
    std::exit(0);
  }
  int out[2], err[2];
  if (pipe(out) || pipe(err)) fail("pipe");
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int* ends : {out, err}) close(ends[0]), close(ends[1]);
    function();
    std::exit(0);
  }
  close(out[1]);
  close(err[1]);
  Ended ended;
  auto drain = [](int fd, std::string* to) {  // each text fits into a pipe's buffer
    char buffer[4096];
    for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) to->append(buffer, got);
    close(fd);
  };
  drain(out[0], &ended.output);
  drain(err[0], &ended.errors);
  int status;
  waitpid(child, &status, 0);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

// With --no-children a program leaves out the parts that run in children.
inline bool has_children(int argc, char** argv) {
  return argc < 2 || std::strcmp(argv[1], "--no-children") != 0;
}

inline void expect_child(const Ended& ended, const char* what) {
  if (ended.status != 0) fail("%s: ended with %d: %s", what, ended.status, ended.errors.c_str());
}
