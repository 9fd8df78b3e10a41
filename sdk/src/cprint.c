// The C-like printer: a plain kernel as source text for a device whose lanes are threads.
//
// Every value is a constant variable v<number>, declared where it is computed; constants and scalar parameters stand in
// place. Values that cross a brace (results of loops, branches and lanes regions) are variables declared in front of
// it. Block scope is run by all threads alike; collectives go through subgroup shuffles and a little shared scratch.
// Nothing is allocated: text goes straight to the writer.
#include "cprint.h"

// ---- Pieces ----

void missing(printer *p, const char *what) {
  if (!p->missing) p->missing = what;
}

void put(printer *p, const char *text) {
  if (!p->missing) p->write(p->self, text, strlen(text));
}
void put_sv(printer *p, tc_sv text) {
  if (!p->missing) p->write(p->self, text.data, text.size);
}
void put_int(printer *p, int64_t v) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)v);
  put(p, text);
}
void put_indent(printer *p) {
  for (int32_t i = 0; i < p->depth; i++) put(p, "  ");
}

tc_dtype type_of(const printer *p, tc_kval v) {
  tc_kvalue value;
  tc_k_value(p->k, v, &value);
  return value.dtype;
}

void put_type(printer *p, tc_dtype t) {
  const char *name = t > 0 && t < TC_DTYPE_COUNT ? p->d->type_names[t] : NULL;
  if (name) put(p, name);
  else missing(p, "a type that the device does not have");
}

static void put_identifier(printer *p, tc_sv name) {
  for (size_t i = 0; i < name.size; i++) {
    char c = name.data[i];
    bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    char text[2] = {fine ? c : '_', 0};
    put(p, text);
  }
}

static void def_of(const printer *p, tc_kval v, tc_kinst *out) {
  tc_kvalue value;
  tc_k_value(p->k, v, &value);
  *out = (tc_kinst){.op = -1, .mem = -1};
  if (value.inst >= 0) tc_k_inst(p->k, value.inst, out);
}

bool is_in_place(const printer *p, tc_kval v) {
  tc_kinst in;
  def_of(p, v, &in);
  return in.op == TC_K_CONST || in.op == TC_K_SCALAR;
}

// Memory names are made unique by their number; so are scalars. Source that somebody wrote has them as they are.
void put_mem(printer *p, tc_kmem m) {
  tc_kmem_info info;
  tc_k_mem(p->k, m, &info);
  if (p->given) {
    put_identifier(p, info.name);
    return;
  }
  put(p, "m");
  put_int(p, m);
  put(p, "_");
  put_identifier(p, info.name);
}

static void put_scalar(printer *p, int32_t s) {
  tc_kscalar_info info;
  tc_k_scalar(p->k, s, &info);
  if (p->given) {
    put_identifier(p, info.name);
    return;
  }
  put(p, "s");
  put_int(p, s);
  put(p, "_");
  put_identifier(p, info.name);
}

// The result of a loop is the variable that it carries.
void put_name(printer *p, tc_kval v) {
  tc_kvalue value;
  tc_kinst in;
  def_of(p, v, &in);
  while (in.op == TC_K_FOR) {
    tc_kregion g;
    tc_k_value(p->k, v, &value);
    tc_k_region(p->k, in.regions[0], &g);
    v = g.params[1 + value.result];
    def_of(p, v, &in);
  }
  put(p, "v");
  put_int(p, v);
}

void put_value(printer *p, tc_kval v) {
  tc_kinst in;
  def_of(p, v, &in);
  if (in.op == TC_K_CONST) put_literal(p, type_of(p, v), in.imm, in.fimm);
  else if (in.op == TC_K_SCALAR) put_scalar(p, (int32_t)in.imm);
  else put_name(p, v);
}

void put_operand(printer *p, operand o) {
  if (o.text) put(p, o.text);
  else put_value(p, o.value);
}

void put_format(printer *p, const char *format, int32_t n, const operand *args) {
  for (const char *c = format; *c;) {
    if (c[0] == '$' && c[1] >= '0' && c[1] < '0' + n) {
      put_operand(p, args[c[1] - '0']);
      c += 2;
      continue;
    }
    size_t run = 1;
    while (c[run] && c[run] != '$') run++;
    put_sv(p, (tc_sv){c, run});
    c += run;
  }
}

int32_t size_of(tc_dtype t) {
  switch (t) {
#define X(name, number, text, bytes, cls, torch) \
  case TC_##name: return bytes;
    TC_DTYPE_LIST(X)
#undef X
  default: return 1;
  }
}

void declare(printer *p, tc_kval v, bool constant) {
  put_indent(p);
  if (constant) put(p, "const ");
  put_type(p, type_of(p, v));
  put(p, " ");
  put_name(p, v);
}

void put_barrier(printer *p) {
  put_indent(p);
  put(p, p->d->barrier);
  put(p, "\n");
}

void put_scratch_name(printer *p, tc_dtype t) {
  put(p, "scratch");
  put_int(p, t);
}

// Lanes that shuffles can combine at once; 1 if they cannot be used.
int32_t subgroup_of(const printer *p) {
  int32_t lanes = tc_k_lanes(p->k), s = p->d->subgroup;
  if (!p->d->shuffle_xor || s < 2) return 1;
  if (lanes <= s) return (lanes & (lanes - 1)) == 0 ? lanes : 1;
  return lanes % s == 0 ? s : 1;
}

static bool uses_scratch(const tc_kinst *in) { return in->op >= TC_K_REDUCE_ADD && in->op <= TC_K_BROADCAST; }

// ---- Structure ----

static void put_region(printer *p, int32_t region);

static void yield_of(const printer *p, int32_t region, tc_kinst *out) {
  tc_kregion g;
  tc_k_region(p->k, region, &g);
  tc_k_inst(p->k, g.insts[g.n_insts - 1], out);
}

static void assign(printer *p, tc_kval to, tc_kval from) {
  put_indent(p);
  put_name(p, to);
  put(p, " = ");
  put_value(p, from);
  put(p, ";\n");
}

// Is the yielded value a carried variable that an earlier assignment overwrites?
static bool overwritten(const tc_kregion *g, const tc_kinst *y, int32_t i) {
  for (int32_t j = 0; j < i; j++)
    if (g->params[1 + j] == y->args[i]) return true;
  return false;
}

static void put_next(printer *p, const tc_kregion *g, const tc_kinst *y) {
  int32_t first = p->next;
  char text[32];
  for (int32_t i = 0; i < y->n_args; i++) {
    if (!overwritten(g, y, i)) continue;
    snprintf(text, sizeof text, " t%d = ", (int)(first + i));
    put_indent(p);
    put(p, "const ");
    put_type(p, type_of(p, y->args[i]));
    put(p, text);
    put_value(p, y->args[i]);
    put(p, ";\n");
  }
  p->next += y->n_args;
  for (int32_t i = 0; i < y->n_args; i++) {
    if (g->params[1 + i] == y->args[i]) continue;
    if (!overwritten(g, y, i)) {
      assign(p, g->params[1 + i], y->args[i]);
      continue;
    }
    put_indent(p);
    put_name(p, g->params[1 + i]);
    snprintf(text, sizeof text, " = t%d;\n", (int)(first + i));
    put(p, text);
  }
}

static void put_for(printer *p, const tc_kinst *in) {
  tc_kregion g;
  tc_kinst y;
  tc_k_region(p->k, in->regions[0], &g);
  yield_of(p, in->regions[0], &y);
  for (int32_t i = 0; i < in->n_results; i++) {
    declare(p, g.params[1 + i], false);
    put(p, " = ");
    put_value(p, in->args[2 + i]);
    put(p, ";\n");
  }
  if (in->flags & TC_KI_UNROLL && p->d->unroll) {
    put_indent(p);
    put(p, p->d->unroll);
    put(p, "\n");
  }
  put_indent(p);
  put(p, "for (");
  put_type(p, type_of(p, g.params[0]));
  put(p, " ");
  put_name(p, g.params[0]);
  put(p, " = ");
  put_value(p, in->args[0]);
  put(p, "; ");
  put_name(p, g.params[0]);
  put(p, " < ");
  put_value(p, in->args[1]);
  put(p, "; ");
  put_name(p, g.params[0]);
  put(p, " += ");
  put_int(p, in->imm);
  put(p, ") {\n");
  p->depth++;
  put_region(p, in->regions[0]);
  put_next(p, &g, &y);
  p->depth--;
  put_indent(p);
  put(p, "}\n");
}

// Branches and lanes regions: results are variables in front of the braces.
static void put_braces(printer *p, const tc_kinst *in) {
  tc_kinst y;
  for (int32_t i = 0; i < in->n_results; i++) {
    declare(p, in->results[i], false);
    put(p, ";\n");
  }
  put_indent(p);
  if (in->op == TC_K_IF) {
    put(p, "if (");
    put_value(p, in->args[0]);
    put(p, ") ");
  }
  for (int32_t r = 0; r < in->n_regions; r++) {
    tc_kregion g;
    tc_k_region(p->k, in->regions[r], &g);
    if (r == 1 && g.n_insts == 1 && !in->n_results) break;
    put(p, r == 1 ? " else {\n" : "{\n");
    yield_of(p, in->regions[r], &y);
    p->depth++;
    put_region(p, in->regions[r]);
    for (int32_t i = 0; i < in->n_results; i++) assign(p, in->results[i], y.args[i]);
    p->depth--;
    put_indent(p);
    put(p, "}");
  }
  put(p, "\n");
}

static void put_check(printer *p, const tc_kinst *in) {
  if (!p->d->check || !p->d->errors) {
    missing(p, "check");
    return;
  }
  char site[32];
  snprintf(site, sizeof site, "%lld", (long long)in->imm);
  put_indent(p);
  put_format(p, p->d->check, 2, (operand[]){{.value = in->args[0]}, {.text = site}});
  put(p, "\n");
}

static void put_mma(printer *p, const tc_kinst *in) {
  const char *function = in->op == TC_K_MMA_BF16 ? p->d->mma_bf16 : p->d->mma_f16;
  if (!function) {
    missing(p, tc_k_op_text(in->op));
    return;
  }
  for (int32_t i = 0; i < in->n_results; i++) {
    declare(p, in->results[i], false);
    put(p, ";\n");
  }
  put_indent(p);
  put(p, function);
  for (int32_t i = 0; i < in->n_results + in->n_args; i++) {
    put(p, i ? ", " : "(");
    if (i < in->n_results) put_name(p, in->results[i]);
    else put_value(p, in->args[i - in->n_results]);
  }
  put(p, ");\n");
}

static void put_inst(printer *p, int32_t inst) {
  tc_kinst in;
  tc_k_inst(p->k, inst, &in);
  switch (in.op) {
  case TC_K_CONST:
  case TC_K_SCALAR:
  case TC_K_YIELD: return;
  case TC_K_PREFETCH: put_prefetch(p, &in); return;
  case TC_K_LOAD: put_load(p, &in); return;
  case TC_K_STORE: put_store(p, &in); return;
  case TC_K_ATOMIC_ADD: put_atomic(p, &in); return;
  case TC_K_CHECK: put_check(p, &in); return;
  case TC_K_MMA_BF16:
  case TC_K_MMA_F16: put_mma(p, &in); return;
  case TC_K_FOR: put_for(p, &in); return;
  case TC_K_IF:
  case TC_K_LANES: put_braces(p, &in); return;
  case TC_K_BARRIER: put_barrier(p); return;
  default: break;
  }
  if (uses_scratch(&in)) {
    put_collective(p, &in);
    return;
  }
  declare(p, in.results[0], true);
  put(p, " = ");
  put_pure(p, &in);
  put(p, ";\n");
}

void put_members(printer *p, const tc_kregion *g, int32_t group, int32_t until) {
  for (int32_t i = 0; i < until && !p->missing; i++)
    if (lazy_group(p, g->insts[i]) == group && !put_lazy(p, g, i)) put_inst(p, g->insts[i]);
}

static void put_region(printer *p, int32_t region) {
  tc_kregion g;
  tc_k_region(p->k, region, &g);
  put_members(p, &g, -1, g.n_insts);
}

// ---- The kernel ----

static void put_qualified(printer *p, const char *qualifier) {
  if (!qualifier) return;
  put(p, qualifier);
  put(p, " ");
}

static void put_table(printer *p, tc_kmem m, const tc_kmem_info *info) {
  put_qualified(p, p->d->table ? p->d->table : "static const");
  put_type(p, info->dtype);
  put(p, " ");
  put_mem(p, m);
  put(p, "[");
  put_int(p, info->count);
  put(p, "]");
  if (p->d->alignment) {
    put(p, " ");
    put(p, p->d->alignment);
  }
  if (p->d->table_load) {
    put(p, " = {1}; // its numbers are put into the object\n");
    return;
  }
  put(p, " = {");
  for (int64_t i = 0; i < info->count; i++) {
    if (i) put(p, i % 8 ? ", " : ",\n    ");
    const char *at = (const char *)info->data + i * size_of(info->dtype);
    float f;
    double d = 0;
    int64_t v = 0;
    switch (info->dtype) {
    case TC_F32: memcpy(&f, at, 4), d = f; break;
    case TC_F64: memcpy(&d, at, 8); break;
    case TC_I64:
    case TC_U64: memcpy(&v, at, 8); break;
    case TC_I32: {
      int32_t x;
      memcpy(&x, at, 4), v = x;
      break;
    }
    case TC_U32: {
      uint32_t x;
      memcpy(&x, at, 4), v = x;
      break;
    }
    case TC_I16: {
      int16_t x;
      memcpy(&x, at, 2), v = x;
      break;
    }
    case TC_U16: {
      uint16_t x;
      memcpy(&x, at, 2), v = x;
      break;
    }
    case TC_I8: v = (int8_t)*at; break;
    case TC_U8:
    case TC_BOOL: v = (uint8_t)*at; break;
    default: missing(p, "tables of 16-bit floats"); // their storage differs between dialects
    }
    put_literal(p, info->dtype, v, d);
  }
  put(p, "};\n");
}

static void put_array(printer *p, const char *qualifier, tc_kmem m, const tc_kmem_info *info) {
  put_indent(p);
  put_qualified(p, qualifier);
  put_type(p, info->dtype);
  put(p, " ");
  put_mem(p, m);
  put(p, "[");
  put_int(p, info->count);
  put(p, "]");
  if (p->d->alignment && info->space == TC_SPACE_SHARED) {
    put(p, " ");
    put(p, p->d->alignment);
  }
  put(p, ";\n");
}

int64_t tc_cprint_dynamic_shared(const tc_kernel *k, const tc_cdialect *dialect) {
  bool dynamic =
      dialect->shared_dynamic && dialect->shared_static_bytes && shared_bytes(k) > dialect->shared_static_bytes;
  return dynamic ? shared_offset(k, tc_k_mem_count(k)) : 0;
}

static void put_shared(printer *p) {
  bool dynamic = tc_cprint_dynamic_shared(p->k, p->d) > 0;
  tc_kmem_info info;
  if (dynamic) {
    put_indent(p);
    put(p, p->d->shared_dynamic);
    put(p, "\n");
  }
  for (tc_kmem m = 0; m < tc_k_mem_count(p->k); m++) {
    tc_k_mem(p->k, m, &info);
    if (info.space != TC_SPACE_SHARED) continue;
    if (!dynamic) {
      put_array(p, p->d->shared, m, &info);
      continue;
    }
    put_indent(p);
    put_type(p, info.dtype);
    put(p, " *const ");
    put_mem(p, m);
    put(p, " = (");
    put_type(p, info.dtype);
    put(p, " *)(tc_shared + ");
    put_int(p, shared_offset(p->k, m));
    put(p, ");\n");
  }
}

static void put_separator(printer *p) {
  if (p->n_params++) put(p, ", ");
}

static void put_global_type(printer *p, const tc_kmem_info *m) {
  put_qualified(p, p->d->global);
  if (m->flags & TC_MEM_READONLY) put(p, "const ");
  put_type(p, m->dtype);
  put(p, " *");
}

static void put_param(printer *p, int32_t i) {
  tc_kparam param;
  tc_k_param(p->k, i, &param);
  put_separator(p);
  if (param.is_scalar) {
    tc_kscalar_info s;
    tc_k_scalar(p->k, param.index, &s);
    put(p, "const ");
    put_type(p, s.dtype);
    put(p, " ");
    put_scalar(p, param.index);
    return;
  }
  tc_kmem_info m;
  tc_k_mem(p->k, param.index, &m);
  put_global_type(p, &m);
  if (m.flags & TC_MEM_NOALIAS && p->d->restrict_) {
    put(p, p->d->restrict_);
    put(p, " ");
  }
  put_mem(p, param.index);
  if (!p->d->pass_offsets) return;
  put(p, "_base, const ");
  put_type(p, TC_I64);
  put(p, " ");
  put_mem(p, param.index);
  put(p, "_offset");
}

// With offsets, the address of element 0.
static void put_base(printer *p, int32_t i) {
  tc_kparam param;
  tc_k_param(p->k, i, &param);
  if (param.is_scalar) return;
  tc_kmem_info m;
  tc_k_mem(p->k, param.index, &m);
  put_indent(p);
  put_global_type(p, &m);
  put_mem(p, param.index);
  put(p, " = (");
  put_global_type(p, &m);
  put(p, ")((");
  put_qualified(p, p->d->global);
  put(p, m.flags & TC_MEM_READONLY ? "const char *)" : "char *)");
  put_mem(p, param.index);
  put(p, "_base + ");
  put_mem(p, param.index);
  put(p, "_offset);\n");
}

// Shared scratch of collectives, one array per type that is reduced.
static void put_scratch(printer *p) {
  int32_t room[TC_DTYPE_COUNT] = {0}, lanes = tc_k_lanes(p->k), group = subgroup_of(p);
  for (int32_t i = 0; i < tc_k_inst_count(p->k); i++) {
    tc_kinst in;
    tc_k_inst(p->k, i, &in);
    if (!uses_scratch(&in)) continue;
    tc_dtype t = type_of(p, in.results[0]);
    int32_t need = in.op == TC_K_BROADCAST ? 1 : size_of(t) < 4 ? lanes : lanes / group;
    if (need > room[t]) room[t] = need;
  }
  for (tc_dtype t = 1; t < TC_DTYPE_COUNT; t++) {
    if (!room[t]) continue;
    put_indent(p);
    put_qualified(p, p->d->shared);
    put_type(p, t);
    put(p, " ");
    put_scratch_name(p, t);
    put(p, "[");
    put_int(p, room[t]);
    put(p, "];\n");
  }
}

static void put_kernel_name(printer *p) {
  if (p->d->name_prefix) put(p, p->d->name_prefix);
  put_identifier(p, tc_k_name(p->k));
}

void tc_cprint_name(const tc_kernel *k, const tc_cdialect *dialect, tc_write_fn write, void *self) {
  put_kernel_name(&(printer){.k = k, .d = dialect, .write = write, .self = self});
}

int64_t tc_cprint_memory(const tc_kernel *k, tc_kmem m, tc_write_fn write, void *self) {
  tc_kmem_info info;
  tc_k_mem(k, m, &info);
  put_mem(&(printer){.k = k, .write = write, .self = self}, m);
  return info.count > 0 ? info.count * size_of(info.dtype) : 0;
}

// ---- Source that somebody wrote ----
static bool is_language(const tc_cdialect *d, tc_sv language) {
  return d->language && strlen(d->language) == language.size && memcmp(d->language, language.data, language.size) == 0;
}

// Types of what parameters point to, then the declarations that come with the source.
static void put_declarations(printer *p, const tc_ksource *source) {
  for (tc_kmem i = 0; i < tc_k_mem_count(p->k); i++) {
    tc_kmem_info m;
    tc_k_mem(p->k, i, &m);
    put(p, "typedef ");
    put_type(p, m.dtype);
    put(p, " ");
    put_mem(p, i);
    put(p, "_t;\n");
  }
  put_sv(p, source->declarations);
  put(p, "\n");
}

static void put_given_body(printer *p, const tc_ksource *source) {
  put(p, "  const int block = ");
  put(p, p->d->block);
  put(p, ", lane = ");
  put(p, p->d->lane);
  put(p, ", lanes = ");
  put_int(p, tc_k_lanes(p->k));
  put(p, ";\n  (void)block, (void)lane, (void)lanes;\n");
  put_sv(p, source->body);
  put(p, "\n");
}

static int32_t refused(const printer *p, tc_sv *out_reason) {
  if (out_reason) *out_reason = (tc_sv){p->missing, strlen(p->missing)};
  return TC_STATUS_UNIMPLEMENTED;
}

int32_t tc_cprint(const tc_kernel *k, const tc_cdialect *dialect, tc_write_fn write, void *self, tc_sv *out_reason) {
  printer printer_ = {.k = k, .d = dialect, .write = write, .self = self}, *p = &printer_;
  char bounds[128];
  tc_ksource source;
  p->given = tc_k_source(k, &source) != 0;
  if (p->given && !is_language(dialect, source.language)) missing(p, "source in another language");
  if (tc_k_later_op(k) >= 0) {
    missing(p, "an opcode of a later version");
    return refused(p, out_reason);
  }
  if (dialect->prologue) put(p, dialect->prologue);
  for (size_t i = 0; i < sizeof dialect->more / sizeof *dialect->more; i++)
    if (dialect->more[i]) put(p, dialect->more[i]);
  tc_kmem_info m;
  if (p->given) put_declarations(p, &source);
  for (tc_kmem i = 0; i < tc_k_mem_count(k); i++) {
    tc_k_mem(k, i, &m);
    if (m.space == TC_SPACE_TABLE) put_table(p, i, &m);
  }
  put(p, dialect->kernel_prefix);
  put(p, " ");
  if (dialect->kernel_bounds) {
    snprintf(bounds, sizeof bounds, dialect->kernel_bounds, (int)tc_k_lanes(k));
    put(p, bounds);
    put(p, " ");
  }
  put_kernel_name(p);
  put(p, "(");
  for (int32_t i = 0; i < tc_k_param_count(k); i++) put_param(p, i);
  if (dialect->errors) {
    put_separator(p);
    put(p, dialect->errors);
  }
  put(p, ") {\n");
  p->depth = 1;
  if (dialect->start) {
    put_indent(p);
    put(p, dialect->start);
    put(p, "\n");
  }
  for (int32_t i = 0; i < tc_k_param_count(k) && dialect->pass_offsets; i++) put_base(p, i);
  for (tc_kmem i = 0; i < tc_k_mem_count(k); i++) {
    tc_k_mem(k, i, &m);
    if (m.space == TC_SPACE_LANE) put_array(p, NULL, i, &m);
  }
  put_shared(p);
  put_scratch(p);
  if (p->given) put_given_body(p, &source);
  else {
    lazies_find(p);
    put_region(p, tc_k_body(k));
    lazies_free(p);
  }
  put(p, "}\n");
  return p->missing ? refused(p, out_reason) : TC_STATUS_OK;
}
