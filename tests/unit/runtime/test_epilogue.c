// Products with what follows them as one op: which chains join, which do not, and that all compute the same.
#include "core/runtime/call_epilogue.h"
#include "core/runtime/compile.h"
#include "tests/unit/runtime/rig.h"

typedef struct chain {
  const char *body;   // from %l, the product, to %r
  const char *joined; // a part of the text of the joined graph; NULL: nothing joins
} chain;
static const chain chains[] = {
    {"%r = aten::gelu(%l, approximate=\"tanh\")", "\"gelu_tanh\", none)"},
    {"%r = aten::gelu(%l)", "\"gelu_erf\", none)"},
    {"%r = aten::silu(%l)", "\"silu\", none)"},
    {"%r = aten::add.Tensor(%l, %o)", "\"\", %o)"},
    {"%r = aten::add.Tensor(%o, %l)", "\"\", %o)"},
    {"%s = aten::sigmoid(%l)\n  %r = aten::add.Tensor(%o, %s)", "\"sigmoid\", %o)"},
    {"%s = aten::tanh(%l)\n  %r = aten::tanh(%s)", "\"tanh\", none)"},
    {"%s = aten::add.Tensor(%l, %o)\n  %r = aten::silu(%s)", "\"silu\", %o)"}, // not in this order: see below
    {"%r = aten::add.Tensor(%l, %o, alpha=2)", NULL},
    {"%r = aten::add.Tensor(%l, %b)", NULL},
    {"%r = aten::add.Tensor(%l, %l)", NULL},
    {"%s = aten::silu(%l)\n  %r = aten::mul.Tensor(%s, %l)", NULL},
};

static const char *const options[] = {"calls", "always", "cache.enabled", "false", NULL};

static tc_status join_chain(tc_arena *arena, const chain *k, tc_sb *text) {
  rig r;
  TC_TRY(rig_context(&r, tc_arena_allocator(arena), "cpu", options));
  tc_sv graph = tc_sv_printf(arena,
                             "graph @g (%%x : f32[64, 96] = user \"x\", %%w : f32[128, 96] = user \"w\", %%b : "
                             "f32[128] = user \"b\", %%o : f32[64, 128] = user \"o\") {\n"
                             "  %%l = aten::linear(%%x, %%w, %%b)\n  %s\n  return user %%r\n}\n",
                             k->body);
  tc_compiled x = {0};
  tc_status s = rig_graph(&r, graph.data);
  if (s == TC_OK) s = tc_compile_graph(r.context, r.graph, TC_STAGE_LOOP, &x);
  if (s == TC_OK) tc_graph_print(text, r.graph);
  tc_compiled_free(&x);
  tc_module_destroy(r.module);
  tc_context_destroy(r.context);
  return s;
}

// The thread sanitizer's build has no oneDNN.
static bool has_library(tc_arena *arena) {
  rig r;
  tc_status s = rig_context(&r, tc_arena_allocator(arena), "cpu", options);
  bool has = false;
  for (int32_t i = 0; s == TC_OK && i < r.context->device->n_calls; i++)
    has = has || tc_sv_is(r.context->device->calls[i].table->name, "onednn");
  tc_status_free(s);
  if (r.context) tc_context_destroy(r.context);
  return has;
}

TC_TEST(chains_join) {
  if (!has_library(arena)) skip();
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
    tc_sb text = tc_sb_make(arena);
    TC_TRY(join_chain(arena, &chains[i], &text), "in the chain %s", chains[i].body);
    bool joined = strstr(text.text, TC_THEN_OP) != NULL;
    bool sum_first = strstr(chains[i].body, "%r = aten::silu(%s)") != NULL;
    if (sum_first) { // the sum joins, the function behind it does not
      assert_true(joined && strstr(text.text, "\"\", %o)") && strstr(text.text, "aten::silu("));
      continue;
    }
    if (joined != (chains[i].joined != NULL)) fail_msg("%s: %s", chains[i].body, text.text);
    if (joined && !strstr(text.text, chains[i].joined)) fail_msg("%s: %s", chains[i].body, text.text);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(chains_join)};
  return TC_RUN(tests);
}
