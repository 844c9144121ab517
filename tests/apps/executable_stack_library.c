// The library for executable_stack: calls code that lies on its caller's stack.
__attribute__((noinline)) static long apply(long (*function)(long), long value) { return function(value); }

long twice_on_the_stack(long value);
long twice_on_the_stack(long value) {
  volatile long factor = 2;
  long scaled(long x) { return x * factor; }
  return apply(scaled, value);
}
