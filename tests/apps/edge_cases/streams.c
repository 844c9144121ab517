// Unusual uses of the standard streams and of stdio's buffers. The driver compares the output byte by byte.
#define _GNU_SOURCE
#include "edge_case.h"

#include <iconv.h>
#include <langinfo.h>
#include <locale.h>
#include <wchar.h>

static void copies_input_to_output(void) {
  char line[200];
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(scanf("%199[^\n]\n", line) == 1);
    EDGE_CHECK(printf("out %d: %s\n", k, line) > 0);
    fprintf(stderr, "err %d: %s\n", k, line);
    if (k % 3 == 0) fflush(stdout);
  }
}

static void reads_input_by_bytes(void) {
  char byte;
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(read(0, &byte, 1) == 1 && lseek(0, 0, SEEK_CUR) == k + 1);
    EDGE_CHECK(write(1, &byte, 1) == 1 && write(2, &byte, 1) == 1);
  }
}

static void nonblocking_input(void) {
  EDGE_CHECK(fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK) == 0);
  while (edge_more()) EDGE_CHECK((fcntl(0, F_GETFL) & O_NONBLOCK) != 0);
}

static void standard_error_replaced_by_a_data_file(void) {
  EDGE_CHECK(close(2) == 0 && open("data", O_CREAT | O_TRUNC | O_RDWR, 0600) == 2);
  char text[8];
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(write(2, "record.", 7) == 7 && lseek(2, 0, SEEK_END) == 7 * (k + 1));
    for (int i = 0; i <= k; i++) EDGE_CHECK(pread(2, text, 7, i * 7) == 7 && !memcmp(text, "record.", 7));
  }
}

static void standard_output_replaced_by_a_data_file(void) {
  EDGE_CHECK(close(0) == 0 && close(1) == 0 && open("data", O_CREAT | O_TRUNC | O_RDWR, 0600) == 0 &&
             dup(0) == 1);
  char text[8];
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(write(k % 2, "record.", 7) == 7 && lseek(1, 0, SEEK_CUR) == 7 * (k + 1));
    for (int i = 0; i <= k; i++) EDGE_CHECK(pread(0, text, 7, i * 7) == 7 && !memcmp(text, "record.", 7));
    EDGE_CHECK(lseek(0, 0, SEEK_END) == 7 * (k + 1));
  }
}

static void all_three_closed(void) {
  for (int fd = 0; fd < 3; fd++) close(fd);
  while (edge_more())
    for (int fd = 0; fd < 3; fd++) EDGE_CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
}

static void redirected_to_a_file_and_back(void) {
  int kept = dup(1), fd = edge_file("aside", 0, 0, O_RDWR | O_APPEND), back = 0;
  for (int k = 0; edge_more(); k++) {
    printf("line %d\n", k);
    fflush(stdout);
    EDGE_CHECK(dup2(back ? kept : fd, 1) == 1);
    back = !back;
    struct stat s;
    EDGE_CHECK(fstat(fd, &s) == 0);
    steplog_mix((uint64_t)s.st_size);
  }
}

static void inherited_descriptors(void) {  // descriptors 3 and 7, as from a shell's redirections
  char byte, text[32];
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(read(3, &byte, 1) == 1);
    int size = snprintf(text, sizeof text, "%d %c\n", k, byte);
    EDGE_CHECK(write(7, text, (size_t)size) == size);
    steplog_mix((uint64_t)byte);
  }
}

static void inherited_and_unused(void) {
  while (edge_more()) {
  }
  char byte;
  EDGE_CHECK(read(3, &byte, 1) == 1);
  steplog_mix((uint64_t)byte);
}

static void dialogue_on_standard_streams(void) {
  setvbuf(stdout, NULL, _IOLBF, 256);
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(printf("out %d\n", k) > 0 && fprintf(stderr, "err %d\n", k) > 0);
  }
}

// --- stdio ---

static void unflushed_output(void) {  // nothing reaches the file before the program ends
  FILE* file = fopen("buffered", "w+");
  static char buffer[1 << 16];
  setvbuf(file, buffer, _IOFBF, sizeof buffer);
  struct stat s;
  for (int k = 0; edge_more(); k++) {
    fprintf(file, "line %d\n", k);
    EDGE_CHECK(fstat(fileno(file), &s) == 0 && s.st_size == 0);
  }
  rewind(file);
  for (int k = 0, got; k < steplog_steps; k++) EDGE_CHECK(fscanf(file, "line %d\n", &got) == 1 && got == k);
}

static void pushed_back_characters(void) {
  close(edge_file("pushed", 100, 1, O_RDONLY));
  FILE* file = fopen("pushed", "r");
  for (int k = 0; edge_more(); k++) {
    if (k) EDGE_CHECK(getc(file) == 'Z');
    EDGE_CHECK(getc(file) == edge_byte(1, (uint64_t)k));
    EDGE_CHECK(ungetc('Z', file) == 'Z' && ftell(file) == k);
  }
}

static ssize_t cookie_read(void* cookie, char* bytes, size_t size) {
  long* at = (long*)cookie;
  for (size_t i = 0; i < size && i < 7; i++) bytes[i] = (char)('a' + (*at)++ % 26);
  return size < 7 ? (ssize_t)size : 7;
}

static void streams_in_memory(void) {
  static long at;
  char *grown = NULL, fixed[400] = "";
  size_t size = 0;
  FILE *memory = open_memstream(&grown, &size), *on = fmemopen(fixed, sizeof fixed, "w+"),
       *cookie = fopencookie(&at, "r", (cookie_io_functions_t){.read = cookie_read});
  for (int k = 0; edge_more(); k++) {
    fprintf(memory, "%3d", k);
    fprintf(on, "%3d", k);
    fflush(memory);
    fflush(on);
    EDGE_CHECK(size == (size_t)(k + 1) * 3 && !strcmp(grown, fixed) && getc(cookie) == 'a' + k % 26);
  }
}

static void wide_stream(void) {
  EDGE_CHECK(setlocale(LC_ALL, "C.UTF-8"));
  FILE* file = fopen("wide", "w+, ccs=UTF-8");
  EDGE_CHECK(file);
  for (int k = 0; edge_more(); k++) {
    EDGE_CHECK(fwprintf(file, L"\u00e4\u4e2d\U0001f600%d\n", k) > 0 && fwide(file, 0) > 0);
    rewind(file);
    wchar_t line[32];
    for (int i = 0; i <= k; i++) EDGE_CHECK(fgetws(line, 32, file) && line[2] == 0x1f600);
    fseek(file, 0, SEEK_END);
  }
}

static void conversion_in_the_middle(void) {
  iconv_t to = iconv_open("ISO-2022-JP", "UTF-8"), latin = iconv_open("UTF-16", "ISO-8859-1");
  EDGE_CHECK(to != (iconv_t)-1 && latin != (iconv_t)-1);
  char text[64];
  for (int k = 0; edge_more(); k++) {
    char in[] = "\xe6\x97\xa5", *from = in, *out = text;
    size_t left = 3, room = sizeof text;
    EDGE_CHECK(iconv(to, &from, &left, &out, &room) == 0);
    // the escape sequence is written once: the conversion state is kept
    EDGE_CHECK(out - text == (k ? 2 : 5));
    char one[] = "\xe9", *source = one;
    out = text, left = 1, room = sizeof text;
    EDGE_CHECK(iconv(latin, &source, &left, &out, &room) == 0 &&
               out - text == (k ? 2 : 4));  // plus the byte order mark
  }
}

static void locale_of_the_thread(void) {
  locale_t utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
  EDGE_CHECK(utf8);
  locale_t old = uselocale(utf8);
  while (edge_more()) {
    EDGE_CHECK(!strcmp(nl_langinfo(CODESET), "UTF-8") && uselocale(NULL) == utf8);
    wchar_t one;
    EDGE_CHECK(mbtowc(&one, "\xe2\x82\xac", 3) == 3 && one == 0x20ac);
  }
  uselocale(old);
  freelocale(utf8);
}

static void half_read_multibyte_character(void) {  // a shift state that lasts over two steps
  EDGE_CHECK(setlocale(LC_CTYPE, "C.UTF-8"));
  mbstate_t state = {0};
  wchar_t one;
  const char* euro = "\xe2\x82\xac";
  for (int k = 0; edge_more(); k++) {
    size_t got = mbrtowc(&one, euro + k % 3, 1, &state);
    EDGE_CHECK(k % 3 == 2 ? got == 1 && one == 0x20ac : got == (size_t)-2);
  }
}

static void descriptor_closed_behind_stdio(
    void) {  // the FILE's descriptor number now belongs to another file
  FILE* file = fopen("victim", "w+");
  int other = edge_file("other", 0, 0, O_RDWR);
  EDGE_CHECK(dup2(other, fileno(file)) == fileno(file));
  struct stat s;
  for (int k = 1; edge_more(); k++) {
    fputs("abc", file);
    fflush(file);
    EDGE_CHECK(fstat(other, &s) == 0 && s.st_size == 3 * k && stat("victim", &s) == 0 && s.st_size == 0);
  }
}

static void written_in_an_exit_handler(void) {
  printf("this line leaves the buffer at exit");
  while (edge_more()) {
  }
}

#define KIND(name) \
  { #name, name }
static const struct edge_case table[] = {
    KIND(copies_input_to_output),
    KIND(reads_input_by_bytes),
    KIND(nonblocking_input),
    KIND(standard_error_replaced_by_a_data_file),
    KIND(standard_output_replaced_by_a_data_file),
    KIND(all_three_closed),
    KIND(redirected_to_a_file_and_back),
    KIND(inherited_descriptors),
    KIND(inherited_and_unused),
    {"inherited_with_its_writer", inherited_and_unused},
    KIND(dialogue_on_standard_streams),
    {"dialogue_on_a_terminal", dialogue_on_standard_streams},
    KIND(unflushed_output),
    KIND(pushed_back_characters),
    KIND(streams_in_memory),
    KIND(wide_stream),
    KIND(conversion_in_the_middle),
    KIND(locale_of_the_thread),
    KIND(half_read_multibyte_character),
    KIND(descriptor_closed_behind_stdio),
    KIND(written_in_an_exit_handler),
};

EDGE_MAIN(table)
