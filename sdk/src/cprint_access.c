// Loads, stores, atomics and collectives of the C-like printer.
//
// Several elements become one vector where the dialect has vectors and the address is known to be aligned: by the
// promise of the memory object, and by what divides the index (divisor_of).
// A reduction is a butterfly of shuffles inside each subgroup, then one value per subgroup in shared scratch, which
// every lane combines in the same order; without shuffles, or for values that they do not carry, scratch holds every
// lane's, which are combined by halves where their number is a power of two. Where only a running kernel knows how many
// lanes a subgroup has, the butterfly is a loop.
#include "cprint.h"

// ---- Memory ----

// May the access be one vector?
static bool is_vector(const printer *p, const tc_kinst *in) {
  tc_kmem_info m;
  tc_k_mem(p->k, in->mem, &m);
  int64_t bytes = (int64_t)in->width * size_of(m.dtype);
  if (in->width < 2 || !p->d->vector_load || !p->d->vector_element || bytes > p->d->vector_bytes ||
      (bytes & (bytes - 1)) || m.space == TC_SPACE_LANE)
    return false;
  if (in->op == TC_K_STORE && !p->d->vector_store) return false;
  if (m.space == TC_SPACE_GLOBAL ? m.align < bytes : !p->d->alignment) return false;
  return divisor_of(p, in->args[0], 0) % in->width == 0;
}

static void put_address(printer *p, const tc_kinst *in) {
  put_mem(p, in->mem);
  put(p, " + ");
  put_value(p, in->args[0]);
}

static const char *space_of(const printer *p, const tc_kmem_info *m) {
  return m->space == TC_SPACE_GLOBAL ? p->d->global : m->space == TC_SPACE_SHARED ? p->d->shared : p->d->table;
}

// Formats of vectors: $t type, $w width, $n name, $p address, $q its qualifier, $i element, $v the values.
static void put_vector(printer *p, const char *format, const tc_kinst *in, int32_t name, int32_t element) {
  tc_kmem_info m;
  tc_k_mem(p->k, in->mem, &m);
  for (const char *c = format; *c;) {
    if (c[0] == '$' && c[1]) {
      switch (c[1]) {
      case 't': put_type(p, m.dtype); break;
      case 'w': put_int(p, in->width); break;
      case 'n':
        put(p, "t");
        put_int(p, name);
        break;
      case 'p':
        put_address(p, in);
        if (element) put(p, " + "), put_int(p, element);
        break;
      case 'q': put(p, space_of(p, &m) ? space_of(p, &m) : ""); break;
      case 'i': put_int(p, element); break;
      default:
        for (int32_t i = 0; i < in->width; i++) {
          if (i) put(p, ", ");
          put_value(p, in->args[1 + i]);
        }
      }
      c += 2;
      continue;
    }
    size_t run = 1;
    while (c[run] && c[run] != '$') run++;
    put_sv(p, (tc_sv){c, run});
    c += run;
  }
}

static bool is_blank_table(const printer *p, const tc_kinst *in) {
  tc_kmem_info m;
  tc_k_mem(p->k, in->mem, &m);
  return m.space == TC_SPACE_TABLE && p->d->table_load;
}

static void put_element(printer *p, const tc_kinst *in, int32_t i) {
  if (is_blank_table(p, in)) {
    put_vector(p, p->d->table_load, in, 0, i);
    return;
  }
  put_mem(p, in->mem);
  put(p, "[");
  put_value(p, in->args[0]);
  if (i) {
    put(p, " + ");
    put_int(p, i);
  }
  put(p, "]");
}

void put_load(printer *p, const tc_kinst *in) {
  if (!is_vector(p, in)) {
    for (int32_t i = 0; i < in->width; i++) {
      declare(p, in->results[i], true);
      put(p, " = ");
      if (in->has_mask) {
        put_value(p, in->args[1]);
        put(p, " ? ");
      }
      put_element(p, in, i);
      if (in->has_mask) {
        put(p, " : ");
        put_value(p, in->args[2 + i]);
      }
      put(p, ";\n");
    }
    return;
  }
  for (int32_t i = 0; i < in->width && in->has_mask; i++) {
    declare(p, in->results[i], false);
    put(p, " = ");
    put_value(p, in->args[2 + i]);
    put(p, ";\n");
  }
  int32_t name = p->next++;
  put_indent(p);
  if (in->has_mask) {
    put(p, "if (");
    put_value(p, in->args[1]);
    put(p, ") { ");
  }
  put_vector(p, is_blank_table(p, in) ? p->d->table_vector_load : p->d->vector_load, in, name, 0);
  put(p, ";");
  for (int32_t i = 0; i < in->width; i++) {
    if (!in->has_mask) {
      put(p, "\n");
      declare(p, in->results[i], true);
    } else {
      put(p, " ");
      put_name(p, in->results[i]);
    }
    put(p, " = ");
    put_vector(p, p->d->vector_element, in, name, i);
    put(p, ";");
  }
  put(p, in->has_mask ? " }\n" : "\n");
}

static void open_mask(printer *p, const tc_kinst *in, int32_t mask) {
  put_indent(p);
  if (!in->has_mask) return;
  put(p, "if (");
  put_value(p, in->args[mask]);
  put(p, ") ");
}

void put_store(printer *p, const tc_kinst *in) {
  if (is_vector(p, in)) {
    open_mask(p, in, 1 + in->width);
    put_vector(p, p->d->vector_store, in, p->next++, 0);
    put(p, "\n");
    return;
  }
  for (int32_t i = 0; i < in->width; i++) {
    open_mask(p, in, 1 + in->width);
    put_element(p, in, i);
    put(p, " = ");
    put_value(p, in->args[1 + i]);
    put(p, ";\n");
  }
}

// A statement about an address ($0) of an element type ($t) and, for atomics, a value ($1).
static void put_at_address(printer *p, const char *format, const tc_kinst *in) {
  tc_kmem_info m;
  tc_k_mem(p->k, in->mem, &m);
  for (const char *c = format; *c; c++) {
    if (c[0] == '$' && c[1] == 't') {
      put_type(p, m.dtype);
      c++;
    } else if (c[0] == '$' && c[1] == '0') {
      put(p, "(");
      put_address(p, in);
      put(p, ")");
      c++;
    } else if (c[0] == '$' && c[1] == '1' && in->n_args > 1) {
      put_value(p, in->args[1]);
      c++;
    } else put_sv(p, (tc_sv){c, 1});
  }
  put(p, "\n");
}

void put_atomic(printer *p, const tc_kinst *in) {
  if (!p->d->atomic_add) {
    missing(p, "atomic_add");
    return;
  }
  open_mask(p, in, 2);
  put_at_address(p, p->d->atomic_add, in);
}

void put_prefetch(printer *p, const tc_kinst *in) {
  if (!p->d->prefetch) return;
  put_indent(p);
  put_at_address(p, p->d->prefetch, in);
}

// ---- Collectives ----

static int32_t reduction(int32_t op) {
  static const int32_t by[] = {TC_K_ADD, TC_K_MUL, TC_K_MIN, TC_K_MAX, TC_K_AND, TC_K_OR};
  return by[op - TC_K_REDUCE_ADD];
}

// result = result OP text;
static void put_combine(printer *p, const tc_kinst *in, tc_dtype t, const char *other) {
  char name[32];
  snprintf(name, sizeof name, "v%d", (int)in->results[0]);
  put_indent(p);
  put(p, name);
  put(p, " = ");
  put_op(p, reduction(in->op), 0, t, 2, (operand[]){{.text = name}, {.text = other}});
  put(p, ";\n");
}

static void line(printer *p, const char *before, tc_dtype t, const char *behind) {
  put_indent(p);
  put(p, before);
  put_scratch_name(p, t);
  put(p, behind);
  put(p, "\n");
}

// Every lane's value is in scratch: the lower half of the lanes takes in the upper half, until one is left.
static void put_halves(printer *p, const tc_kinst *in, tc_dtype t, int32_t lanes) {
  char text[128], own[48], other[48];
  put_indent(p);
  snprintf(text, sizeof text, "for (int i = %d; i > 0; i /= 2) {\n", (int)(lanes / 2));
  put(p, text);
  p->depth++;
  put_indent(p);
  snprintf(own, sizeof own, "scratch%d[%.30s]", (int)t, p->d->lane);
  snprintf(other, sizeof other, "scratch%d[%.30s + i]", (int)t, p->d->lane);
  snprintf(text, sizeof text, "if (%.30s < i) %s = ", p->d->lane, own);
  put(p, text);
  put_op(p, reduction(in->op), 0, t, 2, (operand[]){{.text = own}, {.text = other}});
  put(p, ";\n");
  put_barrier(p);
  p->depth--;
  put_indent(p);
  put(p, "}\n");
}

// Combines with the value of the lane at a distance.
static void put_exchange(printer *p, const tc_kinst *in, tc_dtype t, const char *distance) {
  char value[32];
  snprintf(value, sizeof value, "v%d", (int)in->results[0]);
  put_indent(p);
  put(p, "{ const ");
  put_type(p, t);
  put(p, " o = ");
  put_format(p, p->d->shuffle_xor, 2, (operand[]){{.text = value}, {.text = distance}});
  put(p, ";\n");
  p->depth++;
  put_combine(p, in, t, "o");
  p->depth--;
  put_indent(p);
  put(p, "}\n");
}

// Do shuffles go over subgroups whose size only the running kernel knows? Small values go through shared memory.
static bool is_counted(const printer *p, tc_dtype t) {
  int32_t lanes = tc_k_lanes(p->k);
  return !p->d->subgroup && p->d->subgroup_size && p->d->shuffle_xor && size_of(t) >= 4 && lanes > 1 &&
         (lanes & (lanes - 1)) == 0;
}

static void put_counted_subgroups(printer *p, const tc_kinst *in, tc_dtype t) {
  char text[200];
  put_indent(p);
  snprintf(text, sizeof text, "for (int d = (int)%s / 2; d > 0; d /= 2) {\n", p->d->subgroup_size);
  put(p, text);
  p->depth++;
  put_exchange(p, in, t, "d");
  p->depth--;
  put_indent(p);
  put(p, "}\n");
  put_indent(p);
  snprintf(text, sizeof text, "if (%s == 0) scratch%d[%s] = v%d;\n", p->d->subgroup_lane, (int)t, p->d->subgroup_number,
           (int)in->results[0]);
  put(p, text);
  put_barrier(p);
}

void put_collective(printer *p, const tc_kinst *in) {
  tc_dtype t = type_of(p, in->results[0]);
  int32_t lanes = tc_k_lanes(p->k), group = subgroup_of(p);
  char text[128];
  declare(p, in->results[0], false);
  put(p, " = ");
  put_value(p, in->args[0]);
  put(p, ";\n");
  if (in->op == TC_K_BROADCAST) {
    put_indent(p);
    snprintf(text, sizeof text, "if (%s == %lld) ", p->d->lane, (long long)in->imm);
    put(p, text);
    put_scratch_name(p, t);
    snprintf(text, sizeof text, "[0] = v%d;\n", (int)in->results[0]);
    put(p, text);
    put_barrier(p);
    snprintf(text, sizeof text, "v%d = ", (int)in->results[0]);
    line(p, text, t, "[0];");
    put_barrier(p);
    return;
  }
  // Shuffles carry 32- and 64-bit values; small ones go through shared memory alone.
  if (size_of(t) < 4) group = 1;
  for (int32_t offset = group / 2; offset > 0; offset /= 2) {
    snprintf(text, sizeof text, "%d", (int)offset);
    put_exchange(p, in, t, text);
  }
  if (lanes == group) return;
  // One value per subgroup (or lane) in scratch; every lane combines them in the same order.
  bool counted = is_counted(p, t);
  if (counted) {
    put_counted_subgroups(p, in, t);
  } else {
    put_indent(p);
    if (group > 1) {
      snprintf(text, sizeof text, "if (%s %% %d == 0) ", p->d->lane, (int)group);
      put(p, text);
    }
    put_scratch_name(p, t);
    if (group > 1) snprintf(text, sizeof text, "[%s / %d] = v%d;\n", p->d->lane, (int)group, (int)in->results[0]);
    else snprintf(text, sizeof text, "[%s] = v%d;\n", p->d->lane, (int)in->results[0]);
    put(p, text);
    put_barrier(p);
  }
  bool halves = !counted && group == 1 && lanes > 4 && (lanes & (lanes - 1)) == 0;
  if (halves) put_halves(p, in, t, lanes);
  snprintf(text, sizeof text, "v%d = ", (int)in->results[0]);
  line(p, text, t, "[0];");
  if (halves) {
    put_barrier(p);
    return;
  }
  put_indent(p);
  if (counted) snprintf(text, sizeof text, "for (int i = 1; i < (int)%s; i++) {\n", p->d->subgroup_count);
  else snprintf(text, sizeof text, "for (int i = 1; i < %d; i++) {\n", (int)(lanes / group));
  put(p, text);
  p->depth++;
  snprintf(text, sizeof text, "scratch%d[i]", (int)t);
  put_combine(p, in, t, text);
  p->depth--;
  put_indent(p);
  put(p, "}\n");
  put_barrier(p);
}
