/* libcropdl.so: `LD_PRELOAD=libcropdl.so ./train` protects an MPI program that is not started by a cropdl-run
   command line, for example by `exec ./train` in a wrapper script. If the program is linked with MPI, or is a
   Python started by an MPI launcher, the constructor execs cropdl-run with it. In shells, launchers and
   helpers the constructor does nothing. Uses libc only, no C++ run-time library, because every process that
   the launcher starts loads this file. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <iterator>

#include "interpose/entry/variables.h"
#include "interpose/launch/launchers.h"
#include "interpose/seam/layout.h"

namespace {

const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int has_mpi;
int look(struct dl_phdr_info* info, size_t, void*) {
  const char* name = base_name(info->dlpi_name);
  if (!strncmp(name, "libmpi.so", 9) || !strncmp(name, "libmpich.so", 11)) has_mpi = 1;
  return has_mpi;
}

/* Whether a launcher started this process that tells the number of ranks (`told` 0: that does not). */
int launched(int told) {
  for (const cropdl::launching::Launcher& l : cropdl::launching::kLaunchers)
    if ((l.sizes[0] != nullptr) == told && getenv(l.only_with ? l.only_with : l.rank)) return 1;
  return 0;
}

/* Whether the program only starts others, which load this file themselves. */
int is_helper(const char* name) {
  using namespace cropdl::launching;
  return is_one_of(kLauncherExecutables, name) || is_one_of(kProxyExecutables, name) ||
         is_one_of({"cropdl", "cropdl-run", "cropdl-restart", "gdb", "ssh"}, name) ||
         !strncmp(name, "cropdl-lower-", 13);
}

/* Finds cropdl-run from this library's path: PREFIX/lib/libcropdl.so, PREFIX/lib/.../cropdl/libcropdl.so. */
int find_runner(char* out, size_t size) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&find_runner), &info)) return 0;
  char directory[3072];
  snprintf(directory, sizeof directory, "%s", info.dli_fname);
  char* slash = strrchr(directory, '/');
  if (!slash) return 0;
  *slash = 0;
  static const char* const places[] = {"/../bin/cropdl-run", "/../../../bin/cropdl-run",
                                       "/../../bin/cropdl-run"};
  for (const char* place : places) {
    snprintf(out, size, "%s%s", directory, place);
    if (!access(out, X_OK)) return 1;
  }
  return 0;
}

__attribute__((constructor)) void enter(int argc, char** argv, char**) {
  if (argc < 1 || !argv || !argv[0] || getauxval(AT_SECURE)) return;
  if (cropdl::seam::in_window(getauxval(AT_ENTRY))) return;       // already under CropDL
  if (getauxval(AT_SYSINFO_EHDR) == cropdl::seam::kCore) return;  // a non-PIE program under CropDL
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return;
  self[n] = 0;
  const char* name = base_name(self);
  if (is_helper(name)) return;
  dl_iterate_phdr(look, nullptr);
  if (!has_mpi) {
    if (strncmp(name, "python", 6) != 0) return;
    if (!launched(1)) {
      if (launched(0))
        fprintf(
            stderr,
            "libcropdl.so: %s has a launcher that does not tell how many ranks there are; it runs without "
            "checkpoints\n",
            name);
      return;
    }
  }
  char runner[4096];
  if (!find_runner(runner, sizeof runner)) {
    fprintf(stderr, "libcropdl.so: cropdl-run is not beside it; %s runs without checkpoints\n", name);
    return;
  }
  // The command line: cropdl-run, its options from environment variables, --, the program's path, and its
  // words. Its argv[0] is passed, too: Python finds its virtual environment by it.
  char** words =
      static_cast<char**>(calloc((size_t)argc + 2 * std::size(cropdl::entry::kVariables) + 6, sizeof *words));
  char* called;
  if (!words || asprintf(&called, "--argv0=%s", argv[0]) < 0) {
    fprintf(stderr, "libcropdl.so: out of memory; %s runs without checkpoints\n", name);
    free(words);
    return;
  }
  int w = 0;
  words[w++] = runner;
  for (const cropdl::entry::Variable& v : cropdl::entry::kVariables) {
    char* const value = getenv(v.name);
    if (!value || (v.value == v.kNone && (!*value || !strcmp(value, "0")))) continue;
    words[w++] = const_cast<char*>(v.option);
    if (v.value == v.kNextWord) words[w++] = value;
    char* joined;
    if (v.value == v.kSameWord && asprintf(&joined, "%s=%s", v.option, value) >= 0) words[w - 1] = joined;
  }
  if (argv[0][0]) words[w++] = called;
  words[w++] = (char*)"--";
  words[w++] = self;
  for (int i = 1; i < argc; ++i) words[w++] = argv[i];
  execve(runner, words, environ);
  fprintf(stderr, "libcropdl.so: cannot run %s; %s runs without checkpoints\n", runner, name);
  free(called);
  free(words);
}

}  // namespace
