/* Opens the given library twice and runs it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  for (int i = 0; i < 2; i++) {
    void* library = dlopen(count > 1 ? arguments[1] : "", RTLD_NOW);
    if (!library) return printf("%s\n", dlerror()), 1;
    int (*run)(void) = (int (*)(void))dlsym(library, "run");
    if (!run || run() != 0) return 1;
    dlclose(library);
  }
  return 0;
}
