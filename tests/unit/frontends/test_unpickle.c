// The restricted unpickler: torch.save files, hand-made pickles, and everything that it must refuse.
#include <math.h>

#include "core/frontends/pt2/unpickle.h"
#include "tests/unit/unit.h"

#define DATA TC_SOURCE_DIR "/tests/data/torch/"

static tc_status read_path(tc_arena *arena, const char *path, tc_pickle_file *out) {
  tc_storage *bytes;
  *out = (tc_pickle_file){0};
  TC_TRY(tc_storage_map(tc_arena_allocator(arena), path, &bytes));
  tc_status s = tc_pickle_read(tc_arena_allocator(arena), arena, bytes, 0, bytes->size, out);
  tc_storage_unref(bytes);
  return s;
}

static const tc_tensor *tensor_at(const tc_pickle *dict, const char *key) {
  const tc_pickle *v = tc_pickle_get(dict, tc_sv_of(key));
  if (!v || v->kind != TC_PICKLE_TENSOR) fail_msg("no tensor '%s'", key);
  return v->tensor;
}
static double real_at(const tc_tensor *t, int64_t i, int64_t j, int64_t k) {
  double re;
  tc_tensor_get(t, (int64_t[]){i, j, k}, &re, NULL);
  return re;
}

TC_TEST(state_dicts_keep_their_aliases) {
  tc_pickle_file f;
  TC_TRY(read_path(arena, DATA "state.pt", &f));
  assert_int_equal(f.root->kind, TC_PICKLE_DICT);
  assert_int_equal(f.root->count, 7);
  assert_sv(f.root->items[0]->s, "base");
  const tc_tensor *base = tensor_at(f.root, "base"), *transposed = tensor_at(f.root, "transposed"),
                  *slice = tensor_at(f.root, "slice");
  assert_true(base->rank == 3 && base->sizes[2] == 4 && base->dtype == TC_F32);
  assert_ptr_equal(base->storage, transposed->storage);
  assert_ptr_equal(base->storage, slice->storage);
  assert_int_equal(slice->offset, 13);
  for (int i = 0; i < 24; i++) {
    assert_true(real_at(base, i / 12, i / 4 % 3, i % 4) == i);
    assert_true(real_at(transposed, i % 4, i / 12, i / 4 % 3) == i);
  }
  assert_true(real_at(slice, 2, 1, 0) == 12 + 8 + 2);
  assert_int_equal(tc_tensor_get_int(tensor_at(f.root, "scalar"), NULL), 7);
  assert_int_equal(tc_tensor_numel(tensor_at(f.root, "empty")), 0);
  const tc_pickle *a = tc_pickle_get(f.root, TC_SV("tied.a")), *b = tc_pickle_get(f.root, TC_SV("tied.b"));
  assert_true(a->is_parameter && a->requires_grad && b->is_parameter);
  assert_ptr_equal(a->tensor->storage, b->tensor->storage);
  assert_true(real_at(a->tensor, 1, 0, 0) == -2);
  assert_false(tc_pickle_get(f.root, TC_SV("base"))->is_parameter);
  assert_null(tc_pickle_get(f.root, TC_SV("none")));
  assert_null(tc_pickle_get(a, TC_SV("none")));
  tc_pickle_free(&f);
  assert_null(f.root);
  return TC_OK;
}

TC_TEST(every_storage_class) {
  tc_pickle_file f;
  TC_TRY(read_path(arena, DATA "dtypes.pt", &f));
  static const tc_dtype dtypes[] = {TC_BOOL, TC_U8,   TC_I8,  TC_I16, TC_I32, TC_I64,
                                    TC_F16,  TC_BF16, TC_F32, TC_F64, TC_C64, TC_C128};
  assert_int_equal(f.root->count, 14);
  for (int i = 0; i < 12; i++) {
    const tc_tensor *t = f.root->items[2 * i + 1]->tensor;
    assert_int_equal(t->dtype, dtypes[i]);
    assert_true(strstr(tc_dtype_torch_name(t->dtype), tc_sv_z(arena, f.root->items[2 * i]->s)) != NULL);
    assert_true(real_at(t, 0, 0, 0) == 0 && real_at(t, 1, 0, 0) == 1 && real_at(t, 2, 0, 0) == (i ? 100 : 1));
  }
  double re, im;
  const tc_tensor *conj = tensor_at(f.root, "complex64.conj"), *neg = tensor_at(f.root, "float32.neg");
  assert_true(conj->conj && !conj->neg && neg->neg && !neg->conj);
  tc_tensor_get(conj, (int64_t[]){1}, &re, &im);
  assert_true(re == 3 && im == 4);
  assert_true(real_at(neg, 0, 0, 0) == -2 && real_at(neg, 1, 0, 0) == 4);
  tc_pickle_free(&f);
  return TC_OK;
}

TC_TEST(sample_inputs_are_trees) {
  tc_pickle_file f;
  TC_TRY(read_path(arena, DATA "sample.pt", &f));
  assert_true(f.root->kind == TC_PICKLE_TUPLE && f.root->count == 2);
  const tc_pickle *args = f.root->items[0], *kwargs = f.root->items[1], *ints = args->items[1];
  assert_true(args->kind == TC_PICKLE_TUPLE && args->items[0]->kind == TC_PICKLE_TENSOR &&
              ints->kind == TC_PICKLE_LIST);
  static const int64_t want[] = {1, -1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MIN, 255, 256, 65536};
  assert_int_equal(ints->count, 8);
  for (int i = 0; i < 8; i++) assert_true(ints->items[i]->kind == TC_PICKLE_INT && ints->items[i]->i == want[i]);
  assert_true(tc_pickle_get(kwargs, TC_SV("flag"))->kind == TC_PICKLE_BOOL && tc_pickle_get(kwargs, TC_SV("flag"))->b);
  assert_true(tc_pickle_get(kwargs, TC_SV("off"))->kind == TC_PICKLE_BOOL && !tc_pickle_get(kwargs, TC_SV("off"))->b);
  assert_int_equal(tc_pickle_get(kwargs, TC_SV("none"))->kind, TC_PICKLE_NONE);
  assert_true(tc_pickle_get(kwargs, TC_SV("alpha"))->f == 0.5);
  assert_sv(tc_pickle_get(kwargs, TC_SV("name"))->s, "h\xc3\xa9llo");
  const tc_pickle *nested = tc_pickle_get(kwargs, TC_SV("nested")), *t = tc_pickle_get(nested, TC_SV("t"));
  assert_int_equal(t->items[1]->items[1]->items[1]->i, 4);
  assert_true(nested->items[2]->kind == TC_PICKLE_INT && nested->items[2]->i == 7);
  assert_sv(nested->items[3]->s, "seven");
  const tc_pickle *many = tc_pickle_get(kwargs, TC_SV("many"));
  assert_int_equal(many->count, 300);
  assert_int_equal(many->items[299]->i, 299);
  tc_pickle_free(&f);

  TC_TRY(read_path(arena, DATA "module.pt", &f)); // an OrderedDict with state
  assert_int_equal(f.root->count, 2);
  assert_true(real_at(tensor_at(f.root, "weight"), 0, 1, 0) == 4 && real_at(tensor_at(f.root, "bias"), 0, 0, 0) == -1);
  tc_pickle_free(&f);
  return TC_OK;
}

TC_TEST(other_files_are_refused) {
  tc_pickle_file f;
  assert_error(read_path(arena, DATA "refused_size.pt", &f), TC_STATUS_UNIMPLEMENTED, "'torch.Size'");
  assert_error(read_path(arena, DATA "refused_module.pt", &f), TC_STATUS_UNIMPLEMENTED,
               "'torch.nn.modules.linear.Linear'");
  assert_error(read_path(arena, DATA "refused_v3.pt", &f), TC_STATUS_UNIMPLEMENTED,
               "'torch._utils._rebuild_tensor_v3'");
  assert_error(read_path(arena, DATA "refused_protocol4.pt", &f), TC_STATUS_UNIMPLEMENTED, "protocol 4");
  assert_error(read_path(arena, DATA "refused_legacy.pt", &f), TC_STATUS_DATA_LOSS, "not a zip archive");
  assert_error(read_path(arena, DATA "plain.npz", &f), TC_STATUS_NOT_FOUND, "data.pkl");
  return TC_OK;
}

TC_TEST_TORTURED(reading_survives_short_memory) {
  tc_pickle_file f;
  TC_TRY(read_path(arena, DATA "dtypes.pt", &f));
  tc_pickle_free(&f);
  TC_TRY(read_path(arena, DATA "sample.pt", &f));
  tc_pickle_free(&f);
  return TC_OK;
}

// ---- hand-made pickles

// A torch.save file with this pickle and one storage "0" of 64 bytes, `order` as its byte order record.
static tc_status read_pickle(tc_arena *arena, const void *pickle, size_t size, const char *order, tc_pickle_file *out) {
  tc_zip_item items[] = {
      {TC_SV("x/data.pkl"), size, 0}, {TC_SV("x/data/0"), 64, 0}, {TC_SV("x/byteorder"), strlen(order), 0}};
  const int32_t n = *order ? 3 : 2;
  size_t total;
  tc_storage *s;
  *out = (tc_pickle_file){0};
  TC_TRY(tc_zip_layout(items, n, &total));
  TC_TRY(tc_storage_create(tc_arena_allocator(arena), total + 5, &s));
  uint8_t *file = (uint8_t *)s->data + 5; // the archive inside an archive: nothing is aligned
  memcpy(file + items[0].offset, pickle, size);
  for (int i = 0; i < 64; i++) file[items[1].offset + (size_t)i] = (uint8_t)i;
  if (n == 3) memcpy(file + items[2].offset, order, strlen(order));
  tc_zip_finish(file, items, n);
  tc_status status = tc_pickle_read(tc_arena_allocator(arena), arena, s, 5, total, out);
  tc_storage_unref(s);
  return status;
}

#define U "ctorch._utils\n"
#define TENSOR_HEAD                                                        \
  U "_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0" \
    "0X\3\0\0\0cpu"
#define ORDERED "ccollections\nOrderedDict\n)R"

typedef struct bad_row {
  const char *bytes;
  size_t size;
  int32_t code;
  const char *message;
} bad_row;
#define ROW(text, code, message) {"\x80\2" text, sizeof "\x80\2" text - 1, code, message}
#define LOST TC_STATUS_DATA_LOSS
#define NOT TC_STATUS_UNIMPLEMENTED

TC_TEST(good_pickles) {
  tc_pickle_file f;
  static const char tensor[] = "\x80\2" TENSOR_HEAD "K\100tQK\3K\2K\2\x86K\2K\1\x86\x89" ORDERED "tR.";
  TC_TRY(read_pickle(arena, tensor, sizeof tensor - 1, "little", &f));
  const tc_tensor *t = f.root->tensor;
  assert_true(t->rank == 2 && t->dtype == TC_U8 && t->offset == 3 && real_at(t, 1, 1, 0) == 6 &&
              !f.root->requires_grad);
  tc_pickle_free(&f);
  TC_TRY(read_pickle(arena, tensor, sizeof tensor - 1, "", &f)); // before PyTorch 2.1
  tc_pickle_free(&f);
  assert_error(read_pickle(arena, tensor, sizeof tensor - 1, "big", &f), NOT, "big-endian");
  // Long integers of all lengths, floats, the empty containers, 32-bit memo numbers, items set one by one.
  static const char values[] =
      "\x80\2(\x8a\0\x8a\1\xff\x8a\2\0\x80\x8a\x8\0\0\0\0\0\0\0\x80\x8b\1\0\0\0\x7fG\x40\x09\x21\xfb\x54\x44\x2d\x18"
      "]r\0\0\0\0j\0\0\0\0})J\xff\xff\xff\xff}X\1\0\0\0kK\1s]K\5at.";
  TC_TRY(read_pickle(arena, values, sizeof values - 1, "little", &f));
  tc_pickle **v = f.root->items;
  assert_int_equal(f.root->count, 13);
  assert_true(v[0]->i == 0 && v[1]->i == -1 && v[2]->i == -32768 && v[3]->i == INT64_MIN && v[4]->i == 127);
  assert_true(v[5]->f == 3.141592653589793);
  assert_ptr_equal(v[6], v[7]);
  assert_true(v[8]->kind == TC_PICKLE_DICT && v[9]->kind == TC_PICKLE_TUPLE && v[10]->i == -1);
  assert_true(tc_pickle_get(v[11], TC_SV("k"))->i == 1 && v[12]->items[0]->i == 5);
  tc_pickle_free(&f);
  return TC_OK;
}

TC_TEST(hostile_pickles) {
  static const bad_row rows[] = {
      ROW("", LOST, "cut short"),
      ROW(".", LOST, "0 values"),
      ROW("NN.", LOST, "2 values"),
      ROW("(N.", LOST, "1 values"),
      ROW("N", LOST, "cut short"),
      ROW("X\xff\xff\xff\xffN.", LOST, "cut short"),
      ROW("cos\nsystem\n(X\2\0\0\0idtR.", NOT, "'os.system'"),
      ROW("c__builtin__\neval\n.", NOT, "'__builtin__.eval'"),
      ROW("ctorch\nFloatStorage", LOST, "has no end"),
      ROW("ctorch\nFloatStorage\n.", LOST, "class or storage"),
      ROW("(ctorch\nFloatStorage\nt.", LOST, "class or storage"),
      ROW("ctorch\nFloatStorage\n)R.", LOST, "is called"),
      ROW("N)R.", LOST, "no callable"),
      ROW(ORDERED "N\x85R.", LOST, "no callable"),
      ROW("ccollections\nOrderedDict\nN\x85R.", LOST, "has arguments"),
      ROW(U "_rebuild_parameter\nN\x89N\x87R.", LOST, "_rebuild_parameter"),
      ROW(U "_rebuild_tensor_v2\nN\x89N\x87R.", LOST, "_rebuild_tensor_v2"),
      ROW("h\0.", LOST, "memo index 0"),
      ROW("Nr\xff\xff\xff\x7f.", LOST, "skips"),
      ROW("Nq\1.", LOST, "skips"),
      ROW("q\0.", LOST, "stack is empty"),
      ROW("t.", LOST, "no mark"),
      ROW("e.", LOST, "no mark"),
      ROW("(e.", LOST, "stack is empty"),
      ROW("N(e.", LOST, "None where a list"),
      ROW("](u.", LOST, "list where a dict"),
      ROW("}(Nu.", LOST, "without value"),
      ROW("}(NNu.", LOST, "dict key is a None"),
      ROW("}]Ns.", LOST, "dict key is a list"),
      ROW("}(X\1\0\0\0aNX\1\0\0\0aNu.", LOST, "key 'a' twice"),
      ROW("}K\1NsK\1Ns.", LOST, "twice"),
      ROW("N\x86.", LOST, "stack is empty"),
      ROW("N(\x85.", LOST, "stack is empty"),
      ROW("(a.", LOST, "stack is empty"),
      ROW("Nb.", LOST, "stack is empty"),
      ROW("}Nb.", LOST, "state"),
      ROW("NNb.", LOST, "None where a dict"),
      ROW("\x8a\x9\0\0\0\0\0\0\0\0\1.", NOT, "64 bits"),
      ROW("\x8a\x9\0\0\0\0\0\0\0\0", LOST, "cut short"),
      ROW("\x8b\xff\xff\xff\xff.", LOST, "cut short"),
      ROW("I1\n.", NOT, "opcode 0x49"),
      ROW("\x95", NOT, "opcode 0x95"),
      ROW("\x80\4.", NOT, "protocol 4"),
      ROW("]q\0h\0a.", LOST, "contains itself"),
      ROW("}q\0X\1\0\0\0ah\0s.", LOST, "contains itself"),
      ROW("]q\0(h\0ta.", LOST, "contains itself"),
      ROW("NQ.", LOST, "no storage"),
      ROW("X\1\0\0\0"
          "0Q.",
          LOST, "no storage"),
      ROW("(X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"
          "9X\3\0\0\0cpuK\1tQ.",
          LOST, "no storage '9'"),
      ROW("(X\7\0\0\0storagectorch\nByteStorage\nX\4\0\0\0../0X\3\0\0\0cpuK\1tQ.", LOST, "invalid key"),
      ROW("(X\7\0\0\0storagectorch\nByteStorage\nX\0\0\0\0X\3\0\0\0cpuK\1tQ.", LOST, "invalid key"),
      ROW("(X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"
          "0X\3\0\0\0cpuK\101tQ.",
          LOST, "64 bytes, fewer than its 65"),
      ROW("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
          "0X\3\0\0\0cpuK\21tQ.",
          LOST, "fewer than its 17"),
      ROW("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
          "0X\3\0\0\0cpu\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7ftQ.",
          LOST, "fewer"),
      ROW("(X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"
          "0X\3\0\0\0cpuJ\xff\xff\xff\xfftQ.",
          LOST, "fewer"),
      ROW("(X\7\0\0\0storage" ORDERED "X\1\0\0\0"
          "0X\3\0\0\0cpuK\1tQ.",
          LOST, "no storage"),
      ROW("(X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"
          "0X\3\0\0\0cpuK\1tQ.",
          LOST, "class or storage"),
      ROW(TENSOR_HEAD "K\100tQK\77K\2\x85K\1\x85\x89" ORDERED "tR.", TC_STATUS_OUT_OF_RANGE, "reaches byte 65"),
      ROW(TENSOR_HEAD "K\100tQK\0\x8a\x8\0\0\0\0\0\0\0\x7f\x85K\1\x85\x89NtR.", TC_STATUS_OUT_OF_RANGE, "byte"),
      ROW(TENSOR_HEAD "K\100tQK\0\x8a\x8\0\0\0\0\0\0\0\x7f\x85\x8a\x8\0\0\0\0\0\0\0\x7f\x85\x89NtR.",
          TC_STATUS_OUT_OF_RANGE, "63 bits"),
      ROW(TENSOR_HEAD "K\100tQJ\xff\xff\xff\xffK\2\x85K\1\x85\x89NtR.", TC_STATUS_OUT_OF_RANGE, "negative"),
      ROW(TENSOR_HEAD "K\100tQK\0J\xff\xff\xff\xff\x85K\1\x85\x89NtR.", LOST, "no count"),
      ROW(TENSOR_HEAD "K\100tQK\0K\1\x85J\xff\xff\xff\xff\x85\x89NtR.", LOST, "no count"),
      ROW(TENSOR_HEAD "K\100tQK\0K\1K\1\x86K\1\x85\x89NtR.", LOST, "2 sizes and 1 strides"),
      ROW(TENSOR_HEAD "K\100tQK\0K\1K\1\x85\x89NtR.", LOST, "no tuple"),
      ROW(TENSOR_HEAD "K\100tQK\0K\1\x85K\1\x85\x89K\1tR.", LOST, "unexpected arguments"),
      ROW(TENSOR_HEAD "K\100tQK\0K\1\x85K\1\x85\x89N}X\1\0\0\0kNstR.", LOST, "metadata other"),
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_pickle_file f;
    tc_status s = read_pickle(arena, rows[i].bytes, rows[i].size, "little", &f);
    if (tc_status_code(s) != rows[i].code || !strstr(tc_status_text(s), rows[i].message))
      fail_msg("row %d (%s): %s", (int)i, rows[i].message, tc_status_text(s));
    tc_status_free(s);
    assert_true(f.root == NULL && f.tensor_count == 0);
  }
  return TC_OK;
}

TC_TEST(nesting_and_sharing_are_bounded) {
  tc_pickle_file f;
  for (int depth = 60; depth < 70; depth++) { // lists in lists
    tc_sb sb = tc_sb_make(arena);
    tc_sb_put(&sb, (tc_sv){"\x80\2", 2});
    for (int i = 0; i < depth; i++) tc_sb_putc(&sb, ']');
    for (int i = 1; i < depth; i++) tc_sb_putc(&sb, 'a');
    tc_sb_putc(&sb, '.');
    tc_status s = read_pickle(arena, sb.text, sb.size, "little", &f);
    assert_int_equal(tc_status_code(s), depth <= TC_PICKLE_MAX_DEPTH ? TC_STATUS_OK : TC_STATUS_DATA_LOSS);
    tc_status_free(s);
    tc_pickle_free(&f);
  }
  // Pairs of pairs of one shared value: 2^(n+1) - 1 nodes in 5n bytes.
  for (int n = 20; n < 30; n++) {
    tc_sb sb = tc_sb_make(arena);
    tc_sb_put(&sb, (tc_sv){"\x80\2N", 3});
    for (int i = 0; i < n; i++) {
      tc_sb_putc(&sb, 'q'), tc_sb_putc(&sb, (char)i);
      tc_sb_putc(&sb, 'h'), tc_sb_putc(&sb, (char)i);
      tc_sb_putc(&sb, '\x86');
    }
    tc_sb_putc(&sb, '.');
    tc_status s = read_pickle(arena, sb.text, sb.size, "little", &f);
    assert_int_equal(tc_status_code(s), n < 24 ? TC_STATUS_OK : TC_STATUS_DATA_LOSS);
    tc_status_free(s);
    tc_pickle_free(&f);
  }
  // A list 40 deep, used once at the top and once 40 further down: 80 in all.
  tc_sb sb = tc_sb_make(arena);
  tc_sb_put(&sb, (tc_sv){"\x80\2(", 3});
  for (int i = 0; i < 40; i++) tc_sb_putc(&sb, ']');
  for (int i = 1; i < 40; i++) tc_sb_putc(&sb, 'a');
  tc_sb_put(&sb, (tc_sv){"q\0", 2});
  for (int i = 0; i < 40; i++) tc_sb_putc(&sb, ']');
  tc_sb_put(&sb, (tc_sv){"h\0", 2});
  for (int i = 0; i < 40; i++) tc_sb_putc(&sb, 'a');
  tc_sb_put(&sb, (tc_sv){"t.", 2});
  assert_error(read_pickle(arena, sb.text, sb.size, "little", &f), LOST, "deeper");
  return TC_OK;
}

// Random programs from the opcodes that we know: anything but a crash.
TC_TEST(random_pickles_never_crash) {
  static const struct {
    const char *bytes;
    int size;
  } words[] = {{"N", 1},
               {"(", 1},
               {")", 1},
               {"]", 1},
               {"}", 1},
               {"t", 1},
               {"a", 1},
               {"e", 1},
               {"s", 1},
               {"u", 1},
               {"R", 1},
               {"Q", 1},
               {"b", 1},
               {"\x85", 1},
               {"\x86", 1},
               {"\x87", 1},
               {"\x88", 1},
               {"K\3", 2},
               {"q\0", 2},
               {"q\1", 2},
               {"h\0", 2},
               {"h\1", 2},
               {"X\1\0\0\0a", 6},
               {"X\1\0\0\0"
                "0",
                6},
               {TENSOR_HEAD "K\100tQ", sizeof TENSOR_HEAD - 1 + 4},
               {"K\1K\2\x85K\1\x85\x89NtR", 13},
               {ORDERED, sizeof ORDERED - 1},
               {U "_rebuild_parameter\n", sizeof U - 1 + 19},
               {"\x88N\x87R", 4}};
  uint64_t seed = tc_test_seed();
  int good = 0;
  for (int round = 0; round < 60000; round++) {
    char text[1024] = "\x80\2";
    size_t size = 2;
    const int n = (int)(tc_test_random(&seed) % 14);
    for (int i = 0; i < n; i++) {
      const size_t w = tc_test_random(&seed) % (sizeof words / sizeof *words);
      memcpy(text + size, words[w].bytes, (size_t)words[w].size);
      size += (size_t)words[w].size;
    }
    text[size++] = '.';
    tc_pickle_file f;
    tc_status s = read_pickle(arena, text, size, "little", &f);
    good += s == TC_OK;
    tc_status_free(s);
    tc_pickle_free(&f);
  }
  print_message("%d of 60000 were well-formed\n", good);
  return TC_OK;
}

TC_TEST(damaged_files_never_crash) {
  static const char *const paths[] = {DATA "state.pt", DATA "dtypes.pt", DATA "sample.pt", DATA "module.pt"};
  uint64_t seed = tc_test_seed();
  for (int k = 0; k < 4; k++) {
    tc_sv text;
    TC_TRY(tc_file_read(arena, paths[k], &text));
    for (int round = 0; round < 4000; round++) {
      tc_storage *s;
      tc_pickle_file f;
      const bool cut = round % 4 == 0;
      const size_t n = cut ? tc_test_random(&seed) % text.size : text.size;
      TC_TRY(tc_storage_create(tc_arena_allocator(arena), n, &s));
      memcpy(s->data, text.data, n);
      for (int i = 0; !cut && i < 2; i++)
        ((uint8_t *)s->data)[tc_test_random(&seed) % n] ^= (uint8_t)(1 << tc_test_random(&seed) % 8);
      tc_status got = tc_pickle_read(tc_arena_allocator(arena), arena, s, 0, n, &f);
      if (cut && !got) fail_msg("%s is read when cut to %d bytes", paths[k], (int)n);
      tc_status_free(got);
      tc_pickle_free(&f);
      assert_int_equal(s->refs, 1);
      tc_storage_unref(s);
    }
  }
  return TC_OK;
}

// ---- archives of PyTorch 2.8

static void check_member(tc_arena *arena, tc_storage *bytes, const tc_zip *z, const tc_zip_entry *e, int *tensors) {
  (void)z;
  tc_pickle_file f;
  assert_int_equal(e->method, 0);
  if (e->size == 0) return;
  assert_ok(tc_pickle_read(tc_arena_allocator(arena), arena, bytes, (size_t)e->offset, (size_t)e->size, &f));
  *tensors += f.tensor_count;
  for (int32_t i = 0; i < f.tensor_count; i++) { // all are views of the mapped archive
    const uint8_t *p = tc_tensor_data(f.tensors[i]), *first = bytes->data;
    if (tc_tensor_numel(f.tensors[i]) > 0) assert_true(p >= first && p < first + bytes->size);
    double re;
    const int64_t zero[TC_MAX_RANK] = {0};
    if (tc_tensor_numel(f.tensors[i]) > 0) tc_tensor_get(f.tensors[i], zero, &re, NULL), assert_true(isfinite(re));
  }
  tc_pickle_free(&f);
}

static tc_status read_corpus(tc_arena *arena) {
  const tc_sv dir = tc_path_join(arena, tc_sv_of(tc_env("TC_CORPUS")), TC_SV("models"));
  tc_sv *names;
  int32_t count, files = 0, tensors = 0;
  TC_TRY(tc_dir_list(arena, tc_sv_z(arena, dir), &names, &count));
  for (int32_t i = 0; i < count; i++) {
    if (!tc_sv_starts(names[i], "compat_2_8_") || !tc_sv_ends(names[i], ".pt2")) continue;
    tc_storage *bytes;
    tc_zip z;
    TC_TRY(tc_storage_map(tc_arena_allocator(arena), tc_sv_z(arena, tc_path_join(arena, dir, names[i])), &bytes));
    assert_ok(tc_zip_open(arena, bytes->data, bytes->size, &z));
    for (int32_t k = 0; k < z.count; k++)
      if (tc_sv_ends(z.entries[k].name, ".pt")) check_member(arena, bytes, &z, &z.entries[k], &tensors), files++;
    tc_storage_unref(bytes);
  }
  print_message("%d torch.save members, %d tensors\n", (int)files, (int)tensors);
  assert_true(files > 0 && tensors > 0);
  return TC_OK;
}

static void archives_of_torch_2_8(void **state) {
  (void)state;
  if (!tc_env("TC_CORPUS")) skip();
  tc_test_run(read_corpus);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(state_dicts_keep_their_aliases),
      cmocka_unit_test(every_storage_class),
      cmocka_unit_test(sample_inputs_are_trees),
      cmocka_unit_test(other_files_are_refused),
      cmocka_unit_test(reading_survives_short_memory),
      cmocka_unit_test(good_pickles),
      cmocka_unit_test(hostile_pickles),
      cmocka_unit_test(nesting_and_sharing_are_bounded),
      cmocka_unit_test(random_pickles_never_crash),
      cmocka_unit_test(damaged_files_never_crash),
      cmocka_unit_test(archives_of_torch_2_8),
  };
  return TC_RUN(tests);
}
