// Control flow: the arguments of its ops, by a table of their forms.
#include "core/ir/control.h"

// g: a region; c, x, a: lists of carried, scanned and further operands; v: the predicate; r: in which order.
static const struct {
  const char *name, *form;
  int32_t control;
} forms[] = {{"higher_order::cond", "vgga", TC_CONTROL_COND},
             {"higher_order::while_loop", "ggca", TC_CONTROL_WHILE},
             {"higher_order::scan", "gcxar", TC_CONTROL_SCAN},
             {"higher_order::map_impl", "gxa", TC_CONTROL_MAP},
             {"higher_order::associative_scan", "gxa", TC_CONTROL_ASSOCIATIVE}};

static int32_t form_of(const tc_op *op) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (tc_sv_is(op->full_name, forms[i].name)) return (int32_t)i;
  return -1;
}

int32_t tc_op_control(const tc_op *op) {
  int32_t form = form_of(op);
  return form < 0 ? TC_CONTROL_NONE : forms[form].control;
}

// The step and the finaliser of SplitMix64 (Steele, Lea, Flood 2014), so that turns of loops in loops stay apart, too.
uint64_t tc_turn_seed(uint64_t seed, int64_t turn) {
  uint64_t z = seed + ((uint64_t)turn + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

bool tc_op_is_grad(const tc_op *op) { return tc_sv_is(op->full_name, "higher_order::grad"); }

static tc_status bad_form(const tc_op *op, int32_t i) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": argument %d is not what it should be",
                  TC_SV_ARG(op->full_name), i);
}

static tc_status add_operands(tc_control *c, const tc_op *op, int32_t i, const tc_arg *g) {
  // what is no list is a list of one; an empty list may have come as a list of numbers
  int32_t n = g->kind == TC_AK_TENSORS ? g->n : g->kind == TC_AK_TENSOR ? 1 : 0;
  if (n == 0 && g->kind != TC_AK_TENSORS && g->kind != TC_AK_NONE && g->n > 0) return bad_form(op, i);
  for (int32_t k = 0; k < n; k++) {
    tc_value *v = g->kind == TC_AK_TENSOR ? g->value : g->values[k];
    if (!v || v->kind != TC_VALUE_TENSOR)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": operand %d is no tensor", TC_SV_ARG(op->full_name), k);
    c->operands[c->n_operands++] = v;
  }
  return TC_OK;
}

static tc_status check_counts(const tc_control *c, const tc_op *op) {
  int32_t takes = c->kind == TC_CONTROL_ASSOCIATIVE ? c->n_operands + c->n_xs : c->n_operands,
          gives = tc_control_body(c)->outputs.count, least = c->n_carry;
  for (int32_t i = 0; i < c->n_regions; i++)
    if (c->regions[i]->inputs.count != takes)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": a region of %d inputs gets %d operands",
                      TC_SV_ARG(op->full_name), c->regions[i]->inputs.count, takes);
  if (c->kind == TC_CONTROL_COND && c->regions[1]->outputs.count != gives)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "one branch gives %d results, the other %d", gives,
                    c->regions[1]->outputs.count);
  if (c->kind == TC_CONTROL_WHILE && c->regions[0]->outputs.count != 1)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a loop's condition gives %d results", c->regions[0]->outputs.count);
  if (c->kind == TC_CONTROL_ASSOCIATIVE) least = c->n_xs;
  bool exact = c->kind == TC_CONTROL_WHILE || c->kind == TC_CONTROL_ASSOCIATIVE;
  if (gives < least || (exact && gives != least))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a loop carries %d tensors, its body gives %d", least, gives);
  bool scans = c->kind != TC_CONTROL_COND && c->kind != TC_CONTROL_WHILE;
  if (scans && c->n_xs == 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over nothing");
  return TC_OK;
}

tc_status tc_control_read(tc_arena *arena, const tc_op *op, int32_t n_args, const tc_arg *args, tc_control *out) {
  int32_t form = form_of(op), room = 0;
  if (form < 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " is no control flow", TC_SV_ARG(op->full_name));
  *out = (tc_control){.kind = forms[form].control};
  for (int32_t i = 0; i < n_args; i++) room += args[i].kind == TC_AK_TENSORS ? args[i].n : 1;
  out->operands = TC_NEW_ARRAY(arena, tc_value *, room);
  const char *z = forms[form].form;
  for (int32_t i = 0; z[i]; i++) {
    bool region = z[i] == 'g';
    if (i >= n_args && (z[i] == 'a' || z[i] == 'r')) break; // old programs leave the empty list out
    if (i >= n_args || (args[i].kind == TC_AK_GRAPH && args[i].graph) != region) return bad_form(op, i);
    if (region) out->regions[out->n_regions++] = args[i].graph;
    else if (z[i] == 'v') out->predicate = &args[i];
    else if (z[i] == 'r' && (args[i].kind != TC_AK_BOOL || args[i].value)) return bad_form(op, i);
    else if (z[i] == 'r') out->reverse = args[i].integer != 0;
    else TC_TRY(add_operands(out, op, i, &args[i]));
    if (z[i] == 'c') out->n_carry = out->n_operands;
    if (z[i] == 'x') out->n_xs = out->n_operands - out->n_carry;
  }
  return check_counts(out, op);
}
