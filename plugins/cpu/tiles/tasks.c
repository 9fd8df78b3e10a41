// See tasks.h.
#include "tasks.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../device.h"
#include "tiles.h"

int32_t tiles_refuse(const tc_host *h, const char *why) {
  h->diag(h->self, TC_STATUS_UNIMPLEMENTED, (tc_sv){why, strlen(why)});
  return TC_STATUS_UNIMPLEMENTED;
}

bool tiles_is_named(tc_sv text, const char *name) {
  return text.size == strlen(name) && memcmp(text.data, name, text.size) == 0;
}

static bool is_permitted(void) {
  enum { REQUEST = 0x1023, TILE_DATA = 18 }; // arch_prctl: ARCH_REQ_XCOMP_PERM, for the whole process
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

bool tiles_usable(const tc_host *h, tc_device_ *d) {
  bool usable = tc_cpu_tiles_bf16(tc_cpu_device_target(d)) && is_permitted();
  if (!usable) tiles_refuse(h, "this processor has no matrix unit for bf16, or the system does not let it be used");
  return usable;
}

int32_t tiles_prepare(const tc_host *h, const tc_call_node *n, size_t size, tiles_describe describe, void **out,
                      uint64_t *out_workspace) {
  tiles_call *c = h->alloc(h->self, size);
  if (!c) return TC_STATUS_OUT_OF_MEMORY;
  int32_t s = describe(h, n, c);
  if (s != TC_STATUS_OK) {
    h->free(h->self, c);
    return s;
  }
  *out = c;
  *out_workspace = (uint64_t)(c->scratch * c->threads);
  return TC_STATUS_OK;
}

void tiles_destroy(void *call) {
  tiles_call *c = call;
  if (c) c->host->free(c->host->self, c);
}

typedef struct turns {
  const tiles_call *c;
  tiles_do task;
  const void *run;
  char *workspace;
  atomic_llong next;
} turns;

static void work(void *arg, int64_t begin, int64_t end) {
  turns *t = arg;
  tiles_enter();
  for (int64_t thread = begin; thread < end; thread++)
    for (int64_t i; (i = atomic_fetch_add(&t->next, 1)) < t->c->tasks;)
      t->task(t->run, i, t->workspace + thread * t->c->scratch);
  tiles_leave();
}

void tiles_run(const tiles_call *c, tiles_do task, const void *run, tc_handle workspace, int64_t offset) {
  turns t = {.c = c, .task = task, .run = run, .workspace = (char *)(uintptr_t)workspace + offset};
  c->host->parallel_for(c->host->self, c->threads, 1, work, &t);
}
