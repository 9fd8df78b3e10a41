// Plans as text: round trips, refusals of bad text, the verifier, the check of the arena.
#include "tests/unit/plan/plan_test.h"

static const char good[] =
    "plan @forward [s0 in [2, 64] hint 4, require 2 <= s0, require s0 <= 64] (\n"
    "    %q : f32[s0, 64] = user \"x\",\n"
    "    %w : f32[64]{1}+8 = parameter \"w.0\",\n"
    "    %n : int s0 = user \"n\",\n"
    "    const(3) = user \"k\") arena 512*s0 {\n"
    "  %x : f32[s0, 64]{64, 1} = input 0;\n"
    "  %w : f32[64]{1}+(8) = input 1;\n"
    "  %h : f32[s0, 64]{64, 1} = arena 0 size 256*s0;\n"
    "  %h.1 : f32[s0, 64]{64, 1} = arena 256*s0 size 256*s0;\n"
    "  %y : f32[s0, 64]{64, 1} = output size 256*s0;\n"
    "  launch @a_0 blocks s0 grain 16 : (%x, out %h, s0 : i32) bytes 512*s0 flops 64*s0 @ \"m.py:7 y = f(x)\"\n"
    "    site \"index out of range\" @ \"m.py:8\"\n"
    "    site \"another\"\n"
    "  launch @b_1 blocks 1 grain 1 : (%h, %w, out %h.1) bytes 512*s0 flops 0\n"
    "  call @mm_2 : (%h.1, %w as f32[8, 8]{8, 1}+(8), out %y) bytes 0 flops 128*s0\n"
    "  return user %y as f32[s0, 64]{64, 1}, buffer \"count\" %h as i32[64]{1}+(64), user s0 + 1, user 2.5, user true, "
    "user none\n"
    "}\n";

TC_TEST(round_trip) { return with(arena, good, prints_the_same); }

static tc_status verify(guarded *g) { return tc_plan_verify(g->plan); }
TC_TEST(good_plan_is_good) { return with(arena, good, verify); }

// Kernels by number, wherever they stand; one that two launches share; launches without a number take the name's first.
#define KERNEL(name, factor)                                                                         \
  "kernel @" name " (%x : global f32 readonly, %y : global f32 writeonly)\n    blocks 1 lanes 4 {\n" \
  "  lanes {\n    %0 = lane\n    %1 = load %x[%0]\n    %2 = mul %1, " factor "\n    store %y[%0], %2\n  }\n}\n"
static const char host[] = "plan @p (\n    %x : f32[4] = user \"x\") arena 32 {\n"
                           "  %x : f32[4]{1} = input 0;\n"
                           "  %h : f32[4]{1} = arena 0 size 16;\n"
                           "  %g : f32[4]{1} = arena 16 size 16;\n"
                           "  %y : f32[4]{1} = output size 16;\n"
                           "  launch @a_0 kernel 1 blocks 1 grain 1 : (%x, out %h) bytes 0 flops 0\n"
                           "  launch @a_1 kernel 0 blocks 1 grain 1 : (%h, out %g) bytes 0 flops 0\n"
                           "  launch @a_2 kernel 1 blocks 1 grain 1 : (%g, out %y) bytes 0 flops 0\n"
                           "  return user %y as f32[4]{1}\n}\n";

static tc_status shares_kernels(guarded *g) {
  const tc_plan *p = g->plan;
  assert_int_equal(p->kernels.count, 3);
  assert_ptr_equal(p->kernels.data[0]->kernel, p->kernels.data[2]->kernel);
  assert_ptr_not_equal(p->kernels.data[0]->kernel, p->kernels.data[1]->kernel);
  TC_TRY(tc_plan_verify(p));
  // Printed in the order in which they are launched first.
  tc_sb behind = tc_sb_make(g->arena), first = tc_sb_make(g->arena);
  tc_plan_print(&behind, p);
  tc_plan_print_kernels_first(&first, p);
  assert_non_null(strstr(behind.text, "launch @a_0 kernel 0 "));
  assert_non_null(strstr(behind.text, "launch @a_2 kernel 0 "));
  assert_true(strstr(behind.text, "kernel @a") > strstr(behind.text, "return"));
  assert_true(strstr(first.text, "kernel @a") == first.text);
  assert_true(strstr(first.text, "mul %1, 3.0") < strstr(first.text, "mul %1, 2.0"));
  assert_int_equal(first.size, behind.size);
  return TC_OK;
}

TC_TEST(kernels_have_numbers) {
  static const char two[] = KERNEL("a", "2.0"), three[] = KERNEL("a", "3.0");
  const char *behind = tc_sv_printf(arena, "%s%s%s", host, two, three).data;
  const char *first = tc_sv_printf(arena, "%s%s%s", two, three, host).data;
  TC_TRY(with(arena, behind, shares_kernels));
  TC_TRY(with(arena, first, shares_kernels));
  assert_error(with(arena, tc_sv_printf(arena, "%s%s", host, two).data, NULL), TC_STATUS_INVALID_ARGUMENT,
               "test:7:22: there is no kernel 1");
  return TC_OK;
}

// The text with one part replaced.
static const char *edited(tc_arena *arena, const char *from, const char *to) {
  const char *at = strstr(good, from);
  assert_non_null(at);
  return tc_sv_printf(arena, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from)).data;
}

TC_TEST(refuses_bad_text) {
  static const struct {
    const char *from, *to, *why;
  } cases[] = {
      {"arena 512*s0 {", "arena 512*q {", "not among the plan's symbols"},
      {"%w : f32[64]{1}+(8)", "%x : f32[64]{1}", "there twice"},
      {"f32[64]{1}+(8)", "f33[64]{1}", "dtype"},
      {"f32[64]{1}+(8)", "f32[64]{1, 2}", "expected 1 expressions"},
      {"(%h, %w", "(%g, %w", "no buffer %g"},
      {"= input 1", "= input -1", "no input"},
      {"= input 1", "= input 2", "not what the signature says"},
      {"= input 1", "= input 9", "not what the signature says"},
      {"launch @b_1", "launch @b_1 kernel -1", "numbered from 0"},
      {"as f32[8, 8]{8, 1}", "as f32[8, 8]{8}", "expected 2 expressions"},
      {"user %y as", "useless %y as", "kind of an output"},
      {"(%h.1, %w as f32[8, 8]{8, 1}+(8), out %y)", "(%h.1, out %y, %w)", "before its results"},
      {"(%h.1, %w as f32[8, 8]{8, 1}+(8), out %y)", "(%h.1, s0 : i32, out %y)", "buffers only"},
      {"grain 16", "gain 16", "grain"},
      {"  return", "  retrun", "return"},
      {"= arena 0 size", "= within %x 0 size", "no output %x"},
      {"= arena 0 size", "= within %z 0 size", "no output %z"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *text = edited(arena, cases[i].from, cases[i].to);
    assert_error(with(arena, text, NULL), TC_STATUS_INVALID_ARGUMENT, cases[i].why);
  }
  return TC_OK;
}

// No prefix of a good text crashes, and none but the whole is a plan.
TC_TEST(refuses_every_prefix) {
  for (size_t n = 0; n + 2 < sizeof good - 1; n++) {
    tc_status s = with(arena, tc_sv_z(arena, (tc_sv){good, n}), NULL);
    if (s == TC_OK) fail_msg("%d bytes are a plan", (int)n);
    tc_status_free(s);
  }
  return TC_OK;
}

// Damaged text: an error or a plan, never a crash.
TC_TEST(survives_damage) {
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 2000; round++) {
    char text[sizeof good];
    memcpy(text, good, sizeof good);
    for (int32_t k = 0; k < 3; k++)
      text[tc_test_random(&seed) % (sizeof good - 1)] = (char)(' ' + tc_test_random(&seed) % 95);
    tc_status_free(with(arena, text, verify));
  }
  return TC_OK;
}

TC_TEST(verifier_finds_faults) {
  static const struct {
    const char *from, *to, *why;
  } cases[] = {
      {"(%h, %w, out %h.1)", "(%h.1, %w, out %h.1)", "before it is written"},
      {"+(8), out %y)", "+(8))", "never written"},
      {"= arena 256*s0 size", "= arena 128*s0 size", "overlap"},
      {"= arena 256*s0 size", "= arena 300*s0 size", "outside the arena"},
      {"= arena 256*s0 size", "= within %y 0 size", "in use then"},
      {"= arena 0 size", "= within %y 8 size", "outside the output"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *text = edited(arena, cases[i].from, cases[i].to);
    assert_error(with(arena, text, verify), TC_STATUS_INTERNAL, cases[i].why);
  }
  return TC_OK;
}

static tc_status check_random(guarded *g) {
  TC_TRY(tc_plan_verify(g->plan));
  return tc_plan_check_random(g->plan, tc_test_seed(), 200);
}
TC_TEST(random_sizes_fit) { return with(arena, good, check_random); }
// Right for the example size 4, wrong for others.
TC_TEST(random_sizes_find_what_the_example_hides) {
  assert_error(with(arena, edited(arena, "= arena 256*s0 size", "= arena 1024 size"), check_random), TC_STATUS_INTERNAL,
               "random sizes");
  return TC_OK;
}

static tc_status lay_out(guarded *g) {
  tc_plan_memory(g->plan);
  TC_TRY(tc_plan_check_random(g->plan, tc_test_seed(), 50));
  tc_plan_memory_shared(g->plan);
  TC_TRY(tc_plan_check_random(g->plan, tc_test_seed(), 50));
  tc_plan_memory_apart(g->plan);
  for (int32_t i = 0; i < g->plan->bufs.count; i++) assert_int_equal(g->plan->bufs.data[i].host, 0);
  return tc_plan_check_random(g->plan, tc_test_seed(), 50);
}
TC_TEST(layouts_are_sound) { return with(arena, good, lay_out); }

// In blocks: none is larger than is allowed, all buffers lie in theirs, and no two that live at once overlap.
static void check_blocks(const tc_plan *p, const tc_plan_blocks *w, int64_t largest) {
  for (int32_t i = 0; i < w->n; i++) assert_in_range(w->bytes[i], 1, largest);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *a = &p->bufs.data[i];
    if (a->kind != TC_PLAN_ARENA || a->host) continue;
    assert_in_range(w->block[i], 0, w->n - 1);
    assert_int_equal(w->at[i] % 64, 0);
    assert_true(w->at[i] + a->bytes->value <= w->bytes[w->block[i]]);
    for (int32_t k = 0; k < i; k++) {
      const tc_plan_buf *b = &p->bufs.data[k];
      bool meet = a->first <= b->last && b->first <= a->last;
      if (b->kind != TC_PLAN_ARENA || b->host || w->block[i] != w->block[k] || !meet) continue;
      assert_true(w->at[i] + a->bytes->value <= w->at[k] || w->at[k] + b->bytes->value <= w->at[i]);
    }
  }
}

static tc_status lay_out_in_blocks(guarded *g) {
  uint64_t seed = tc_test_seed();
  const tc_plan *p = g->plan;
  tc_plan_blocks w;
  int64_t most = 0;
  tc_plan_memory(g->plan);
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].kind == TC_PLAN_ARENA && p->bufs.data[i].bytes->value > most)
      most = p->bufs.data[i].bytes->value;
  for (int32_t round = 0; round < 10; round++) {
    int64_t largest = (most + 63) / 64 * 64 + (int64_t)(tc_test_random(&seed) % 10000);
    TC_TRY(tc_plan_blocks_of(p, g->arena, NULL, largest, &w));
    check_blocks(p, &w, largest);
    if (p->arena_bytes->value > largest) assert_true(w.n > 1);
  }
  assert_error(tc_plan_blocks_of(p, g->arena, NULL, most - 1, &w), TC_STATUS_OUT_OF_MEMORY, "one allocation");
  return TC_OK;
}

// Gaps of ops that are taken for calls: nothing that lives then lies in them. Gives the largest one's bytes.
static int64_t has_gaps(guarded *g, const tc_plan_rooms *v) {
  tc_plan *p = g->plan;
  int64_t most = 0;
  tc_plan_gap *gaps = TC_NEW_ARRAY(g->arena, tc_plan_gap, p->ops.count);
  for (int32_t op = 0; op < p->ops.count; op++) p->ops.data[op].kind = TC_PLAN_CALL;
  tc_plan_gaps_of(p, v, g->arena, gaps);
  for (int32_t op = 0; op < p->ops.count; op++) {
    const tc_plan_gap *gap = &gaps[op];
    p->ops.data[op].kind = TC_PLAN_LAUNCH;
    if (!gap->bytes) continue;
    const tc_plan_room *m = &v->rooms[gap->room];
    int64_t at = m->at + gap->at;
    assert_true(m->output < 0 && m->first <= op && op <= m->last && gap->at % 64 == 0);
    assert_true(gap->at >= 0 && gap->at + gap->bytes <= m->bytes);
    for (int32_t k = 0; k < m->n; k++) {
      const tc_plan_buf *b = &p->bufs.data[m->bufs[k]];
      bool lives = b->first <= op && op <= b->last;
      assert_true(!lives || b->place->value + b->bytes->value <= at || at + gap->bytes <= b->place->value);
    }
    if (gap->bytes > most) most = gap->bytes;
  }
  return most;
}

// Outputs and the parts of the arena: each buffer lies in one that is there while it lives, parts do not overlap, and
// no less than what lives at once is there.
static tc_status has_rooms(guarded *g) {
  const tc_plan *p = g->plan;
  tc_plan_memory_shared(g->plan);
  tc_plan_rooms v = tc_plan_rooms_of(p, g->arena);
  assert_false(v.whole);
  int32_t *seen = TC_NEW_ARRAY(g->arena, int32_t, p->bufs.count);
  for (int32_t i = 0; i < v.n; i++) {
    const tc_plan_room *m = &v.rooms[i];
    assert_true(i == 0 || v.rooms[i - 1].first <= m->first);
    if (m->output >= 0) assert_true(m->first <= p->bufs.data[m->output].first && m->last == p->ops.count - 1);
    for (int32_t k = 0; k < m->n; k++) {
      const tc_plan_buf *b = &p->bufs.data[m->bufs[k]];
      int64_t at = b->place->value - m->at;
      seen[b->id]++;
      assert_int_equal(b->host, m->output + 1);
      assert_true(m->first <= b->first && b->last <= m->last);
      assert_true(at >= 0 && at + b->bytes->value <= (m->output < 0 ? m->bytes : p->bufs.data[m->output].bytes->value));
    }
    for (int32_t k = 0; k < i && m->output < 0; k++) {
      const tc_plan_room *o = &v.rooms[k];
      assert_true(o->output >= 0 || o->at + o->bytes <= m->at || m->at + m->bytes <= o->at);
    }
  }
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].kind == TC_PLAN_ARENA) assert_int_equal(seen[i], 1);
  int64_t most = 0, outputs = 0;
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].kind == TC_PLAN_OUTPUT) outputs += p->bufs.data[i].bytes->value;
  for (int32_t op = 0; op < p->ops.count; op++) {
    int64_t live = 0, there = 0;
    for (int32_t i = 0; i < p->bufs.count; i++) {
      const tc_plan_buf *b = &p->bufs.data[i];
      bool result = b->kind == TC_PLAN_OUTPUT;
      if ((b->kind == TC_PLAN_ARENA || result) && b->first <= op && (result || op <= b->last)) live += b->bytes->value;
    }
    for (int32_t i = 0; i < v.n; i++)
      if (v.rooms[i].first <= op && op <= v.rooms[i].last) there += v.rooms[i].bytes;
    assert_true(there >= live);
    if (there > most) most = there;
  }
  assert_int_equal(v.most, most);
  assert_true(most <= p->arena_bytes->value + outputs);
  has_gaps(g, &v);
  return TC_OK;
}

// What the last launch writes is not there before, and what was read before is not there any more.
static tc_status are_late(guarded *g) {
  TC_TRY(has_rooms(g));
  assert_int_equal(g->plan->arena_bytes->value, 4096);
  assert_int_equal(tc_plan_rooms_of(g->plan, g->arena).most, 4096);
  return TC_OK;
}
TC_TEST(results_are_late) {
  static const char text[] = "plan @p (\n    %x : f32[4] = user \"x\") arena 0 {\n"
                             "  %x : f32[4]{1} = input 0;\n"
                             "  %a : f32[512]{1} = arena 0 size 2048;\n"
                             "  %b : f32[512]{1} = arena 0 size 2048;\n"
                             "  %y : f32[80]{1} = output size 320;\n"
                             "  launch @a_0 blocks 1 grain 1 : (%x, out %a) bytes 0 flops 0\n"
                             "  launch @a_1 blocks 1 grain 1 : (%a, out %b) bytes 0 flops 0\n"
                             "  launch @a_2 blocks 1 grain 1 : (%b, out %y) bytes 0 flops 0\n"
                             "  return user %y as f32[80]{1}\n}\n";
  return with(arena, text, are_late);
}

// Places are chosen so that the arena falls into parts: 23040 bytes would be one, and there until the end, if the small
// ones lay across its middle.
static tc_status falls_apart(guarded *g) {
  TC_TRY(has_rooms(g));
  tc_plan_rooms v = tc_plan_rooms_of(g->plan, g->arena);
  assert_int_equal(v.most, 2 * 11520);
  assert_int_equal(has_gaps(g, &v), 11520 - 512); // behind %g, whose 480 bytes end a line of 64
  return TC_OK;
}
TC_TEST(arenas_fall_into_parts) {
  static const char text[] = "plan @p (\n    %x : f32[4] = user \"x\") arena 0 {\n"
                             "  %x : f32[4]{1} = input 0;\n"
                             "  %a : f32[1512]{1} = arena 0 size 6048;\n"
                             "  %b : f32[1440]{1} = arena 0 size 5760;\n"
                             "  %c : f32[1440]{1} = arena 0 size 5760;\n"
                             "  %d : f32[2880]{1} = arena 0 size 11520;\n"
                             "  %e : f32[2880]{1} = arena 0 size 11520;\n"
                             "  %f : f32[2880]{1} = arena 0 size 11520;\n"
                             "  %g : f32[120]{1} = arena 0 size 480;\n"
                             "  %y : f32[120]{1} = output size 480;\n"
                             "  launch @a_0 blocks 1 grain 1 : (%x, out %a) bytes 0 flops 0\n"
                             "  launch @a_1 blocks 1 grain 1 : (%x, out %b) bytes 0 flops 0\n"
                             "  launch @a_2 blocks 1 grain 1 : (%a, %b, out %c) bytes 0 flops 0\n"
                             "  launch @a_3 blocks 1 grain 1 : (%c, out %d) bytes 0 flops 0\n"
                             "  launch @a_4 blocks 1 grain 1 : (%d, out %e) bytes 0 flops 0\n"
                             "  launch @a_5 blocks 1 grain 1 : (%e, out %f) bytes 0 flops 0\n"
                             "  launch @a_6 blocks 1 grain 1 : (%f, out %g) bytes 0 flops 0\n"
                             "  launch @a_7 blocks 1 grain 1 : (%g, out %y) bytes 0 flops 0\n"
                             "  return user %y as f32[120]{1}\n}\n";
  return with(arena, text, falls_apart);
}

// Buffers whose sizes are symbols are parts, too: %a and %c, which have one place, are one; %b and what is of constant
// size have their own.
static tc_status has_slots(guarded *g) {
  const tc_plan *p = g->plan;
  tc_plan_memory_shared(g->plan);
  tc_plan_rooms v = tc_plan_rooms_of(p, g->arena);
  int32_t slots = 0;
  assert_false(v.whole);
  assert_int_equal(v.n, 4);
  for (int32_t i = 0; i < v.n; i++) {
    const tc_plan_room *m = &v.rooms[i];
    assert_true(i == 0 || v.rooms[i - 1].first <= m->first);
    assert_true(!m->place || (m->output < 0 && m->n > 0 && !m->bytes));
    slots += m->place != NULL;
    for (int32_t k = 0; k < m->n; k++) {
      const tc_plan_buf *b = &p->bufs.data[m->bufs[k]];
      assert_true(m->first <= b->first && b->last <= m->last);
      assert_int_equal(tc_sym_is_const(b->bytes), m->place == NULL);
      if (m->place) assert_ptr_equal(b->place, m->place);
    }
    if (m->place && m->n == 2) assert_true(m->first == 0 && m->last == 3);
    if (m->place && m->n == 1) assert_true(m->first == 1 && m->last == 2);
  }
  assert_int_equal(slots, 2);
  return TC_OK;
}
TC_TEST(symbols_have_parts) {
  static const char text[] = "plan @p [s0 in [1, 64] hint 2] (\n    %x : f32[s0] = user \"x\") arena 0 {\n"
                             "  %x : f32[s0]{1} = input 0;\n"
                             "  %a : f32[2*s0]{1} = arena 0 size 8*s0;\n"
                             "  %b : f32[s0]{1} = arena 0 size 4*s0;\n"
                             "  %c : f32[s0]{1} = arena 0 size 4*s0;\n"
                             "  %d : f32[8]{1} = arena 0 size 32;\n"
                             "  %y : f32[s0]{1} = output size 4*s0;\n"
                             "  launch @a_0 blocks 1 grain 1 : (%x, out %a) bytes 0 flops 0\n"
                             "  launch @a_1 blocks 1 grain 1 : (%a, out %b) bytes 0 flops 0\n"
                             "  launch @a_2 blocks 1 grain 1 : (%b, out %c, out %d) bytes 0 flops 0\n"
                             "  launch @a_3 blocks 1 grain 1 : (%c, %d, out %y) bytes 0 flops 0\n"
                             "  return user %y as f32[s0]{1}\n}\n";
  return with(arena, text, has_slots);
}

// Constant sizes: many buffers with random lifetimes.
TC_TEST(random_lifetimes_are_sound) {
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 20; round++) {
    tc_sb sb = tc_sb_make(arena);
    int32_t n = 40;
    tc_sb_putz(&sb, "plan @p arena 0 {\n  %x : f32[4]{1} = input 0;\n");
    for (int32_t i = 0; i < n; i++) {
      int32_t size = 1 + (int32_t)(tc_test_random(&seed) % 1000);
      tc_sb_printf(&sb, "  %%b%d : f32[%d]{1} = %s size %d;\n", i, size, i % 5 ? "arena 0" : "output", 4 * size);
    }
    for (int32_t i = 0; i < n; i++) {
      int32_t from = (int32_t)(tc_test_random(&seed) % (uint64_t)(i + 1));
      const char *source = from < i ? tc_sv_printf(arena, "b%d", from).data : "x";
      tc_sb_printf(&sb, "  launch @k%d blocks 1 grain 1 : (%%%s, out %%b%d) bytes 0 flops 0\n", i, source, i);
    }
    tc_sb_putz(&sb, "  return\n}\n");
    TC_TRY(with(arena, sb.text, lay_out), "while laying out\n%s", sb.text);
    TC_TRY(with(arena, sb.text, lay_out_in_blocks), "while laying out\n%s", sb.text);
    TC_TRY(with(arena, sb.text, has_rooms), "while laying out\n%s", sb.text);
  }
  return TC_OK;
}

// The arena is no larger than what is alive at once.
static tc_status wastes_nothing(guarded *g) {
  const tc_plan *p = g->plan;
  int64_t most = 0;
  tc_plan_memory(g->plan);
  TC_TRY(tc_plan_check_memory(p, NULL));
  for (int32_t op = 0; op < p->ops.count; op++) {
    int64_t alive = 0;
    for (int32_t i = 0; i < p->bufs.count; i++) {
      const tc_plan_buf *b = &p->bufs.data[i];
      if (b->kind == TC_PLAN_ARENA && b->first <= op && op <= b->last) alive += b->bytes->value;
    }
    if (alive > most) most = alive;
  }
  assert_int_equal(p->arena_bytes->value, most);
  return TC_OK;
}

// Lifetimes at which buffers by falling size, each at its lowest place, take more.
typedef struct lives {
  int32_t n;
  struct {
    int32_t units, first, last; // 64 bytes; numbers of launches
  } v[6];
} lives;

TC_TEST(layouts_waste_nothing) {
  static const lives cases[] = {
      {4, {{2, 0, 1}, {1, 1, 2}, {1, 2, 4}, {2, 3, 4}}},
      {5, {{3, 0, 3}, {2, 1, 3}, {2, 2, 4}, {3, 3, 4}, {4, 4, 5}}},
      {6, {{4, 0, 3}, {3, 1, 2}, {3, 2, 5}, {4, 3, 6}, {3, 4, 5}, {3, 5, 6}}},
      {6, {{5, 0, 3}, {5, 1, 2}, {2, 2, 4}, {3, 3, 6}, {4, 4, 6}, {5, 5, 6}}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    const lives *l = &cases[c];
    tc_sb sb = tc_sb_make(arena);
    tc_sb_putz(&sb, "plan @p arena 0 {\n  %y : f32[4]{1} = output size 16;\n");
    for (int32_t i = 0; i < l->n; i++)
      tc_sb_printf(&sb, "  %%b%d : f32[%d]{1} = arena 0 size %d;\n", i, 16 * l->v[i].units, 64 * l->v[i].units);
    for (int32_t op = 0; op <= l->n; op++) {
      tc_sb_printf(&sb, "  launch @k%d blocks 1 grain 1 : (out %%%s", op, op < l->n ? "b" : "y");
      if (op < l->n) tc_sb_printf(&sb, "%d", op);
      for (int32_t i = 0; i < op; i++)
        if (l->v[i].first < op && op <= l->v[i].last) tc_sb_printf(&sb, ", %%b%d", i);
      tc_sb_putz(&sb, ") bytes 0 flops 0\n");
    }
    tc_sb_putz(&sb, "  return\n}\n");
    TC_TRY(with(arena, sb.text, wastes_nothing), "while laying out\n%s", sb.text);
  }
  return TC_OK;
}

// Until an output is written, its memory holds what is read no later than just before.
static tc_status shares_outputs(guarded *g) {
  const tc_plan *p = g->plan;
  const tc_plan_buf *h = &p->bufs.data[1], *late = &p->bufs.data[2], *y = &p->bufs.data[3];
  tc_plan_memory_shared(g->plan);
  TC_TRY(tc_plan_verify(p));
  assert_int_equal(h->host, 1 + y->id);
  assert_int_equal(late->host, 0); // is read where %y is written
  assert_int_equal(p->arena_bytes->value, 64);
  tc_sb sb = tc_sb_make(g->arena);
  tc_plan_print(&sb, p);
  assert_non_null(strstr(sb.text, "%h : f32[4]{1} = within %y 0 size 16;"));
  return with(g->arena, sb.text, prints_the_same);
}
TC_TEST(outputs_hold_what_lives_before_them) {
  static const char two[] = KERNEL("a", "2.0"), three[] = KERNEL("a", "3.0");
  return with(arena, tc_sv_printf(arena, "%s%s%s", host, two, three).data, shares_outputs);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(good_plan_is_good),
      cmocka_unit_test(refuses_bad_text),
      cmocka_unit_test(refuses_every_prefix),
      cmocka_unit_test(survives_damage),
      cmocka_unit_test(verifier_finds_faults),
      cmocka_unit_test(random_sizes_fit),
      cmocka_unit_test(random_sizes_find_what_the_example_hides),
      cmocka_unit_test(layouts_are_sound),
      cmocka_unit_test(random_lifetimes_are_sound),
      cmocka_unit_test(kernels_have_numbers),
      cmocka_unit_test(layouts_waste_nothing),
      cmocka_unit_test(results_are_late),
      cmocka_unit_test(symbols_have_parts),
      cmocka_unit_test(arenas_fall_into_parts),
      cmocka_unit_test(outputs_hold_what_lives_before_them),
  };
  return TC_RUN(tests);
}
