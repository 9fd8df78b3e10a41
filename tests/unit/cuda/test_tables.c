// A large kernel's tables go into the object that is made of its text, which has but the first number of each, and an
// object without the place for one, or damaged, is refused.
#include <elf.h>

#include "tests/unit/cuda/fake_nvrtc.h"
#include "tests/unit/cuda/rig.h"
#include "tests/unit/kernel/kernel_test.h"

enum { NONE, SYMBOLS, NAMES, DATA, SECTIONS, TABLE_AT = 8, NUMBERS = 4, MANY = 4000 };

// The object of a text with one table of four floats, behind eight bytes of something else.
typedef struct elf {
  Elf64_Ehdr header;
  Elf64_Shdr sections[SECTIONS];
  Elf64_Sym symbols[3];
  char names[32];
  char data[TABLE_AT + NUMBERS * sizeof(float)];
} elf;

static elf whole(void) {
  elf o = {.header = {.e_shoff = offsetof(elf, sections), .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = SECTIONS},
           .names = "\0kernel\0m2_w"};
  memcpy(o.header.e_ident, ELFMAG, SELFMAG);
  o.header.e_ident[EI_CLASS] = ELFCLASS64, o.header.e_ident[EI_DATA] = ELFDATA2LSB;
  o.sections[SYMBOLS] = (Elf64_Shdr){
      .sh_type = SHT_SYMTAB, .sh_link = NAMES, .sh_offset = offsetof(elf, symbols), .sh_size = sizeof o.symbols};
  o.sections[NAMES] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(elf, names), .sh_size = sizeof o.names};
  o.sections[DATA] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = offsetof(elf, data), .sh_size = sizeof o.data};
  o.symbols[1] = (Elf64_Sym){.st_name = 1, .st_shndx = DATA, .st_size = TABLE_AT};
  o.symbols[2] = (Elf64_Sym){.st_name = 8, .st_shndx = DATA, .st_value = TABLE_AT, .st_size = NUMBERS * sizeof(float)};
  return o;
}

typedef struct bench {
  rig r;
  fake_nvrtc *nvrtc;
  const tc_kernel *kernel;
  tc_sb blob;
} bench;

static int32_t take_blob(void *self, const void *data, uint64_t size) {
  tc_sb_put(self, (tc_sv){data, size});
  return TC_STATUS_OK;
}

static int32_t compile_to(bench *b, tc_arena *arena, const elf *o, size_t size) {
  b->blob = tc_sb_make(arena);
  b->nvrtc->object = o, b->nvrtc->object_size = size;
  tc_sink sink = {&b->blob, take_blob};
  return b->r.codegen->compile(&b->r.host, b->r.d, &b->kernel, 1, 3, &sink, NULL);
}

static void expect_refused(bench *b, tc_arena *arena, const elf *o, size_t size) {
  b->r.diag[0] = 0;
  assert_int_equal(compile_to(b, arena, o, size), TC_STATUS_PLUGIN);
  if (!strstr(b->r.diag, "tables that its object has no place for")) fail_msg("%s", b->r.diag);
}

static void open_bench(bench *b, tc_arena *arena, void **fake) {
  fake_nvrtc_fn state;
  load(&b->r);
  b->r.arch = "sm_90", b->r.nvrtc = FAKE_NVRTC;
  assert_int_equal(b->r.t->open(&b->r.host, 0, &b->r.d), TC_STATUS_OK);
  *fake = dlopen(FAKE_NVRTC, RTLD_NOW | RTLD_LOCAL);
  if (!*fake) fail_msg("%s", dlerror());
  *(void **)&state = symbol(*fake, "fake_nvrtc_state");
  b->nvrtc = state();
  tc_sb text = tc_sb_make(arena);
  tc_sb_putz(&text, "kernel @k (%x : global f32 readonly noalias, %y : global f32 noalias) blocks 1 lanes 4 {\n"
                    "  table %w : f32 = [0.5, -2.0, 3.25, 1.0]\n"
                    "  lanes {\n    %l = lane\n    %v = load %x[%l]\n    %v0 = load %w[%l]\n");
  for (int32_t i = 0; i < MANY; i++) tc_sb_printf(&text, "    %%v%d = add %%v%d, %%v\n", (int)i + 1, (int)i);
  tc_sb_printf(&text, "    store %%y[%%l], %%v%d\n  }\n}\n", (int)MANY);
  b->kernel = kernel_of(arena, text.text);
}

KERNEL_TEST(filled) {
  bench b = {0};
  void *fake;
  open_bench(&b, arena, &fake);
  elf o = whole(), got;
  assert_int_equal(compile_to(&b, arena, &o, sizeof o), TC_STATUS_OK);
  cuda_blob_entry e;
  memcpy(&e, b.blob.text + sizeof(cuda_blob_header), sizeof e);
  assert_int_equal(e.code_size, sizeof got);
  memcpy(&got, b.blob.text + e.code_at, sizeof got);
  const float want[NUMBERS] = {0.5f, -2, 3.25f, 1};
  assert_memory_equal(got.data + TABLE_AT, want, sizeof want);
  memset(got.data + TABLE_AT, 0, sizeof want); // and nothing else is changed
  assert_memory_equal(&got, &o, sizeof o);
  b.nvrtc->object = NULL;
  close_rig(&b.r);
  dlclose(fake);
}

KERNEL_TEST(refused) {
  bench b = {0};
  void *fake;
  open_bench(&b, arena, &fake);
  elf o = whole();
  o.names[9] = '3'; // another table's
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.symbols[2].st_size -= 4;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.symbols[2].st_value += 4;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.symbols[2].st_value = UINT64_MAX;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.symbols[2].st_shndx = SHN_ABS;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.symbols[2].st_name = sizeof o.names - 2;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.sections[DATA].sh_type = SHT_NOBITS;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.sections[DATA].sh_offset += 1;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.sections[SYMBOLS].sh_link = SECTIONS;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.header.e_shoff = sizeof o;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole(), o.header.e_shoff = UINT64_MAX - 8;
  expect_refused(&b, arena, &o, sizeof o);
  o = whole();
  for (size_t size = 64; size < sizeof o; size += 8) expect_refused(&b, arena, &o, size);
  b.nvrtc->object = NULL;
  expect_refused(&b, arena, NULL, 0); // without symbols
  close_rig(&b.r);
  dlclose(fake);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(filled), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
