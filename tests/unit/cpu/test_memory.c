// Loads and stores of every shape: strides, widths, index types, masks, memory spaces; compiled against interpreted.
// The memory is just as long as the lanes that take part reach, so an access by another lane, or beyond the last one,
// faults or spoils marked memory.
#include "rig.h"

#define COUNT(a) ((int32_t)(sizeof(a) / sizeof *(a)))
enum { BLOCKS = 3 };
enum { INDEX_CONST, INDEX_RUNTIME, INDEX_LOADED };
// MASK_PART: of some blocks, some lanes that are known when the kernel is compiled.
enum { MASK_NONE, MASK_TAIL, MASK_RANDOM, MASK_ALL, MASK_UNIFORM, MASK_PART, MASKS };

typedef struct shape {
  tc_dtype dtype;
  int32_t lanes, width, index, mask, store, shared, stream;
  int32_t from, to;       // MASK_PART: its lanes
  const char *index_type; // "i32", "i64", "u32"
  int64_t stride, step;
} shape;

static uint64_t below(uint64_t *seed, uint64_t n) { return tc_test_random(seed) % n; }

static shape draw(uint64_t *seed) {
  static const tc_dtype types[] = {TC_BOOL, TC_U8, TC_I16, TC_F16, TC_BF16, TC_F32, TC_F32, TC_I32, TC_F64, TC_I64};
  static const int32_t lanes[] = {4, 8, 16, 32, 64, 16, 16, 1, 6, 24};
  static const int32_t widths[] = {1, 1, 1, 2, 2, 3, 4, 8, 16};
  static const int64_t strides[] = {0, 1, 1, 1, -1, 2, 3, -2, 4, 5, -7, 9, 17};
  static const char *const index_types[] = {"i32", "i32", "i64", "u32"};
  shape s = {.dtype = types[below(seed, COUNT(types))],
             .lanes = lanes[below(seed, COUNT(lanes))],
             .width = widths[below(seed, COUNT(widths))],
             .index = (int32_t)below(seed, 3),
             .mask = (int32_t)below(seed, MASKS),
             .store = (int32_t)below(seed, 2),
             .shared = below(seed, 4) == 0,
             .stream = below(seed, 3) == 0,
             .index_type = index_types[below(seed, COUNT(index_types))],
             .stride = strides[below(seed, COUNT(strides))]};
  s.from = (int32_t)below(seed, (uint64_t)s.lanes),
  s.to = s.from + 1 + (int32_t)below(seed, (uint64_t)(s.lanes - s.from));
  if (below(seed, 3) == 0) s.stride = s.width;
  // Lanes of one access must not write one element: overlaps have no defined order.
  if (s.store && (s.stride < 0 ? -s.stride : s.stride) < s.width) s.stride = s.stride < 0 ? -s.width : s.width;
  if (s.index == INDEX_LOADED && s.store) s.stride = s.width + (int64_t)below(seed, 3);
  s.step = (int64_t)below(seed, 3) * s.width * s.lanes;
  if (s.shared) s.step = 0;
  return s;
}

static void write_kernel(tc_sb *sb, const shape *s, int64_t count) {
  const char *t = tc_dtype_name(s->dtype), *m = s->shared ? "%s" : "%x";
  tc_sb_printf(sb,
               "kernel @access (%%x : global %s%s, %%v : global %s, %%o : global %s, %%ix : global i32, %%mk : global "
               "bool, %%base : i32, %%rs : i32, %%nv : i32) blocks 1 lanes %d {\n",
               t, s->store && s->stream && !s->shared ? " stream" : "", t, t, (int)s->lanes);
  if (s->shared) tc_sb_printf(sb, "  shared %%s : %s[%lld]\n", t, (long long)count);
  tc_sb_printf(sb, "  %%b = block\n");
  if (s->shared)
    tc_sb_printf(sb,
                 "  lanes {\n    %%fl = lane\n    for %%q = 0 to %lld step %d {\n      %%fe = add %%q, %%fl\n      "
                 "%%fm = lt %%fe, %lld\n      %%fv = load %%x[%%fe] if %%fm else %s\n      store %%s[%%fe], %%fv if "
                 "%%fm\n    }\n  }\n  barrier\n",
                 (long long)count, (int)s->lanes, (long long)count,
                 s->dtype == TC_BOOL           ? "false"
                 : tc_dtype_is_float(s->dtype) ? "0.0"
                                               : "0");
  tc_sb_printf(sb, "  lanes {\n    %%l = lane\n    %%j = fma %%b, %d, %%l\n    %%bs = fma %%b, %lld, %%base\n",
               (int)s->lanes, (long long)s->step);
  if (s->index == INDEX_CONST) tc_sb_printf(sb, "    %%off = mul %%l, %lld\n", (long long)s->stride);
  else if (s->index == INDEX_RUNTIME) tc_sb_printf(sb, "    %%off = mul %%l, %%rs\n");
  else tc_sb_printf(sb, "    %%off = load %%ix[%%j]\n");
  if (strcmp(s->index_type, "i64") == 0)
    tc_sb_printf(sb, "    %%bw = cast %%bs : i64\n    %%ow = cast %%off : i64\n    %%i = add %%bw, %%ow\n");
  else if (strcmp(s->index_type, "u32") == 0)
    tc_sb_printf(sb, "    %%is = add %%off, %%bs\n    %%i = cast %%is : u32\n");
  else tc_sb_printf(sb, "    %%i = add %%off, %%bs\n");
  const char *mask = s->mask == MASK_NONE ? "" : " if %m";
  if (s->mask == MASK_TAIL) tc_sb_printf(sb, "    %%m = lt %%l, %%nv\n");
  else if (s->mask == MASK_RANDOM || s->mask == MASK_ALL) tc_sb_printf(sb, "    %%m = load %%mk[%%j]\n");
  else if (s->mask == MASK_UNIFORM) tc_sb_printf(sb, "    %%m = lt %%b, %%nv\n");
  else if (s->mask == MASK_PART)
    tc_sb_printf(sb,
                 "    %%mu = lt %%b, %%nv\n    %%mf = ge %%l, %d\n    %%mt = lt %%l, %d\n    %%mp = and %%mf, %%mt\n"
                 "    %%m = and %%mu, %%mp\n",
                 (int)s->from, (int)s->to);
  int32_t w = s->width, n = w * s->lanes;
  tc_sb_printf(sb, "    %%vb = fma %%b, %d, %%l\n", (int)n);
  if (s->store) {
    for (int32_t i = 0; i < w; i++)
      tc_sb_printf(sb, "    %%vi%d = add %%vb, %d\n    %%v%d = load %%v[%%vi%d]\n", i, i * (int)s->lanes, i, i);
    tc_sb_printf(sb, w > 1 ? "    store.v%d %s[%%i]" : "    store%.0d %s[%%i]", w > 1 ? w : 0, m);
    for (int32_t i = 0; i < w; i++) tc_sb_printf(sb, ", %%v%d", i);
    tc_sb_printf(sb, "%s\n", mask);
  } else {
    tc_sb_printf(sb, "    %%el = load %%v[%%vb]\n    ");
    for (int32_t i = 0; i < w; i++) tc_sb_printf(sb, "%s%%r%d", i ? ", " : "", i);
    tc_sb_printf(sb, w > 1 ? " = load.v%d %s[%%i]%s" : " = load%.0d %s[%%i]%s", w > 1 ? w : 0, m, mask);
    for (int32_t i = 0; i < w && s->mask != MASK_NONE; i++) tc_sb_printf(sb, "%s %%el", i ? "," : " else");
    tc_sb_printf(sb, "\n");
    for (int32_t i = 0; i < w; i++)
      tc_sb_printf(sb, "    %%oi%d = add %%vb, %d\n    store %%o[%%oi%d], %%r%d\n", i, i * (int)s->lanes, i, i);
  }
  if (s->shared)
    tc_sb_printf(sb,
                 "  }\n  barrier\n  lanes {\n    %%gl = lane\n    for %%gq = 0 to %lld step %d {\n      %%ge = add "
                 "%%gq, %%gl\n      %%gm = lt %%ge, %lld\n      %%gv = load %%s[%%ge] if %%gm else %s\n      store "
                 "%%x[%%ge], %%gv if %%gm\n    }\n",
                 (long long)count, (int)s->lanes, (long long)count,
                 s->dtype == TC_BOOL           ? "false"
                 : tc_dtype_is_float(s->dtype) ? "0.0"
                                               : "0");
  tc_sb_printf(sb, "  }\n}\n");
}

static tc_status check(tc_arena *arena, rig *r, const shape *s, uint64_t *seed) {
  int32_t n = BLOCKS * s->lanes, w = s->width;
  rig_buffer b[8] = {[3] = rig_buffer_make(TC_I32, n, 4), [4] = rig_buffer_make(TC_BOOL, n, 1)};
  int32_t *ix = (int32_t *)(void *)b[3].data,
          nv =
              (int32_t)below(seed, (uint64_t)(s->mask == MASK_UNIFORM || s->mask == MASK_PART ? BLOCKS : s->lanes) + 1);
  int64_t lo = INT64_MAX, hi = INT64_MIN;
  for (int32_t i = 0; i < n; i++) {
    int32_t other = (int32_t)below(seed, (uint64_t)s->lanes);
    ix[i] = (int32_t)(s->stride * (s->store ? s->lanes - 1 - i % s->lanes : other));
    b[4].data[i] = s->mask == MASK_ALL || below(seed, 3) != 0;
  }
  for (int32_t pass = 0; pass < 2; pass++) // then offsets of lanes that do not take part go astray
    for (int32_t i = 0; i < n; i++) {
      int32_t lane = i % s->lanes, block = i / s->lanes;
      bool on = s->mask == MASK_TAIL      ? lane < nv
                : s->mask == MASK_UNIFORM ? block < nv
                : s->mask == MASK_PART    ? block < nv && lane >= s->from && lane < s->to
                                          : s->mask == MASK_NONE || b[4].data[i];
      int64_t at = block * s->step + (s->index == INDEX_LOADED ? ix[i] : lane * s->stride);
      if (on && at < lo) lo = at;
      if (on && at + w > hi) hi = at + w;
      if (!on && pass) ix[i] = (int32_t)(tc_test_random(seed) >> 40) - (1 << 23);
    }
  if (lo > hi) lo = 0, hi = 1;
  int64_t count = hi - lo;
  b[0] = rig_buffer_make(s->dtype, count, (size_t)tc_dtype_size(s->dtype));
  b[1] = rig_buffer_make(s->dtype, (int64_t)n * w, (size_t)tc_dtype_size(s->dtype));
  b[2] = rig_buffer_make(s->dtype, (int64_t)n * w, (size_t)tc_dtype_size(s->dtype));
  for (int32_t i = 0; i < 3; i++) rig_fill(&b[i], seed);
  b[5] = rig_scalar(TC_I32, -lo), b[6] = rig_scalar(TC_I32, s->stride), b[7] = rig_scalar(TC_I32, nv);
  tc_sb sb = tc_sb_make(arena);
  write_kernel(&sb, s, count);
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k), "in %s", sb.text);
  if (getenv("TC_TEST_VERBOSE")) print_message("%s", sb.text);
  rig_check(r, k, BLOCKS, b, 8);
  for (int32_t i = 0; i < 5; i++) rig_buffer_free(&b[i]);
  return TC_OK;
}

TC_TEST(accesses) {
  uint64_t seed = tc_test_seed();
  const char *rounds = getenv("TC_TEST_ROUNDS");
  int32_t n = rounds ? atoi(rounds) : 250;
  rig r[RIG_ISAS];
  bool have[RIG_ISAS];
  for (int32_t i = 0; i < RIG_ISAS; i++) have[i] = rig_open(&r[i], rig_isas[i]);
  for (int32_t i = 0; i < n; i++) {
    shape s = draw(&seed);
    int32_t isa = (int32_t)below(&seed, RIG_ISAS);
    if (getenv("TC_TEST_VERBOSE"))
      print_message("%d: %s lanes %d width %d index %d mask %d store %d shared %d stride %d %s on %s\n", i,
                    tc_dtype_name(s.dtype), s.lanes, s.width, s.index, s.mask, s.store, s.shared, (int)s.stride,
                    s.index_type, rig_isas[isa]);
    if (have[isa]) TC_TRY(check(arena, &r[isa], &s, &seed));
  }
  for (int32_t i = 0; i < RIG_ISAS; i++)
    if (have[i]) rig_close(&r[i]);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(accesses)};
  return TC_RUN(tests);
}
