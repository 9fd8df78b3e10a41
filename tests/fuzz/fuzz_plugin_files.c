// What the loader reads before it trusts anything: manifests and the symbol tables of shared objects. Any bytes are
// accepted or refused with an error. The bytes that start like an ELF file are taken as one.
#include "core/plugin/internal.h"
#include "tests/fuzz/fuzz_text.h"

static tc_status body(tc_arena *arena, tc_sv text) {
  // The input is a copy of the exact size, so that reads beyond it are seen; malloc aligned it enough.
  if (text.size >= 4 && memcmp(text.data, "\177ELF", 4) == 0)
    return tc_elf_check_bytes("fuzz.so", (tc_mapping){text.data, text.size});
  tc_plugin p = {0};
  TC_TRY(tc_manifest_parse(arena, TC_SV("/fuzz.tc-plugin.toml"), text, &p));
  tc_fuzz_must(p.name.size && p.file.size && p.capabilities && !memchr(p.file.data, '/', p.file.size));
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
