// Opens each argument, NAME or NAME=FUNCTION, and prints the file that was loaded, by /proc/self/maps: `NAME:
// FILE` or `NAME: none`. Then prints the variables CROPDL_SOFTWARE_GPU… of its environment.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char** environ;

static void say_file(const char* name, unsigned long address) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4400], file[4096] = "none";
  while (fgets(line, sizeof line, maps)) {
    unsigned long first, last;
    int at = 0;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &first, &last, &at) >= 2 && address >= first &&
        address < last)
      sscanf(line + at, "%4095s", file);
  }
  fclose(maps);
  printf("%s: %s\n", name, file);
}

int main(int count, char** arguments) {
  for (int i = 1; i < count; i++) {
    struct link_map* map = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL);
    say_file(arguments[i], map ? (unsigned long)map->l_ld : 0);
  }
  for (char** one = environ; *one; ++one)
    if (!strncmp(*one, "CROPDL_SOFTWARE_GPU", 19)) printf("%s\n", *one);
  return 0;
}
