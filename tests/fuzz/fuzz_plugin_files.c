// What the loader reads before it trusts anything: manifests and the symbol tables of shared objects. Any bytes are
// accepted or refused with an error. The bytes that start like an ELF file are taken as one.
#include <stdlib.h>
#include <string.h>

#include "core/plugin/internal.h"

typedef struct input {
  tc_arena *arena;
  const uint8_t *data;
  size_t size;
} input;

static tc_status run(void *arg) {
  input *in = arg;
  if (in->size >= 4 && memcmp(in->data, "\177ELF", 4) == 0) {
    // A copy of the exact size, so that reads beyond it are seen; malloc aligns enough.
    uint8_t *exact = malloc(in->size);
    if (!exact) return TC_OK;
    memcpy(exact, in->data, in->size);
    tc_status s = tc_elf_check_bytes("fuzz.so", (tc_mapping){exact, in->size});
    free(exact);
    return s;
  }
  tc_plugin p = {0};
  TC_TRY(tc_manifest_parse(in->arena, TC_SV("/fuzz.tc-plugin.toml"), (tc_sv){(const char *)in->data, in->size}, &p));
  if (!p.name.size || !p.file.size || !p.capabilities || memchr(p.file.data, '/', p.file.size)) abort();
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {NULL, data, size};
  tc_status s = tc_arena_create(tc_system_allocator(), &in.arena);
  if (s == TC_OK) s = tc_arena_guard(in.arena, run, &in);
  tc_status_free(s);
  tc_arena_destroy(in.arena);
  return 0;
}
