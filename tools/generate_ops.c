// Writes tc/ops.h: a typed function for every op of the core, from the ops' own declarations.
//
// An op "aten::add.Tensor" becomes tc_aten_add_Tensor. Its parameters are the schema's arguments in order; a list is a
// pointer and a count, an optional number a pointer that may be NULL. Layouts, devices and generators are left at their
// defaults. What gives one tensor returns it; what gives several takes a pointer for each; what gives a list takes an
// array. Ops whose arguments have no C type are left out (tc_call_op runs them).
#include <stdio.h>
#include <string.h>

#include "core/ops/ops.h"

enum { HIDDEN, BAD, VALUE, LIST };

typedef struct c_type {
  int32_t how;
  const char *text;     // of the parameter, or of the list's elements
  const char *optional; // of the parameter when it may be absent; NULL: as it is
  const char *kind;     // TC_ARGUMENT_*
  const char *field;
} c_type;

static c_type type_of(const tc_schema_arg *a) {
  static const c_type hidden = {.how = HIDDEN}, bad = {.how = BAD};
  if (a->is_list) {
    switch (a->type) {
    case TC_ST_TENSOR: return (c_type){LIST, "tc_tensor *const *", NULL, "TENSORS", "tensors"};
    case TC_ST_INT: return (c_type){LIST, "const int64_t *", NULL, "INTS", "integers"};
    case TC_ST_FLOAT: return (c_type){LIST, "const double *", NULL, "REALS", "reals"};
    case TC_ST_BOOL: return (c_type){LIST, "const uint8_t *", NULL, "BOOLS", "bools"};
    default: return bad;
    }
  }
  switch (a->type) {
  case TC_ST_TENSOR: return (c_type){VALUE, "tc_tensor *", "tc_tensor *", "TENSOR", "tensor"};
  case TC_ST_INT: return (c_type){VALUE, "int64_t ", "const int64_t *", "INT", "integer"};
  case TC_ST_FLOAT: return (c_type){VALUE, "double ", "const double *", "REAL", "parts[0]"};
  case TC_ST_BOOL: return (c_type){VALUE, "int32_t ", "const int32_t *", "BOOL", "integer"};
  case TC_ST_SCALAR: return (c_type){VALUE, "tc_scalar ", "const tc_scalar *", "", ""};
  case TC_ST_STRING: return (c_type){VALUE, "const char *", "const char *", "TEXT", "text"};
  case TC_ST_DTYPE: return (c_type){VALUE, "tc_dtype ", "tc_dtype ", "DTYPE", "integer"};
  case TC_ST_MEMORY_FORMAT: return (c_type){VALUE, "int32_t ", "int32_t ", "MEMORY_FORMAT", "integer"};
  case TC_ST_LAYOUT:
  case TC_ST_DEVICE:
  case TC_ST_GENERATOR: return hidden;
  default: return bad;
  }
}

// Names that C or C++ keep for themselves, or that the functions use, get a trailing underscore.
static void put_name(FILE *f, tc_sv name) {
  static const char *const kept[] = {
      "default", "register", "float",    "int",      "double", "char", "bool", "long", "short",  "signed",
      "this",    "new",      "template", "operator", "and",    "or",   "not",  "xor",  "delete", "switch",
      "case",    "const",    "c",        "results",  "a",      "i",    "r",    "here", "union",  "capacity"};
  fprintf(f, TC_SV_FMT, TC_SV_ARG(name));
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (tc_sv_is(name, kept[i])) fputc('_', f);
}

static void put_function(FILE *f, const tc_op *op) {
  const tc_schema *s = &op->schema;
  fprintf(f, "tc_" TC_SV_FMT "_" TC_SV_FMT, TC_SV_ARG(s->ns), TC_SV_ARG(s->name));
  if (s->overload.size) fprintf(f, "_" TC_SV_FMT, TC_SV_ARG(s->overload));
}

static bool has_c_type(const tc_op *op) {
  const tc_schema *s = &op->schema;
  if (s->varargs || s->n_returns == 0) return false;
  for (int32_t i = 0; i < s->n_args; i++)
    if (type_of(&s->args[i]).how == BAD) return false;
  for (int32_t i = 0; i < s->n_returns; i++)
    if (s->returns[i].type != TC_ST_TENSOR || (s->returns[i].is_list && s->n_returns > 1)) return false;
  return true;
}

// The first argument is a tensor that is always there: it tells the context.
static bool tells_context(const tc_op *op) {
  const tc_schema *s = &op->schema;
  return s->n_args > 0 && s->args[0].type == TC_ST_TENSOR && !s->args[0].is_list && !s->args[0].is_optional;
}

static void put_parameters(FILE *f, const tc_op *op) {
  const tc_schema *s = &op->schema;
  fprintf(f, "const char *here");
  if (!tells_context(op)) fprintf(f, ", tc_context *c");
  for (int32_t i = 0; i < s->n_args; i++) {
    c_type t = type_of(&s->args[i]);
    if (t.how == HIDDEN) continue;
    fprintf(f, ", %s", t.how == VALUE && s->args[i].is_optional ? t.optional : t.text);
    put_name(f, s->args[i].name);
    if (t.how == LIST) {
      fprintf(f, ", int32_t n_");
      fprintf(f, TC_SV_FMT, TC_SV_ARG(s->args[i].name));
    }
  }
  if (s->returns[0].is_list) fprintf(f, ", int32_t capacity, tc_tensor **results, int32_t *n_results");
  for (int32_t i = 0; i < s->n_returns && s->n_returns > 1; i++) fprintf(f, ", tc_tensor **result%d", i);
}

static void put_argument(FILE *f, int32_t i, const tc_schema_arg *a) {
  c_type t = type_of(a);
  if (t.how == HIDDEN) return;
  if (t.how == LIST) {
    if (a->is_optional) {
      fprintf(f, "  if (");
      put_name(f, a->name);
      fprintf(f, ") ");
    } else {
      fprintf(f, "  ");
    }
    fprintf(f, "a[%d].kind = TC_ARGUMENT_%s, a[%d].n = n_" TC_SV_FMT ", a[%d].v.%s = ", i, t.kind, i,
            TC_SV_ARG(a->name), i, t.field);
    put_name(f, a->name);
    fprintf(f, ";\n");
    return;
  }
  bool pointer = a->is_optional && strcmp(t.text, t.optional) != 0;
  fprintf(f, "  ");
  if (pointer || a->type == TC_ST_STRING) {
    fprintf(f, "if (");
    put_name(f, a->name);
    fprintf(f, ") ");
  }
  if (a->type == TC_ST_SCALAR) fprintf(f, "a[%d] = %s", i, pointer ? "*" : "");
  else fprintf(f, "a[%d].kind = TC_ARGUMENT_%s, a[%d].v.%s = %s", i, t.kind, i, t.field, pointer ? "*" : "");
  put_name(f, a->name);
  fprintf(f, ";\n");
}

static void put_op(FILE *f, const tc_op *op) {
  const tc_schema *s = &op->schema;
  bool one = s->n_returns == 1 && !s->returns[0].is_list;
  fprintf(f, "\n// " TC_SV_FMT "\nstatic inline %s", TC_SV_ARG(op->full_name), one ? "tc_tensor *" : "int32_t ");
  put_function(f, op);
  fprintf(f, "_at(");
  put_parameters(f, op);
  fprintf(f, ") {\n  tc_argument a[%d];\n  int32_t i;\n", s->n_args ? s->n_args : 1);
  if (s->n_returns > 1) fprintf(f, "  tc_tensor *r[%d];\n", s->n_returns);
  if (one) fprintf(f, "  tc_tensor *r;\n");
  fprintf(f, "  for (i = 0; i < %d; i++) a[i] = tc_arg_nothing();\n", s->n_args ? s->n_args : 1);
  for (int32_t i = 0; i < s->n_args; i++) put_argument(f, i, &s->args[i]);
  const char *context = tells_context(op) ? "NULL" : "c";
  if (one) {
    fprintf(f,
            "  return tc_call_op_at(here, %s, \"" TC_SV_FMT "\", %d, a, 1, &r, NULL) == TC_STATUS_OK ? r : NULL;\n}\n",
            context, TC_SV_ARG(op->full_name), s->n_args);
  } else if (s->n_returns == 1) {
    fprintf(f, "  return tc_call_op_at(here, %s, \"" TC_SV_FMT "\", %d, a, capacity, results, n_results);\n}\n",
            context, TC_SV_ARG(op->full_name), s->n_args);
  } else {
    fprintf(f, "  i = tc_call_op_at(here, %s, \"" TC_SV_FMT "\", %d, a, %d, r, NULL);\n", context,
            TC_SV_ARG(op->full_name), s->n_args, s->n_returns);
    for (int32_t i = 0; i < s->n_returns; i++) fprintf(f, "  *result%d = r[%d];\n", i, i);
    fprintf(f, "  return i;\n}\n");
  }
  fprintf(f, "#define ");
  put_function(f, op);
  fprintf(f, "(...) ");
  put_function(f, op);
  fprintf(f, "_at(TC_HERE, __VA_ARGS__)\n");
}

static void put_all(FILE *f, const tc_op_registry *r, tc_arena *arena) {
  fprintf(
      f,
      "// A typed function for every op, made from the ops' declarations by tools/generate_ops.c: see there for the\n"
      "// rules, tc/tc.h for ownership and errors. The name and the schema are PyTorch's.\n"
      "#ifndef TC_OPS_H_\n#define TC_OPS_H_\n\n#include \"tc/tc.h\"\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  for (int32_t i = 0; i < tc_op_registry_count(r); i++) {
    const tc_op *op = tc_op_registry_at(r, i);
    if (!has_c_type(op)) continue;
    put_op(f, op);
    const tc_schema *s = &op->schema;
    const char *dot = s->overload.size ? "." : "";
    tc_sv name = tc_sv_printf(arena, TC_SV_FMT "::" TC_SV_FMT "_%s" TC_SV_FMT, TC_SV_ARG(s->ns), TC_SV_ARG(s->name),
                              dot, TC_SV_ARG(s->overload));
    const tc_op *in_place = tc_op_find(r, name);
    if (in_place && in_place->functional == op && has_c_type(in_place)) put_op(f, in_place);
  }
  fprintf(f, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

typedef struct job {
  tc_arena *arena;
  const char *path;
} job;

static tc_status generate(void *arg) {
  job *j = arg;
  tc_op_registry *r;
  TC_TRY(tc_op_registry_create(j->arena, &r));
  TC_TRY(tc_ops_register_core(r));
  FILE *f = fopen(j->path, "w");
  if (!f) return tc_error(TC_STATUS_IO, "cannot write %s", j->path);
  put_all(f, r, j->arena);
  bool bad = ferror(f) != 0;
  bad |= fclose(f) != 0;
  return bad ? tc_error(TC_STATUS_IO, "cannot write %s", j->path) : TC_OK;
}

int main(int argc, char **argv) {
  job j = {.path = argc > 1 ? argv[1] : "ops.h"};
  tc_status s = tc_arena_create(tc_system_allocator(), &j.arena);
  if (s == TC_OK) s = tc_arena_guard(j.arena, generate, &j);
  if (s != TC_OK) fprintf(stderr, "%s\n", tc_status_text(s));
  int code = s != TC_OK;
  tc_status_free(s);
  tc_arena_destroy(j.arena);
  return code;
}
