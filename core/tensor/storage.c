// Reference-counted storages. The count is the only thing that threads may race on: an unref releases what other
// threads wrote before theirs (acquire-release), as in every intrusive pointer.
#include <string.h>

#include "core/tensor/files.h"

// Owner of a slice's memory is the parent itself; of a created block the allocator; of a mapping this struct.
typedef struct map_owner {
  const tc_allocator *allocator;
  tc_mapping mapping;
} map_owner;

tc_status tc_storage_wrap(const tc_allocator *a, void *data, size_t size, void (*release)(void *, void *), void *owner,
                          tc_storage **out) {
  *out = NULL;
  tc_storage *s = tc_alloc(a, sizeof *s);
  if (!s) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a storage");
  *s = (tc_storage){.refs = 1, .data = data, .size = size, .release = release, .owner = owner, .allocator = a};
  *out = s;
  return TC_OK;
}

static void release_block(void *owner, void *data) { tc_free(owner, data); }

tc_status tc_storage_create(const tc_allocator *a, size_t size, tc_storage **out) {
  *out = NULL;
  void *data = a->alloc(a->self, size); // not tc_alloc: large storages need not be zeroed
  if (!data) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a storage of %zu bytes", size);
  tc_status status = tc_storage_wrap(a, data, size, release_block, (void *)(uintptr_t)a, out);
  if (status) tc_free(a, data);
  return status;
}

void tc_storage_ref(tc_storage *s) { __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED); }

void tc_storage_unref(tc_storage *s) {
  if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (s->release) s->release(s->owner, s->data);
  tc_free(s->allocator, s);
}

static void release_parent(void *owner, void *data) {
  (void)data;
  tc_storage_unref(owner);
}

tc_status tc_storage_slice(const tc_allocator *a, tc_storage *parent, size_t offset, size_t size, size_t align,
                           tc_storage **out) {
  *out = NULL;
  if (offset > parent->size || size > parent->size - offset)
    return tc_error(TC_STATUS_OUT_OF_RANGE, "bytes %zu to %zu+%zu of a storage of %zu bytes", offset, offset, size,
                    parent->size);
  if (size == 0) return tc_storage_create(a, 0, out);
  uint8_t *data = (uint8_t *)parent->data + offset;
  if (align > 1 && (uintptr_t)data % align != 0) {
    TC_TRY(tc_storage_create(a, size, out));
    memcpy((*out)->data, data, size);
    return TC_OK;
  }
  TC_TRY(tc_storage_wrap(a, data, size, release_parent, parent, out));
  tc_storage_ref(parent);
  return TC_OK;
}

static void release_mapping(void *owner, void *data) {
  (void)data;
  map_owner *m = owner;
  tc_file_unmap(&m->mapping);
  tc_free(m->allocator, m);
}

tc_status tc_storage_map(const tc_allocator *a, const char *path, tc_storage **out) {
  *out = NULL;
  map_owner *m = tc_alloc(a, sizeof *m);
  if (!m) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory to map '%s'", path);
  m->allocator = a;
  tc_status status = tc_file_map(path, &m->mapping);
  if (status) {
    tc_free(a, m);
    return status;
  }
  status = tc_storage_wrap(a, (void *)(uintptr_t)m->mapping.data, m->mapping.size, release_mapping, m, out);
  if (status) release_mapping(m, NULL);
  return status;
}

void tc_storage_forget(const tc_storage *s) {
  const tc_storage *whole = s;
  while (whole->release == release_parent) whole = whole->owner;
  if (whole->release == release_mapping) tc_file_forget(s->data, s->size);
}
