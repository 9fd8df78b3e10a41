// An NVRTC for tests: compiles nothing, notes the bound and the level that it is asked for, and says of registers and
// spills what the test wants; nothing, as from its cache, where it may take code from there. A program's code names the
// number of its compilation.
#include "fake_nvrtc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, CODE = 64 };

static fake_nvrtc state;
EXPORT fake_nvrtc *fake_nvrtc_state(void) { return &state; }

typedef struct program {
  char *source;
  char log[120];
  int number;
} program;

EXPORT int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, OK; }
EXPORT int nvrtcCreateProgram(program **out, const char *source, const char *name, int n, const char *const *headers,
                              const char *const *names) {
  (void)name, (void)n, (void)headers, (void)names;
  *out = calloc(1, sizeof **out);
  (*out)->source = strdup(source);
  state.live++;
  return OK;
}
EXPORT int nvrtcCompileProgram(program *p, int n, const char *const *options) {
  const char *bounds = strstr(p->source, "__launch_bounds__(");
  fake_compilation *c = &state.made[p->number = state.n_made++ % FAKE_COMPILATIONS];
  *c = (fake_compilation){0};
  if (bounds) sscanf(bounds, "__launch_bounds__(%*d, %d)", &c->blocks);
  bool cached = true;
  for (int i = 0; i < n; i++) c->low |= strcmp(options[i], "--ptxas-options=-O1") == 0;
  for (int i = 0; i < n; i++) cached &= strcmp(options[i], "--no-cache") != 0;
  if (cached) return OK;
  const fake_result *r = c->low ? &state.low : c->blocks ? &state.bounded : &state.free;
  snprintf(p->log, sizeof p->log,
           "ptxas . 0 bytes stack frame, %d bytes spill stores\nptxas info : Used %d registers, used 1 barriers\n",
           r->spilled, r->registers);
  return OK;
}
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *size) { return *size = strlen(p->log) + 1, OK; }
EXPORT int nvrtcGetProgramLog(program *p, char *log) { return memcpy(log, p->log, strlen(p->log) + 1), OK; }
EXPORT int nvrtcGetCUBINSize(program *p, size_t *size) {
  return *size = state.object ? state.object_size : CODE, (void)p, OK;
}
EXPORT int nvrtcGetCUBIN(program *p, char *code) {
  if (state.object) return memcpy(code, state.object, state.object_size), OK;
  memset(code, 0, CODE);
  memcpy(code, "\177ELF\2\1", 6);
  code[6] = (char)p->number;
  return OK;
}
EXPORT int nvrtcDestroyProgram(program **p) {
  free((*p)->source), free(*p);
  state.live--;
  return *p = NULL, OK;
}
