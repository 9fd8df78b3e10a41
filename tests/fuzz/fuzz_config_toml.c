// Config files: any bytes are read or refused with an error, and what was read prints as a file that reads back equal.
#include "core/config/config.h"
#include "tests/fuzz/fuzz_text.h"

static void require(tc_status s) { tc_fuzz_ok(s, "config"); }

static tc_status body(tc_arena *arena, tc_sv text) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_config *c, *back;
  require(tc_config_create(a, &c));
  require(tc_config_create(a, &back));
  tc_status s = tc_config_read_text(c, TC_SV("fuzz.toml"), text);
  if (s == TC_OK) {
    tc_sb first = tc_sb_make(arena), keys[2] = {tc_sb_make(arena), tc_sb_make(arena)};
    require(tc_config_print(c, &first));
    require(tc_config_read_text(back, TC_SV("printed"), tc_sb_view(&first)));
    require(tc_config_code_key(c, &keys[0]));
    require(tc_config_code_key(back, &keys[1]));
    tc_fuzz_same(tc_sb_view(&keys[0]), tc_sb_view(&keys[1]));
    for (int32_t i = 0; i < TC_OPT_COUNT; i++) tc_fuzz_same(tc_config_text(c, i), tc_config_text(back, i));
    s = tc_config_check_sections(c, NULL, 0);
  }
  tc_config_destroy(c);
  tc_config_destroy(back);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
