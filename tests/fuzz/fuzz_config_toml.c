// Config files: any bytes are read or refused with an error, and what was read prints as a file that reads back equal.
#include <stdlib.h>

#include "core/config/config.h"

typedef struct input {
  const tc_allocator *allocator;
  tc_arena *arena;
  tc_sv text;
} input;

static void require(tc_status s) {
  if (s != TC_OK) abort();
}

static tc_status run(void *arg) {
  input *in = arg;
  tc_config *c, *back;
  require(tc_config_create(in->allocator, &c));
  require(tc_config_create(in->allocator, &back));
  tc_status s = tc_config_read_text(c, TC_SV("fuzz.toml"), in->text);
  if (s == TC_OK) {
    tc_sb first = tc_sb_make(in->arena), keys[2] = {tc_sb_make(in->arena), tc_sb_make(in->arena)};
    require(tc_config_print(c, &first));
    require(tc_config_read_text(back, TC_SV("printed"), tc_sb_view(&first)));
    require(tc_config_code_key(c, &keys[0]));
    require(tc_config_code_key(back, &keys[1]));
    if (!tc_sv_eq(tc_sb_view(&keys[0]), tc_sb_view(&keys[1]))) abort();
    for (int32_t i = 0; i < TC_OPT_COUNT; i++)
      if (!tc_sv_eq(tc_config_text(c, i), tc_config_text(back, i))) abort();
    s = tc_config_check_sections(c, NULL, 0);
  }
  tc_config_destroy(c);
  tc_config_destroy(back);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {tc_system_allocator(), NULL, {(const char *)data, size}};
  tc_status s = tc_arena_create(in.allocator, &in.arena);
  if (s == TC_OK) s = tc_arena_guard(in.arena, run, &in);
  tc_status_free(s);
  tc_arena_destroy(in.arena);
  return 0;
}
