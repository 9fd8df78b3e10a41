// The timeline's file: one line per event, formatted in front of the lock.
#include "core/base/profile.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/fs.h"

struct tc_profile {
  const tc_allocator *allocator;
  FILE *file;
  pthread_mutex_t lock;
  bool begun;
};

tc_status tc_profile_open(const tc_allocator *a, const char *path, tc_profile **out) {
  tc_profile *p = tc_alloc(a, sizeof *p);
  *out = NULL;
  if (!p) return tc_error_out_of_memory();
  *p = (tc_profile){.allocator = a, .file = fopen(path, "we")};
  if (!p->file) {
    int error = errno;
    tc_free(a, p);
    return tc_fs_error(error, "write", path);
  }
  pthread_mutex_init(&p->lock, NULL);
  fputs("[\n", p->file);
  *out = p;
  return TC_OK;
}

void tc_profile_close(tc_profile *p) {
  if (!p) return;
  fputs("\n]\n", p->file);
  fclose(p->file);
  pthread_mutex_destroy(&p->lock);
  tc_free(p->allocator, p);
}

static void put(tc_profile *p, const char *line) {
  pthread_mutex_lock(&p->lock);
  if (p->begun) fputs(",\n", p->file);
  p->begun = true;
  fputs(line, p->file);
  pthread_mutex_unlock(&p->lock);
}

enum { MOST_NAME = 200 };
// A name within JSON's quotes; long ones are cut.
static void escape(tc_sv name, char out[2 * MOST_NAME + 1]) {
  size_t n = 0;
  for (size_t i = 0; i < name.size && i < MOST_NAME; i++) {
    unsigned char c = (unsigned char)name.data[i];
    if (c == '"' || c == '\\') out[n++] = '\\';
    out[n++] = c < 0x20 ? ' ' : (char)c;
  }
  out[n] = '\0';
}

void tc_profile_span(tc_profile *p, const char *category, tc_sv name, double start, double end) {
  char line[2 * MOST_NAME + 256], text[2 * MOST_NAME + 1];
  if (!p) return;
  escape(name, text);
  snprintf(line, sizeof line,
           "{\"ph\":\"X\",\"pid\":%d,\"tid\":%ld,\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f}",
           (int)getpid(), (long)syscall(SYS_gettid), category, text, start * 1e3, (end - start) * 1e3);
  put(p, line);
}

void tc_profile_counter(tc_profile *p, const char *name, double at, const char *unit, int64_t value) {
  char line[512];
  if (!p) return;
  snprintf(line, sizeof line, "{\"ph\":\"C\",\"pid\":%d,\"name\":\"%s\",\"ts\":%.3f,\"args\":{\"%s\":%lld}}",
           (int)getpid(), name, at * 1e3, unit, (long long)value);
  put(p, line);
}
