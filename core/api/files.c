// Checkpoints of the embedder's API: named tensors in a .safetensors file.
#include "core/tensor/files.h"

#include <string.h>

#include "core/api/internal.h"

typedef struct file_job {
  tc_context *c;
  tc_arena *arena;
  const char *path;
  int32_t n;
  const char *const *names;
  tc_tensor *const *tensors;
  tc_tensor_list list; // reading: to be freed
} file_job;

static tc_status save(void *arg) {
  file_job *j = arg;
  tc_tensor_list list = {TC_NEW_ARRAY(j->arena, tc_named_tensor, j->n + 1), j->n};
  for (int32_t i = 0; i < j->n; i++) list.items[i] = (tc_named_tensor){tc_sv_of(j->names[i]), *j->tensors[i]};
  return tc_tensors_write(j->arena, j->path, &list);
}

static tc_status check(const tc_tensor *have, const tc_tensor *want, const char *name) {
  bool same = have && have->dtype == want->dtype && have->rank == want->rank;
  if (!have) return tc_error(TC_STATUS_NOT_FOUND, "there is no tensor '%s'", name);
  for (int32_t d = 0; same && d < want->rank; d++) same = have->sizes[d] == want->sizes[d];
  return same ? TC_OK : tc_error(TC_STATUS_INVALID_ARGUMENT, "the tensor '%s' has another dtype or other sizes", name);
}

// All are checked before any is written.
static tc_status load(void *arg) {
  file_job *j = arg;
  TC_TRY(tc_tensors_read(j->c->allocator, j->arena, j->path, &j->list));
  for (int32_t i = 0; i < j->n; i++)
    TC_TRY(check(tc_tensor_list_find(&j->list, tc_sv_of(j->names[i])), j->tensors[i], j->names[i]));
  for (int32_t i = 0; i < j->n; i++) {
    TC_TRY(tc_tensor_copy(tc_tensor_list_find(&j->list, tc_sv_of(j->names[i])), j->tensors[i]));
    api_note_write(j->tensors[i]);
  }
  return TC_OK;
}

static int32_t run(const char *here, tc_status (*what)(void *), const char *path, int32_t n, const char *const *names,
                   tc_tensor *const *tensors, bool writes) {
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  if (n < 1) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "no tensors for %s", path);
  for (int32_t i = 0; i < n; i++) {
    if (!names[i] || !tensors[i])
      return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tensor %d for %s is missing", i, path);
    if (!api_readable(here, "a tensor is read or written by a file", tensors[i], writes)) return tc_last_code();
  }
  file_job j = {.c = api_of(tensors[0])->context, .path = path, .n = n, .names = names, .tensors = tensors};
  tc_status s = tc_arena_create(j.c->allocator, &j.arena);
  if (s == TC_OK) s = tc_arena_guard(j.arena, what, &j);
  tc_tensor_list_free(&j.list);
  tc_arena_destroy(j.arena);
  return api_fail(s == TC_OK ? s : tc_status_note(s, "at the file %s", path));
}

int32_t tc_save_tensors_at(const char *here, const char *path, int32_t n, const char *const *names,
                           tc_tensor *const *tensors) {
  return run(here, save, path, n, names, tensors, false);
}

int32_t tc_load_tensors_at(const char *here, const char *path, int32_t n, const char *const *names,
                           tc_tensor *const *tensors) {
  return run(here, load, path, n, names, tensors, true);
}
