// tcrun conform, group kernel: what the code generator makes, run on the device and in the interpreter, bit for bit.
//
// Programs are texts of kernel IR in which $L is the number of lanes, $M four times that, $O another lane than the
// first if there is one, $T a type and $0 its zero. Every buffer has guards on both sides that no kernel may touch.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernel/ir.h"
#include "tcrun/conform.h"

enum { BLOCKS = 3, MOST_BUFFERS = 4, GUARD = 256, VECTORS = 4 };

typedef struct program {
  const char *text;
  bool odd; // the scalar %n cuts the last block short
  uint32_t flags;
} program;
// SMALL: integers of few bits, so that sums of them do not wrap in floats. ANY_ZERO: the sign of a zero is unspecified.
// FAST: divisions may be, so results are held to 2 ulp; in other programs they are exact everywhere.
enum { SMALL = 1, ANY_ZERO = 2, FAST = 4 };

static tc_sv fill_in(kit *k, const char *text, int32_t lanes, tc_dtype t) {
  tc_sb sb = tc_sb_make(k->arena);
  for (const char *c = text; *c; c++) {
    if (c[0] != '$') {
      tc_sb_putc(&sb, *c);
      continue;
    }
    c++;
    if (*c == 'L') tc_sb_printf(&sb, "%d", lanes);
    else if (*c == 'M') tc_sb_printf(&sb, "%d", VECTORS * lanes);
    else if (*c == 'O') tc_sb_printf(&sb, "%d", lanes > 1);
    else if (*c == 'T') tc_sb_putz(&sb, tc_dtype_name(t));
    else tc_sb_putz(&sb, t == TC_BOOL ? "false" : tc_dtype_is_float(t) ? "0.0" : "0");
  }
  return tc_sb_view(&sb);
}

static tc_status parse(kit *k, tc_sv text, bool fast, const tc_kernel **out) {
  tc_lexer lx;
  tc_kernel *raw, *plain;
  tc_lex_init(&lx, k->arena, TC_SV("kit.tc"), text);
  TC_TRY(tc_kernel_parse(k->arena, &lx, &raw), "in the kit's program\n" TC_SV_FMT, TC_SV_ARG(text));
  TC_TRY(tc_kernel_verify(raw));
  TC_TRY(tc_kernel_legalise(k->arena, raw, !k->props.simd_bytes, &plain));
  TC_TRY(tc_kernel_simplify(k->arena, plain, &plain));
  for (int32_t i = 0; i < plain->n_insts && !fast; i++) plain->insts[i].flags &= ~TC_KI_FAST;
  *out = plain;
  return TC_OK;
}

// A value; for floats of all sizes a special one now and then, and one after the other at every eighth place, so that
// each occurs whatever is drawn, beside an ordinary one in another buffer (whose places are shifted).
static tc_knum random_number(kit *k, tc_dtype t, bool small, int64_t place) {
  static const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 0.5, 65504, 1e-6};
  uint64_t r = kit_random(k);
  if (t == TC_BOOL) return tc_kir_int(t, (int64_t)(r & 1));
  if (!tc_dtype_is_float(t)) return tc_kir_int(t, small ? (int64_t)(r % 15) : (int64_t)r >> (r >> 58));
  if (!small && place % 8 == 0) return (tc_knum){.re = special[place / 8 % 10]};
  if (!small && r % 16 == 0) return (tc_knum){.re = special[r / 16 % 10]};
  return (tc_knum){.re = small ? (double)(int64_t)(r % 15) : ((double)(r >> 40) / (1 << 23) - 1) * 8};
}

// ---- Running both ways ----
typedef struct buffer {
  tc_dtype dtype;
  int64_t count;
  uint8_t *want, *got; // got: with guards
  tc_handle memory;
} buffer;
typedef struct launch {
  kit *k;
  const tc_kernel *kernel;
  buffer buffers[MOST_BUFFERS];
  int32_t n_buffers;
  tc_handle module, errors;
} launch;

typedef struct blob { // of malloc: growing it must not unwind through the plugin
  char *data;
  size_t size;
} blob;
static int32_t keep(void *self, const void *data, uint64_t size) {
  blob *b = self;
  char *more = realloc(b->data, b->size + size + 1);
  if (!more) return TC_STATUS_OUT_OF_MEMORY;
  if (size) memcpy(more + b->size, data, size);
  b->data = more;
  b->size += size;
  return TC_STATUS_OK;
}
static void free_blob(void *arg) { free(((blob *)arg)->data); }

// The object is freed with the case's arena.
static tc_status compile(kit *k, const tc_kernel *kernel, blob **out) {
  blob *b = TC_NEW(k->arena, blob);
  tc_arena_on_destroy(k->arena, free_blob, b);
  tc_sink sink = {b, keep};
  int32_t code = k->plugin->codegen->compile(&k->services.host, k->device, &kernel, 1, 1, &sink, NULL);
  if (code != TC_STATUS_OK) return kit_failed(k, "compile", code);
  KIT_CHECK(b->size > 0, "compile returns OK and wrote no object");
  *out = b;
  return TC_OK;
}

static tc_status make_buffer(launch *l, const tc_kmem_info *m, int64_t count, bool small) {
  kit *k = l->k;
  const tc_device_table *t = k->plugin->device;
  buffer *b = &l->buffers[l->n_buffers++];
  size_t each = (size_t)tc_dtype_size(m->dtype), bytes = each * (size_t)count;
  *b = (buffer){.dtype = m->dtype, .count = count};
  b->want = tc_arena_alloc(k->arena, bytes);
  b->got = tc_arena_alloc(k->arena, bytes + 2 * GUARD);
  memset(b->got, 0x5a, bytes + 2 * GUARD);
  for (int64_t i = 0; i < count; i++)
    tc_kir_write(m->dtype, b->want + (size_t)i * each, random_number(k, m->dtype, small, i + l->n_buffers));
  memcpy(b->got + GUARD, b->want, bytes);
  KIT_OK(k, t->alloc(k->device, bytes + 2 * GUARD, &b->memory));
  KIT_OK(k, t->copy_in(k->device, k->stream, b->memory, 0, b->got, bytes + 2 * GUARD));
  return TC_OK;
}

static tc_status compare(const launch *l, const buffer *b, uint32_t flags) {
  size_t each = (size_t)tc_dtype_size(b->dtype);
  for (size_t i = 0; i < GUARD; i++)
    KIT_CHECK(b->got[i] == 0x5a && b->got[GUARD + each * (size_t)b->count + i] == 0x5a,
              "the kernel writes outside of a buffer");
  for (int64_t i = 0; i < b->count; i++) {
    const uint8_t *want = b->want + (size_t)i * each, *got = b->got + GUARD + (size_t)i * each;
    tc_knum x = tc_kir_read(b->dtype, want), y = tc_kir_read(b->dtype, got);
    bool real = tc_dtype_is_float(b->dtype);
    if (memcmp(want, got, each) == 0 || (real && x.re != x.re && y.re != y.re)) continue;
    if (flags & ANY_ZERO && real && x.re == 0 && y.re == 0) continue;
    if (flags & FAST && real && fabs(x.re - y.re) <= 2 * ldexp(fabs(x.re), b->dtype == TC_F64 ? -52 : -23)) continue;
    tc_sb sb = tc_sb_make(l->k->arena);
    tc_kernel_print(&sb, l->kernel);
    return tc_error(TC_STATUS_MISMATCH, "element %lld of a buffer of %s is %.17g, the interpreter has %.17g, in\n%s",
                    (long long)i, tc_dtype_name(b->dtype), real ? y.re : (double)y.i, real ? x.re : (double)x.i,
                    sb.text);
  }
  return TC_OK;
}

static tc_status run_launch(launch *l, const program *p, int64_t count) {
  kit *k = l->k;
  const tc_device_table *t = k->plugin->device;
  tc_handle function = 0;
  blob *object;
  int32_t n = tc_k_param_count(l->kernel);
  tc_karg *in = TC_NEW_ARRAY(k->arena, tc_karg, n);
  tc_launch_arg *args = TC_NEW_ARRAY(k->arena, tc_launch_arg, n);
  for (int32_t i = 0; i < n; i++) {
    tc_kparam param;
    tc_kmem_info m;
    tc_k_param(l->kernel, i, &param);
    if (param.is_scalar) {
      in[i] = (tc_karg){.bits = count - p->odd};
      args[i] = (tc_launch_arg){.kind = TC_ARG_SCALAR, .bytes = 4, .value = (uint64_t)(count - p->odd)};
      continue;
    }
    tc_k_mem(l->kernel, param.index, &m);
    TC_TRY(make_buffer(l, &m, count, p->flags & SMALL));
    const buffer *b = &l->buffers[l->n_buffers - 1];
    in[i] = (tc_karg){.data = b->want, .count = count};
    args[i] = (tc_launch_arg){.kind = TC_ARG_MEMORY, .value = b->memory, .offset = GUARD};
    if (k->props.host_memory) args[i].value += GUARD, args[i].offset = 0; // as the program does
  }
  int64_t site;
  TC_TRY(tc_kernel_interpret(tc_system_allocator(), l->kernel, BLOCKS, in, n, &site));
  TC_TRY(compile(k, l->kernel, &object));
  KIT_OK(k, t->module_load(k->device, object->data, object->size, &l->module));
  KIT_OK(k, t->function(k->device, l->module, tc_k_name(l->kernel), &function));
  tc_error_block errors = {.site = -1};
  KIT_OK(k, t->alloc(k->device, sizeof errors, &l->errors));
  KIT_OK(k, t->copy_in(k->device, k->stream, l->errors, 0, &errors, sizeof errors));
  tc_launch q = {.struct_size = sizeof q, .function = function, .blocks = 0, .grain = 1, .args = args, .n_args = n};
  q.errors = l->errors;
  KIT_OK(k, t->launch(k->device, k->stream, &q)); // nothing to do
  q.blocks = BLOCKS;
  KIT_OK(k, t->launch(k->device, k->stream, &q));
  KIT_OK(k, t->synchronize(k->device, k->stream));
  KIT_OK(k, t->copy_out(k->device, k->stream, &errors, l->errors, 0, sizeof errors));
  KIT_CHECK(errors.site == site, "the error block says site %lld, the interpreter %lld", (long long)errors.site,
            (long long)site);
  for (int32_t i = 0; i < l->n_buffers; i++) {
    buffer *b = &l->buffers[i];
    size_t bytes = (size_t)tc_dtype_size(b->dtype) * (size_t)b->count + 2 * GUARD;
    KIT_OK(k, t->copy_out(k->device, k->stream, b->got, b->memory, 0, bytes));
    TC_TRY(compare(l, b, p->flags));
  }
  return TC_OK;
}

static int32_t lanes_of(const kit *k) {
  int32_t lanes = k->props.simd_bytes ? 16 : 64;
  return k->props.max_lanes && lanes > k->props.max_lanes ? k->props.max_lanes : lanes;
}

static tc_status run_program(kit *k, const program *p, tc_dtype t) {
  launch l = {.k = k};
  int32_t lanes = lanes_of(k);
  TC_TRY(parse(k, fill_in(k, p->text, lanes, t), p->flags & FAST, &l.kernel));
  tc_status s = run_launch(&l, p, (int64_t)BLOCKS * lanes * VECTORS);
  const tc_device_table *d = k->plugin->device;
  if (l.module) d->module_unload(k->device, l.module);
  if (l.errors) d->free(k->device, l.errors);
  for (int32_t i = 0; i < l.n_buffers; i++) {
    if (l.buffers[i].memory) d->free(k->device, l.buffers[i].memory);
  }
  return tc_status_note(s, "with elements of type %s", tc_dtype_name(t));
}

static tc_status with_codegen(kit *k, tc_status (*run)(kit *k)) {
  if (k->about.capabilities & TC_CAP_CODEGEN) return kit_with_device(k, run);
  kit_unsupported(k, "the plugin generates no code");
  return TC_OK;
}
#define CASE(name) KIT_CASE(with_codegen, name)

static bool has(uint64_t types, tc_dtype t) { return types >> t & 1; }
// ---- Programs ----
#define INDEX "  %b = block\n  %base = mul %b, $L\n"
#define AT "    %l = lane\n    %i = add %base, %l\n"
#define AGAIN "    %l2 = lane\n    %i2 = add %base, %l2\n"

static tc_status each_type(kit *k, const program *p, const tc_dtype *types, int32_t n, uint64_t able) {
  for (int32_t i = 0; i < n; i++)
    if (has(able, types[i])) TC_TRY(run_program(k, p, types[i]));
  return TC_OK;
}
static const tc_dtype integers[] = {TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_U16, TC_U32, TC_U64};
static const tc_dtype reals[] = {TC_F32, TC_F64};
static const tc_dtype all[] = {TC_BOOL, TC_U8,  TC_I8,  TC_I16,  TC_I32, TC_I64, TC_U16,
                               TC_U32,  TC_U64, TC_F16, TC_BF16, TC_F32, TC_F64};
enum { N_ALL = sizeof all / sizeof *all };
static uint64_t able(const kit *k) { return k->props.arithmetic ? k->props.arithmetic : k->props.dtypes; }

#define ARITHMETIC(body)                                                                                          \
  "kernel @arithmetic (%x : global $T readonly, %z : global $T readonly, %y : global $T, %n : i32)\n"             \
  "    blocks 1 lanes $L {\n" INDEX "  lanes {\n" AT "    %ok = lt %i, %n\n    %a = load %x[%i] if %ok else $0\n" \
  "    %c = load %z[%i] if %ok else $0\n" body "    store %y[%i], %r if %ok\n  }\n}\n"

CASE(integer_arithmetic) {
  static const program p = {
      ARITHMETIC("    %s = add %a, %c\n    %d = sub %a, %c\n    %m = mul %s, %d\n    %f = fma %a, "
                 "%c, %m\n    %g = and %f, %a\n    %h = xor %g, %c\n    %j = or %h, 1\n    %k = "
                 "shl %j, 3\n    %o = shr %m, 2\n    %p = div %k, 7\n    %q = rem %o, 5\n    %t = "
                 "min %p, %q\n    %u = max %t, %a\n    %v = abs %u\n    %w = neg %v\n    %e = "
                 "not %w\n    %lt = lt %a, %c\n    %r = select %lt, %e, %h\n"),
      true, 0};
  return each_type(k, &p, integers, sizeof integers / sizeof *integers, able(k));
}

CASE(real_arithmetic) {
  static const program p = {
      ARITHMETIC("    %s = add %a, %c\n    %m = mul %s, %a\n    %f = fma %a, %c, %m\n    %d = "
                 "div %f, %c\n    %g = abs %d\n    %h = sqrt %g\n    %j = floor %a\n    %q = "
                 "ceil %c\n    %o = trunc %f\n    %p = rint %s\n    %t = min %h, %j\n    %u = max "
                 "%t, %q\n    %v = fmin %u, %o\n    %w = fmax %v, %p\n    %e = copysign %w, %a\n "
                 "   %x1 = neg %e\n    %ge = ge %a, %c\n    %r = select %ge, %x1, %d\n"),
      true, 0};
  // Alone, since what follows may lose a NaN again.
  static const program alone[] = {{ARITHMETIC("    %r = min %a, %c\n"), true, ANY_ZERO},
                                  {ARITHMETIC("    %r = max %a, %c\n"), true, ANY_ZERO},
                                  {ARITHMETIC("    %r = fmin %a, %c\n"), true, ANY_ZERO},
                                  {ARITHMETIC("    %r = fmax %a, %c\n"), true, ANY_ZERO},
                                  {ARITHMETIC("    %r = div %a, %c fast\n"), true, SMALL | FAST}};
  for (int32_t i = 0; i < 5; i++) TC_TRY(each_type(k, &alone[i], reals, 2, able(k)));
  return each_type(k, &p, reals, 2, able(k));
}

// What the program makes of functions is arithmetic; nothing in it may be contracted or reassociated.
CASE(functions) {
  static const program p[] = {
      {ARITHMETIC("    %e = exp %a\n    %g = tanh %c\n    %s = add %e, %g\n    %h = erf %s\n    %r = sigmoid %h\n"),
       true, 0},
      {ARITHMETIC("    %q = abs %a\n    %e = log1p %q\n    %g = sin %c\n    %s = mul %e, %g\n    %r = cos %s\n"), true,
       0}};
  for (int32_t i = 0; i < 2; i++) TC_TRY(each_type(k, &p[i], reals, 2, able(k)));
  return TC_OK;
}

CASE(loads_and_stores) {
  static const program copies = {"kernel @copies (%x : global $T readonly, %y : global $T, %n : i32)\n"
                                 "    blocks 1 lanes $L {\n" INDEX "  lanes {\n" AT
                                 "    %ok = lt %i, %n\n    %v = load %x[%i] if %ok else $0\n    %j = sub %n, %i\n    "
                                 "%pos = gt %j, 3\n    store %y[%i], %v if %pos\n  }\n}\n",
                                 true, 0};
  static const program vectors = {
      "kernel @vectors (%x : global $T readonly align 16, %y : global $T align 16, %n : i32 in [0, inf] div 1)\n"
      "    blocks 1 lanes $L {\n  %b = block\n  %base = mul %b, $M\n  lanes {\n    %l = lane\n    %m = mul %l, 4\n    "
      "%i "
      "= add %base, %m\n    %e = add %i, 3\n    %ok = lt %e, %n\n    %v0, %v1, %v2, %v3 = load.v4 %x[%i] if %ok else "
      "$0\n    store.v4 %y[%i], %v3, %v2, %v1, %v0 if %ok\n  }\n}\n",
      true, 0};
  TC_TRY(each_type(k, &copies, all, N_ALL, k->props.dtypes));
  return each_type(k, &vectors, all, N_ALL, k->props.dtypes);
}

CASE(conversions) {
  static const program p = {"kernel @conversions (%x : global $T readonly, %f : global f32, %h : global i32)\n"
                            "    blocks 1 lanes $L {\n" INDEX "  lanes {\n" AT
                            "    %v = load %x[%i]\n    %w = cast %v : f32\n    store %f[%i], %w\n    %t = cast %v : "
                            "bool\n    %u = cast %t : i32\n    store %h[%i], %u\n  }\n}\n",
                            false, 0};
  static const program back = {"kernel @back (%x : global f32 readonly, %y : global $T)\n"
                               "    blocks 1 lanes $L {\n" INDEX "  lanes {\n" AT
                               "    %v = load %x[%i]\n    %w = cast %v : $T\n    store %y[%i], %w\n  }\n}\n",
                               false, SMALL};
  TC_TRY(each_type(k, &p, all, N_ALL, k->props.dtypes));
  return each_type(k, &back, all, N_ALL, k->props.dtypes);
}

CASE(shared_memory) {
  static const program p = {
      "kernel @reverse (%x : global $T readonly, %y : global $T)\n    blocks 1 lanes $L {\n  shared "
      "%s : $T[$L]\n" INDEX "  lanes {\n" AT
      "    %v = load %x[%i]\n    store %s[%l], %v\n  }\n  barrier\n  lanes {\n    %l2 = lane\n    "
      "%top = const $L : i32\n    %m = sub %top, %l2\n    %j = sub %m, 1\n    %v2 = load %s[%j]\n    "
      "%i2 = add %base, %l2\n    store %y[%i2], %v2\n  }\n}\n",
      false, 0};
  if (k->props.shared_bytes && k->props.shared_bytes < 8 * lanes_of(k)) {
    kit_unsupported(k, "the device has %lld bytes of shared memory", (long long)k->props.shared_bytes);
    return TC_OK;
  }
  return each_type(k, &p, all, N_ALL, k->props.dtypes);
}

CASE(reductions) {
  static const program p = {"kernel @reduce (%x : global $T readonly, %y : global $T)\n    blocks 1 lanes $L {\n" INDEX
                            "  %q = lanes {\n" AT
                            "    %v = load %x[%i]\n    yield %v\n  }\n  %s = reduce.add %q\n  %m = "
                            "reduce.max %q\n  %n = reduce.min %q\n  %f = broadcast %q, $O\n  lanes {\n" AGAIN
                            "    %d = add %s, %m\n    %e = mul %d, %f\n    %g = sub %e, %n\n    store %y[%i2], %g\n  "
                            "}\n}\n",
                            false, SMALL};
  static const tc_dtype types[] = {TC_I32, TC_I64, TC_F32, TC_F64};
  return each_type(k, &p, types, 4, able(k));
}

CASE(control) {
  static const program p = {
      "kernel @control (%x : global $T readonly, %y : global $T, %n : i32)\n    blocks 1 lanes $L {\n  table %w : i32 "
      "= "
      "[3, 1, 2]\n  lane_array %r : $T[4]\n" INDEX "  %even = and %b, 1\n  %is = eq %even, 0\n  %k = if %is {\n    %t "
      "= const 2 : i32\n    yield %t\n  } else {\n    "
      "%t2 = const 3 : i32\n    yield %t2\n  }\n  lanes {\n" AT
      "    %v = load %x[%i]\n    for %j = 0 to 4 unroll {\n      store %r[%j], %v\n    }\n    %a, %c = for %j2 = 0 to "
      "%k "
      "step 2 (%p = %v, %q = %v) {\n      %e = load %r[1]\n      %g = add %p, %e\n      yield %q, %g\n    }\n    %d = "
      "sub %a, %c\n    %u = load %w[2]\n    %z = cast %u : $T\n    %o = add %d, %z\n    store %y[%i], %o\n  }\n}\n",
      false, SMALL};
  static const tc_dtype types[] = {TC_I32, TC_I64, TC_F32, TC_F64};
  return each_type(k, &p, types, 4, able(k));
}

CASE(atomics) {
  static const program p = {
      "kernel @atomics (%y : global $T)\n    blocks 1 lanes $L {\n  lanes {\n    %l = lane\n    %m = "
      "rem %l, 3\n    %v = cast %m : $T\n    atomic_add %y[%m], %v\n  }\n}\n",
      false, SMALL};
  static const tc_dtype types[] = {TC_I32, TC_U32, TC_I64, TC_U64, TC_F32, TC_F64};
  if (!k->props.atomics) {
    kit_unsupported(k, "the device claims no atomics");
    return TC_OK;
  }
  return each_type(k, &p, types, 6, k->props.atomics);
}

#define WORD(name, low, high)                                                                                         \
  "    %" name "lb = bitcast " low " : u16\n    %" name "l = cast %" name "lb : i32\n    %" name "hb = bitcast " high \
  " : u16\n    %" name "h = cast %" name "hb : i32\n    %" name "s = shl %" name "h, 16\n    %" name "w = or %" name  \
  "l, %" name "s\n"
#define FOUR(buffer, first, second)                                             \
  "    %" first "0, %" first "1, %" second "0, %" second "1 = load.v4 %" buffer \
  "[%i]\n" WORD(first, "%" first "0", "%" first "1") WORD(second, "%" second "0", "%" second "1")

// Small integers: all sums are exact. Twice, so that what the first product makes is added to.
CASE(tiles) {
  static const program p[] = {
      {"kernel @tiles (%x : global bf16 readonly, %z : global bf16 readonly, %w : global bf16 readonly, %y : global "
       "f32)\n"
       "    blocks 1 lanes $L {\n  %b = block\n  %base = mul %b, $M\n  lanes {\n    %l = lane\n    %m = mul %l, 4\n"
       "    %i = add %base, %m\n" FOUR("x", "p", "q") FOUR("z", "r", "s")
           FOUR("w", "t", "u") "    %c0, %c1, %c2, %c3 = load.v4 %y[%i]\n"
                               "    %d0, %d1, %d2, %d3 = mma.bf16 %pw, %qw, %rw, %sw, %tw, %uw, %c0, %c1, %c2, %c3\n"
                               "    %e0, %e1, %e2, %e3 = mma.bf16 %sw, %pw, %qw, %rw, %uw, %tw, %d0, %d1, %d2, %d3\n"
                               "    store.v4 %y[%i], %e0, %e1, %e2, %e3\n  }\n}\n",
       false, SMALL},
      {"kernel @tiles (%x : global f16 readonly, %z : global f16 readonly, %w : global f16 readonly, %y : global f32)\n"
       "    blocks 1 lanes $L {\n  %b = block\n  %base = mul %b, $M\n  lanes {\n    %l = lane\n    %m = mul %l, 4\n"
       "    %i = add %base, %m\n" FOUR("x", "p", "q") FOUR("z", "r", "s")
           FOUR("w", "t", "u") "    %c0, %c1, %c2, %c3 = load.v4 %y[%i]\n"
                               "    %d0, %d1, %d2, %d3 = mma.f16 %pw, %qw, %rw, %sw, %tw, %uw, 0.0, %c1, %c2, %c3\n"
                               "    store.v4 %y[%i], %d0, %d1, %d2, %d3\n  }\n}\n",
       false, SMALL}};
  if (!k->props.tiles) {
    kit_unsupported(k, "the device claims no products of tiles");
    return TC_OK;
  }
  KIT_CHECK(lanes_of(k) % TC_MMA_LANES == 0, "the device claims products of tiles, but blocks have %d lanes at most",
            lanes_of(k));
  if (has(k->props.tiles, TC_BF16)) TC_TRY(run_program(k, &p[0], TC_BF16));
  return has(k->props.tiles, TC_F16) ? run_program(k, &p[1], TC_F16) : TC_OK;
}

CASE(checks) {
  static const program fails = {"kernel @fails (%y : global f32, %n : i32)\n    blocks 1 lanes $L {\n" INDEX
                                "  lanes {\n" AT "    %ok = ne %i, 5\n    check %ok, 77\n    store %y[%i], 1.0\n  "
                                "}\n}\n",
                                false, 0};
  static const program holds = {"kernel @holds (%y : global f32, %n : i32)\n    blocks 1 lanes $L {\n" INDEX
                                "  lanes {\n" AT "    %ok = lt %i, %n\n    check %ok, 78\n    store %y[%i], 1.0\n  "
                                "}\n}\n",
                                false, 0};
  TC_TRY(run_program(k, &fails, TC_F32));
  return run_program(k, &holds, TC_F32);
}

// ---- Objects ----
static const char *const simple =
    "kernel @simple (%y : global f32)\n    blocks 1 lanes 1 {\n  lanes {\n    store %y[0], 1.0\n  }\n}\n";

CASE(keys) {
  blob a = {0}, b = {0};
  tc_sink to_a = {&a, keep}, to_b = {&b, keep};
  int32_t code = k->plugin->codegen->key(&k->services.host, k->device, &to_a);
  if (code == TC_STATUS_OK) code = k->plugin->codegen->key(&k->services.host, k->device, &to_b);
  bool same = a.size && a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
  free(a.data), free(b.data);
  if (code != TC_STATUS_OK) return kit_failed(k, "key", code);
  KIT_CHECK(same, "key must say something, and the same each time");
  return TC_OK;
}

CASE(objects) {
  const tc_device_table *t = k->plugin->device;
  const tc_kernel *kernel;
  blob *object;
  tc_handle module = 0, function = 0;
  TC_TRY(parse(k, tc_sv_of(simple), false, &kernel));
  TC_TRY(compile(k, kernel, &object));
  KIT_OK(k, t->module_load(k->device, object->data, object->size, &module));
  k->services.n_diags = 0;
  tc_status s = kit_must_fail(k, "looking up a kernel that the module does not have",
                              t->function(k->device, module, TC_SV("another"), &function));
  t->module_unload(k->device, module);
  TC_TRY(s);
  module = 0;
  k->services.n_diags = 0;
  TC_TRY(kit_must_fail(k, "loading nothing", t->module_load(k->device, object->data, 0, &module)));
  // A cache's file may be cut short or come from elsewhere.
  for (size_t cut = 1; cut < 64 && cut < object->size; cut += 7) {
    k->services.n_diags = 0;
    TC_TRY(kit_must_fail(k, "loading a part of an object", t->module_load(k->device, object->data, cut, &module)));
  }
  uint8_t *noise = tc_arena_alloc(k->arena, object->size);
  for (size_t i = 0; i < object->size; i++) noise[i] = (uint8_t)kit_random(k);
  k->services.n_diags = 0;
  return kit_must_fail(k, "loading noise", t->module_load(k->device, noise, object->size, &module));
}

// A host of a later version has opcodes of which the plugin's headers do not know.
CASE(later_opcodes) {
  static const char *const text =
      "kernel @later (%x : global i32 readonly, %y : global i32)\n    blocks 1 lanes 1 {\n  lanes {\n"
      "    %a = load %x[0]\n    %b = add %a, 3\n    store %y[0], %b\n  }\n}\n";
  const tc_kernel *kernel;
  TC_TRY(parse(k, tc_sv_of(text), false, &kernel));
  tc_kernel later = *kernel;
  const tc_kernel *one = &later;
  later.insts = tc_arena_copy(k->arena, kernel->insts, sizeof *later.insts * (size_t)later.n_insts);
  for (int32_t op = TC_K_COUNT; op < TC_K_COUNT + 1000; op += 333) {
    for (int32_t i = 0; i < later.n_insts; i++)
      if (kernel->insts[i].op == TC_K_ADD) later.insts[i].op = op;
    blob *b = TC_NEW(k->arena, blob);
    tc_arena_on_destroy(k->arena, free_blob, b);
    tc_sink sink = {b, keep};
    k->services.n_diags = 0;
    TC_TRY(kit_must_fail(k, "compiling an opcode that is not known",
                         k->plugin->codegen->compile(&k->services.host, k->device, &one, 1, 1, &sink, NULL)));
  }
  return TC_OK;
}

static const kit_case cases[] = {
    {"kernel", "keys", "the generator has a key that stays the same", keys},
    {"kernel", "objects", "what is no object, or has no such kernel, is an error with words", objects},
    {"kernel", "loads_and_stores", "every type is loaded and stored, alone and by fours, under masks",
     loads_and_stores},
    {"kernel", "conversions", "types are converted by value, rounding to nearest even", conversions},
    {"kernel", "integer_arithmetic", "integers wrap, division rounds towards zero", integer_arithmetic},
    {"kernel", "real_arithmetic", "floating arithmetic is IEEE 754, NaN and infinities too", real_arithmetic},
    {"kernel", "functions", "nothing is contracted or reassociated", functions},
    {"kernel", "control", "loops, branches, tables and registers of lanes", control},
    {"kernel", "shared_memory", "barriers order shared memory", shared_memory},
    {"kernel", "reductions", "collectives see every lane once", reductions},
    {"kernel", "atomics", "atomic sums lose nothing", atomics},
    {"kernel", "tiles", "products of tiles have their elements where they belong", tiles},
    {"kernel", "later_opcodes", "an opcode of a later version is refused, with words", later_opcodes},
    {"kernel", "checks", "the first failing check leaves its site, and execution goes on", checks},
};
const kit_cases kit_kernel_cases = {cases, sizeof cases / sizeof *cases};
