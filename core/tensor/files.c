// Reading and writing tensor files by path: dispatch on the extension, mapping, atomic writes.
#include <string.h>

#include "core/tensor/files_internal.h"

typedef struct read_job {
  const tc_allocator *allocator;
  tc_arena *arena;
  tc_storage *bytes;
  tc_sv name;
  tc_tensor_list list;
} read_job;

// A .npy file is a list of one, named after the file.
static tc_status list_of_one(void *arg) {
  read_job *job = arg;
  job->list.items = TC_NEW(job->arena, tc_named_tensor);
  job->list.items[0].name = tc_sv_copy(job->arena, job->name);
  TC_TRY(tc_npy_parse(job->allocator, job->arena, job->bytes, 0, job->bytes->size, &job->list.items[0].tensor));
  job->list.count = 1;
  return TC_OK;
}

static tc_status parse_npy_list(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, tc_sv path,
                                tc_tensor_list *out) {
  const tc_sv base = tc_path_base(path);
  read_job job = {.allocator = a, .arena = arena, .bytes = bytes, .name = tc_sv_sub(base, 0, base.size - 4)};
  tc_status status = tc_arena_guard(arena, list_of_one, &job);
  if (!status) *out = job.list;
  return status;
}

tc_status tc_tensors_read(const tc_allocator *a, tc_arena *arena, const char *path, tc_tensor_list *out) {
  const tc_sv p = tc_sv_of(path);
  const bool safetensors = tc_sv_ends(p, ".safetensors"), npz = tc_sv_ends(p, ".npz"), npy = tc_sv_ends(p, ".npy");
  tc_storage *bytes;
  *out = (tc_tensor_list){0};
  if (!safetensors && !npz && !npy)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'%s' is no tensor file: .safetensors, .npz and .npy are known", path);
  TC_TRY(tc_storage_map(a, path, &bytes));
  tc_status status = safetensors ? tc_safetensors_parse(a, arena, bytes, out)
                     : npz       ? tc_npz_parse(a, arena, bytes, out)
                                 : parse_npy_list(a, arena, bytes, p, out);
  tc_storage_unref(bytes);
  return status ? tc_status_note(status, "while reading '%s'", path) : TC_OK;
}

tc_status tc_npy_read(const tc_allocator *a, tc_arena *arena, const char *path, tc_tensor *out) {
  tc_storage *bytes;
  *out = (tc_tensor){0};
  TC_TRY(tc_storage_map(a, path, &bytes));
  tc_status status = tc_npy_parse(a, arena, bytes, 0, bytes->size, out);
  tc_storage_unref(bytes);
  return status ? tc_status_note(status, "while reading '%s'", path) : TC_OK;
}

typedef struct write_job {
  tc_arena *arena;
  tc_status (*build)(tc_arena *arena, const tc_tensor_list *list, uint8_t **out_file, size_t *out_size);
  const tc_tensor_list *list;
  uint8_t *file;
  size_t size;
} write_job;

static tc_status run_build(void *arg) {
  write_job *job = arg;
  return job->build(job->arena, job->list, &job->file, &job->size);
}

static tc_status write_built(write_job *job, const char *path) {
  tc_status status = tc_arena_guard(job->arena, run_build, job); // the file's buffer outlives an unwinding arena
  if (!status) status = tc_file_write(path, job->file, job->size);
  tc_free(tc_arena_allocator(job->arena), job->file);
  return status ? tc_status_note(status, "while writing '%s'", path) : TC_OK;
}

tc_status tc_tensors_write(tc_arena *arena, const char *path, const tc_tensor_list *list) {
  write_job job = {.arena = arena, .list = list};
  if (tc_sv_ends(tc_sv_of(path), ".safetensors")) job.build = tc_safetensors_build;
  if (tc_sv_ends(tc_sv_of(path), ".npz")) job.build = tc_npz_build;
  if (!job.build)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'%s': tensors are written as .safetensors or .npz", path);
  return write_built(&job, path);
}

static tc_status build_npy(tc_arena *arena, const tc_tensor_list *list, uint8_t **out_file, size_t *out_size) {
  const tc_allocator *a = tc_arena_allocator(arena);
  const tc_tensor *t = &list->items[0].tensor;
  tc_stored s = {.dtype = t->dtype, .rank = t->rank};
  tc_sv header;
  for (int32_t i = 0; i < t->rank; i++) s.sizes[i] = t->sizes[i];
  if (!tc_stored_measure(&s)) return tc_error(TC_STATUS_OUT_OF_RANGE, "the tensor is too large for a file");
  TC_TRY(tc_npy_header(arena, &s, &header));
  *out_size = header.size + (size_t)s.bytes;
  *out_file = a->alloc(a->self, *out_size);
  if (!*out_file) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a file of %zu bytes", *out_size);
  memcpy(*out_file, header.data, header.size);
  return tc_stored_put(a, t, *out_file + header.size);
}

tc_status tc_npy_write(tc_arena *arena, const char *path, const tc_tensor *t) {
  tc_named_tensor item = {.tensor = *t};
  const tc_tensor_list list = {&item, 1};
  write_job job = {.arena = arena, .list = &list, .build = build_npy};
  return write_built(&job, path);
}
