// PyTorch's schema language: "ns::name.overload(Tensor(a!) self, int[2] k=1, *, Scalar alpha=1) -> (Tensor, Tensor[])".
//
// Source of the grammar: the README of PyTorch's native_functions and the strings its dispatcher prints (they use c10's
// numbers for dtypes and memory formats as defaults). Types that graphs never hold (Dict, Future, type variables) parse
// as OTHER. Defaults belong to no symbol context: ints are kept as plain numbers (tc_arg.integer, .integers).
#include "core/ir/op.h"

// Schema types by name.
static const struct {
  const char *name;
  int32_t type;
} schema_types[] = {
    {"Tensor", TC_ST_TENSOR},       {"int", TC_ST_INT},
    {"SymInt", TC_ST_INT},          {"float", TC_ST_FLOAT},
    {"SymFloat", TC_ST_FLOAT},      {"bool", TC_ST_BOOL},
    {"SymBool", TC_ST_BOOL},        {"Scalar", TC_ST_SCALAR},
    {"number", TC_ST_SCALAR},       {"complex", TC_ST_SCALAR},
    {"str", TC_ST_STRING},          {"Dimname", TC_ST_STRING},
    {"ScalarType", TC_ST_DTYPE},    {"Layout", TC_ST_LAYOUT},
    {"Device", TC_ST_DEVICE},       {"MemoryFormat", TC_ST_MEMORY_FORMAT},
    {"Generator", TC_ST_GENERATOR},
};

// c10's ScalarType numbers, as dispatcher strings print them.
static const tc_dtype c10_dtypes[] = {TC_U8,  TC_I8,  TC_I16, TC_I32, TC_I64,  TC_F16,
                                      TC_F32, TC_F64, TC_C32, TC_C64, TC_C128, TC_BOOL};
static const int64_t c10_formats[] = {TC_FORMAT_CONTIGUOUS, TC_FORMAT_PRESERVE, TC_FORMAT_CHANNELS_LAST,
                                      TC_FORMAT_CHANNELS_LAST_3D};
static const struct {
  const char *name;
  int64_t value;
} format_names[] = {{"contiguous_format", TC_FORMAT_CONTIGUOUS},
                    {"preserve_format", TC_FORMAT_PRESERVE},
                    {"channels_last", TC_FORMAT_CHANNELS_LAST},
                    {"channels_last_3d", TC_FORMAT_CHANNELS_LAST_3D}};

#define LEN(a) ((int32_t)(sizeof(a) / sizeof *(a)))
enum { MAX_ARGS = 256 };

// "(a! -> *)" behind a type: the alias set's letter, and whether it is written. Generic parameters ("Dict(str, t)") are
// stepped over.
static tc_status parse_alias(tc_lexer *lx, tc_schema_arg *out) {
  int32_t depth = 1;
  while (depth) {
    if (lx->tok.kind == TC_TOK_END || lx->tok.kind == TC_TOK_BAD)
      return tc_lex_error(lx, "expected ')' of an alias set");
    if (tc_lex_at(lx, "(")) depth++;
    else if (tc_lex_at(lx, ")")) depth--;
    else if (tc_lex_at(lx, "!")) out->writes = true;
    else if (lx->tok.kind == TC_TOK_IDENT && lx->tok.text.size == 1 && !out->alias) out->alias = lx->tok.text.data[0];
    tc_lex_next(lx);
  }
  return TC_OK;
}

static tc_status parse_type(tc_lexer *lx, tc_schema_arg *out) {
  tc_sv name = {0};
  out->type = TC_ST_OTHER;
  if (tc_lex_eat(lx, "(")) TC_TRY(parse_alias(lx, out)); // a tuple type
  else TC_TRY(tc_lex_ident(lx, &name));
  for (int32_t i = 0; i < LEN(schema_types); i++)
    if (tc_sv_is(name, schema_types[i].name)) out->type = schema_types[i].type;
  out->symbolic = tc_sv_is(name, "SymInt");
  while (tc_lex_eat(lx, ".")) { // __torch__.torch.classes.…
    out->type = TC_ST_OTHER;
    TC_TRY(tc_lex_ident(lx, &name));
  }
  if (tc_lex_eat(lx, "(")) TC_TRY(parse_alias(lx, out));
  for (;;) {
    if (tc_lex_eat(lx, "?")) {
      out->is_optional = true;
    } else if (tc_lex_eat(lx, "[")) {
      if (out->is_list) out->type = TC_ST_OTHER;
      out->is_list = true, out->elements_optional = out->is_optional, out->is_optional = false;
      if (lx->tok.kind == TC_TOK_INT) {
        int64_t n;
        TC_TRY(tc_lex_int(lx, &n));
        if (n < 1 || n > 64) return tc_lex_error(lx, "a list size of %lld is out of range", (long long)n);
        out->list_size = (int32_t)n;
      }
      TC_TRY(tc_lex_expect(lx, "]"));
    } else if (tc_lex_at(lx, "(")) { // t(a)? and t[](*)
      tc_lex_next(lx);
      TC_TRY(parse_alias(lx, out));
    } else {
      return TC_OK;
    }
  }
}

// One value of a default; `type` says what numbers mean.
static tc_status parse_value(tc_lexer *lx, int32_t type, tc_arg *out) {
  *out = (tc_arg){.kind = TC_AK_NONE};
  if (tc_lex_eat(lx, "None")) return TC_OK;
  bool yes = tc_lex_at(lx, "True") || tc_lex_at(lx, "true");
  if (yes || tc_lex_at(lx, "False") || tc_lex_at(lx, "false")) {
    tc_lex_next(lx);
    *out = (tc_arg){.kind = TC_AK_BOOL, .integer = yes, .real = yes};
    return TC_OK;
  }
  if (lx->tok.kind == TC_TOK_STRING) {
    out->kind = TC_AK_STRING;
    return tc_lex_string(lx, &out->text);
  }
  if (lx->tok.kind == TC_TOK_IDENT && !tc_lex_at(lx, "inf") && !tc_lex_at(lx, "nan")) {
    for (int32_t i = 0; i < LEN(format_names); i++)
      if (tc_lex_eat(lx, format_names[i].name)) {
        *out = (tc_arg){.kind = TC_AK_MEMORY_FORMAT, .integer = format_names[i].value};
        return TC_OK;
      }
    if (tc_lex_eat(lx, "Mean")) {
      *out = (tc_arg){.kind = TC_AK_INT, .integer = 1, .real = 1};
      return TC_OK;
    }
    if (tc_lex_eat(lx, "long")) {
      *out = (tc_arg){.kind = TC_AK_DTYPE, .integer = TC_I64};
      return TC_OK;
    }
    return tc_lex_error(lx, "'" TC_SV_FMT "' is not a default value", TC_SV_ARG(lx->tok.text));
  }
  bool negative = tc_lex_eat(lx, "-");
  bool is_int = lx->tok.kind == TC_TOK_INT;
  int64_t i = 0;
  double d = 0;
  if (is_int) TC_TRY(tc_lex_int(lx, &i));
  else TC_TRY(tc_lex_double(lx, &d));
  if (negative) i = -i, d = -d;
  if (is_int) d = (double)i;
  out->real = d;
  if (!is_int || type == TC_ST_FLOAT) {
    out->kind = TC_AK_FLOAT;
  } else if (type == TC_ST_DTYPE) {
    if (i < 0 || i >= LEN(c10_dtypes)) return tc_lex_error(lx, "%lld is not a dtype's number", (long long)i);
    *out = (tc_arg){.kind = TC_AK_DTYPE, .integer = c10_dtypes[i]};
  } else if (type == TC_ST_MEMORY_FORMAT) {
    if (i < 0 || i >= LEN(c10_formats)) return tc_lex_error(lx, "%lld is not a memory format's number", (long long)i);
    *out = (tc_arg){.kind = TC_AK_MEMORY_FORMAT, .integer = c10_formats[i]};
  } else if (type == TC_ST_BOOL) {
    *out = (tc_arg){.kind = TC_AK_BOOL, .integer = i != 0, .real = i != 0};
  } else {
    out->kind = type == TC_ST_LAYOUT ? TC_AK_LAYOUT : TC_AK_INT, out->integer = i;
  }
  return TC_OK;
}

// Makes a list preset of `n` single values.
static tc_status list_preset(tc_lexer *lx, const tc_schema_arg *arg, int32_t n, const tc_arg *values, tc_arg *out) {
  *out = (tc_arg){.n = n};
  switch (arg->type) {
  case TC_ST_INT: {
    int64_t *v = TC_NEW_ARRAY(lx->arena, int64_t, n);
    for (int32_t i = 0; i < n; i++) v[i] = values[i].integer;
    out->kind = TC_AK_INTS, out->integers = v;
    return TC_OK;
  }
  case TC_ST_FLOAT:
  case TC_ST_SCALAR: {
    double *v = TC_NEW_ARRAY(lx->arena, double, n);
    for (int32_t i = 0; i < n; i++) v[i] = values[i].real;
    out->kind = TC_AK_FLOATS, out->reals = v;
    return TC_OK;
  }
  case TC_ST_BOOL: {
    uint8_t *v = TC_NEW_ARRAY(lx->arena, uint8_t, n);
    for (int32_t i = 0; i < n; i++) v[i] = values[i].integer != 0;
    out->kind = TC_AK_BOOLS, out->bools = v;
    return TC_OK;
  }
  case TC_ST_STRING: {
    tc_sv *v = TC_NEW_ARRAY(lx->arena, tc_sv, n);
    for (int32_t i = 0; i < n; i++) v[i] = values[i].text;
    out->kind = TC_AK_STRINGS, out->texts = v;
    return TC_OK;
  }
  case TC_ST_TENSOR:
    if (n == 0) {
      out->kind = TC_AK_TENSORS;
      return TC_OK;
    }
    break;
  default: break;
  }
  if (n == 0) return TC_OK;
  return tc_lex_error(lx, "a default list of this type is not understood");
}

static tc_status parse_default(tc_lexer *lx, tc_schema_arg *arg) {
  arg->has_default = true;
  tc_arg values[64];
  int32_t n = 0;
  if (tc_lex_eat(lx, "[")) {
    while (!tc_lex_at(lx, "]")) {
      if (n == LEN(values)) return tc_lex_error(lx, "a default list may have %d values", LEN(values));
      TC_TRY(parse_value(lx, arg->type, &values[n++]));
      if (!tc_lex_eat(lx, ",")) break;
    }
    TC_TRY(tc_lex_expect(lx, "]"));
    return list_preset(lx, arg, n, values, &arg->preset);
  }
  TC_TRY(parse_value(lx, arg->type, &arg->preset));
  if (!arg->is_list || arg->preset.kind == TC_AK_NONE) return TC_OK;
  n = arg->list_size ? arg->list_size : 1; // int[2] stride=1 means [1, 1]
  for (int32_t i = 0; i < n; i++) values[i] = arg->preset;
  return list_preset(lx, arg, n, values, &arg->preset);
}

// Names of arguments may be any identifier; some strings leave them out for types and returns.
static tc_status parse_args(tc_lexer *lx, tc_schema *s) {
  TC_VEC(tc_schema_arg) args = {0};
  bool kwarg_only = false;
  TC_TRY(tc_lex_expect(lx, "("));
  while (!tc_lex_at(lx, ")")) {
    if (args.count == MAX_ARGS) return tc_lex_error(lx, "a schema may have %d arguments", MAX_ARGS);
    if (tc_lex_eat(lx, "*")) {
      kwarg_only = true;
    } else if (tc_lex_eat(lx, ".")) {
      while (tc_lex_eat(lx, ".")) {}
      s->varargs = true;
    } else {
      tc_schema_arg arg = {.kwarg_only = kwarg_only};
      TC_TRY(parse_type(lx, &arg));
      TC_TRY(tc_lex_ident(lx, &arg.name));
      for (int32_t i = 0; i < args.count; i++)
        if (tc_sv_eq(args.data[i].name, arg.name))
          return tc_lex_error(lx, "the schema has two arguments named '" TC_SV_FMT "'", TC_SV_ARG(arg.name));
      if (tc_lex_eat(lx, "="))
        TC_TRY(parse_default(lx, &arg), "while reading the default of '" TC_SV_FMT "'", TC_SV_ARG(arg.name));
      tc_vec_push(lx->arena, &args, arg);
    }
    if (!tc_lex_eat(lx, ",")) break;
  }
  TC_TRY(tc_lex_expect(lx, ")"));
  s->args = args.data, s->n_args = args.count;
  return TC_OK;
}

static tc_status parse_returns(tc_lexer *lx, tc_schema *s) {
  TC_VEC(tc_schema_arg) returns = {0};
  TC_TRY(tc_lex_expect(lx, "->"));
  tc_lexer start = *lx;
  bool many = tc_lex_eat(lx, "(");
  while (!many || !tc_lex_at(lx, ")")) {
    if (returns.count == MAX_ARGS) return tc_lex_error(lx, "a schema may have %d returns", MAX_ARGS);
    if (tc_lex_eat(lx, ".")) { // -> ...
      while (tc_lex_eat(lx, ".")) {}
    } else {
      tc_schema_arg r = {0};
      TC_TRY(parse_type(lx, &r));
      if (lx->tok.kind == TC_TOK_IDENT) TC_TRY(tc_lex_ident(lx, &r.name));
      tc_vec_push(lx->arena, &returns, r);
    }
    if (!many || !tc_lex_eat(lx, ",")) break;
  }
  if (many) TC_TRY(tc_lex_expect(lx, ")"));
  if (many && tc_lex_at(lx, "[")) { // one list of tuples
    *lx = start;
    tc_schema_arg r = {0};
    TC_TRY(parse_type(lx, &r));
    returns.count = 0;
    tc_vec_push(lx->arena, &returns, r);
  }
  s->returns = returns.data, s->n_returns = returns.count;
  return TC_OK;
}

static tc_status parse_schema(tc_lexer *lx, tc_schema *s) {
  s->ns = TC_SV("aten");
  TC_TRY(tc_lex_ident(lx, &s->name));
  if (tc_lex_eat(lx, "::")) {
    s->ns = s->name;
    TC_TRY(tc_lex_ident(lx, &s->name));
  }
  if (tc_lex_eat(lx, ".")) TC_TRY(tc_lex_ident(lx, &s->overload));
  TC_TRY(parse_args(lx, s));
  TC_TRY(parse_returns(lx, s));
  if (lx->tok.kind != TC_TOK_END) return tc_lex_error(lx, "expected the end of the schema");
  return TC_OK;
}

// C escapes that PyTorch prints and the lexer does not know, respelled.
static tc_sv respell_escapes(tc_arena *arena, tc_sv text) {
  tc_sb sb = tc_sb_make(arena);
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i], next = i + 1 < text.size ? text.data[i + 1] : 0;
    if (c != '\\' || !next) {
      tc_sb_putc(&sb, c);
      continue;
    }
    i++;
    if (next == 'f') tc_sb_putz(&sb, "\\x0c");
    else if (next == 'v') tc_sb_putz(&sb, "\\x0b");
    else if (next == '\'') tc_sb_putc(&sb, next);
    else tc_sb_putc(&sb, c), tc_sb_putc(&sb, next);
  }
  return tc_sb_view(&sb);
}

tc_status tc_schema_parse(tc_arena *arena, tc_sv text, tc_schema *out) {
  tc_lexer lx;
  *out = (tc_schema){0};
  text = respell_escapes(arena, text); // a copy: tokens are views into it
  tc_lex_init(&lx, arena, TC_SV("schema"), text);
  return parse_schema(&lx, out);
}
