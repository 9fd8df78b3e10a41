// Ops as words. A record is the op's address, then for each argument its kind and length and what it holds; all of 8
// bytes, so that lists can be read in place. Two records with the same words are the same call.
#include <string.h>

#include "core/api/trace.h"

bool api_grow(tc_context *c, void **data, size_t size, int32_t count, int32_t *capacity, int32_t more) {
  if (count + more <= *capacity) return true;
  int32_t wanted = *capacity ? 2 * *capacity : 32;
  while (wanted < count + more) wanted *= 2;
  void *fresh = tc_alloc(c->allocator, (size_t)wanted * size);
  if (!fresh) return false;
  if (count) memcpy(fresh, *data, (size_t)count * size);
  tc_free(c->allocator, *data);
  *data = fresh;
  *capacity = wanted;
  return true;
}

// ---- operands ----
static bool same_view(const tc_tensor *a, const tc_tensor *b) {
  size_t bytes = (size_t)a->rank * sizeof *a->sizes;
  return a->storage == b->storage && a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset &&
         a->conj == b->conj && a->neg == b->neg && memcmp(a->sizes, b->sizes, bytes) == 0 &&
         memcmp(a->strides, b->strides, bytes) == 0;
}

// The number of an input of the segment; it becomes one if it is none.
static tc_status input_number(api_trace *t, tc_tensor *x, int64_t *out) {
  trace_segment *s = trace_now(t);
  for (int32_t i = 0; i < s->n_inputs; i++) {
    const tc_tensor *have = &t->inputs.data[s->input + i];
    if (!have->storage || (t->handles.data[s->input + i] != x && !same_view(have, x))) continue;
    *out = TRACE_INPUT(i);
    return TC_OK;
  }
  if (!api_reserve(t->context, &t->handles, 1) || !api_push(t->context, &t->inputs, *x))
    return tc_error_out_of_memory();
  t->handles.data[t->handles.count++] = tc_retain(x);
  *out = TRACE_INPUT(s->n_inputs++);
  return TC_OK;
}

tc_status trace_operand(api_trace *t, tc_tensor *x, int64_t *out) {
  *out = TRACE_ABSENT;
  if (!x) return TC_OK;
  const api_tensor *a = api_of(x);
  if (a->trace && a->trace != t)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a tensor that another function has recorded is used");
  if (a->trace && a->slot >= trace_now(t)->slot) {
    *out = a->slot - trace_now(t)->slot;
    return TC_OK;
  }
  if (a->trace) {
    trace_want(t, x);
    if (!x->storage) TC_TRY(trace_compute(t, x));
  }
  if (!x->storage) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a tensor that was recorded and never computed is used");
  return input_number(t, x, out);
}

// ---- words ----
static int32_t payload_words(const tc_argument *a) {
  switch (a->kind) {
  case TC_ARGUMENT_NONE: return 0;
  case TC_ARGUMENT_TENSORS:
  case TC_ARGUMENT_INTS:
  case TC_ARGUMENT_REALS: return a->n;
  case TC_ARGUMENT_BOOLS: return (a->n + 7) / 8;
  case TC_ARGUMENT_TEXT: return (int32_t)(strlen(a->v.text) / 8 + 1);
  case TC_ARGUMENT_REAL:
  case TC_ARGUMENT_COMPLEX: return 2;
  default: return 1;
  }
}

// The integers at `word` as the op takes them.
static tc_status take_ints(api_trace *t, const char *here, const tc_op *op, int32_t arg, int32_t n, uint64_t *word) {
  for (int32_t i = 0; i < n; i++) {
    int64_t v = (int64_t)word[i];
    TC_TRY(trace_take_int(t, here, op, arg, &v));
    word[i] = (uint64_t)v;
  }
  return TC_OK;
}

static tc_status encode_argument(api_trace *t, const char *here, const tc_op *op, int32_t arg, const tc_argument *a) {
  if (a->n < 0 || a->n > 1 << 20) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a list of %d elements", a->n);
  int32_t n = payload_words(a);
  if (!api_reserve(t->context, &t->words, n + 1)) return tc_error_out_of_memory();
  uint64_t *word = t->words.data + t->words.count;
  word[0] = (uint64_t)(uint32_t)a->kind | (uint64_t)(uint32_t)n << 32;
  if (a->kind == TC_ARGUMENT_BOOLS) word[0] = (uint64_t)(uint32_t)a->kind | (uint64_t)(uint32_t)a->n << 32;
  t->words.count += n + 1;
  if (n) memset(word + 1, 0, (size_t)n * sizeof *word);
  switch (a->kind) {
  case TC_ARGUMENT_NONE: break;
  case TC_ARGUMENT_INTS:
    if (n) memcpy(word + 1, a->v.integers, (size_t)n * sizeof *word);
    return t->numbers.count ? take_ints(t, here, op, arg, n, word + 1) : TC_OK;
  case TC_ARGUMENT_REALS:
    if (n) memcpy(word + 1, a->v.reals, (size_t)n * sizeof *word);
    break;
  case TC_ARGUMENT_BOOLS:
    if (n) memcpy(word + 1, a->v.bools, (size_t)a->n);
    break;
  case TC_ARGUMENT_TEXT: memcpy(word + 1, a->v.text, strlen(a->v.text) + 1); break;
  case TC_ARGUMENT_REAL:
  case TC_ARGUMENT_COMPLEX: memcpy(word + 1, a->v.parts, sizeof a->v.parts); break;
  case TC_ARGUMENT_TENSOR:
  case TC_ARGUMENT_TENSORS: {
    int32_t at = t->words.count - n;
    for (int32_t k = 0; k < n; k++) {
      int64_t ref;
      TC_TRY(trace_operand(t, a->kind == TC_ARGUMENT_TENSOR ? a->v.tensor : a->v.tensors[k], &ref));
      memcpy(&t->words.data[at + k], &ref, sizeof ref);
    }
    break;
  }
  default:
    memcpy(word + 1, &a->v.integer, sizeof a->v.integer);
    if (t->numbers.count && a->kind == TC_ARGUMENT_INT) return take_ints(t, here, op, arg, 1, word + 1);
  }
  return TC_OK;
}

tc_status trace_encode(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args) {
  if (n_args > op->schema.n_args)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given", TC_SV_ARG(op->full_name),
                    op->schema.n_args, n_args);
  trace_record r = {.op = op, .here = here, .word = t->words.count, .n_args = n_args, .slot = t->slots.count};
  if (!api_push(t->context, &t->words, (uint64_t)(uintptr_t)op)) return tc_error_out_of_memory();
  for (int32_t i = 0; i < n_args; i++) {
    tc_status s = encode_argument(t, here, op, i, &args[i]);
    if (s != TC_OK) {
      t->words.count = r.word;
      return s;
    }
    r.writes |= op->schema.args[i].writes;
  }
  r.n_words = t->words.count - r.word;
  r.inputs = trace_now(t)->n_inputs;
  if (!api_push(t->context, &t->records, r)) {
    t->words.count = r.word;
    return tc_error_out_of_memory();
  }
  trace_now(t)->n_records++;
  return TC_OK;
}

const uint64_t *trace_read_argument(const uint64_t *word, tc_argument *out, const int64_t **refs) {
  int32_t n = (int32_t)(word[0] >> 32);
  *out = (tc_argument){.kind = (int32_t)(uint32_t)word[0]};
  *refs = (const int64_t *)(const void *)(word + 1);
  switch (out->kind) {
  case TC_ARGUMENT_NONE: return word + 1;
  case TC_ARGUMENT_TENSOR: return word + 2;
  case TC_ARGUMENT_TENSORS: out->n = n; return word + 1 + n;
  case TC_ARGUMENT_INTS: out->n = n, out->v.integers = *refs; return word + 1 + n;
  case TC_ARGUMENT_REALS: out->n = n, out->v.reals = (const double *)(const void *)(word + 1); return word + 1 + n;
  case TC_ARGUMENT_BOOLS:
    out->n = n, out->v.bools = (const uint8_t *)(const void *)(word + 1);
    return word + 1 + (n + 7) / 8;
  case TC_ARGUMENT_TEXT: out->v.text = (const char *)(const void *)(word + 1); return word + 1 + n;
  case TC_ARGUMENT_REAL:
  case TC_ARGUMENT_COMPLEX: memcpy(out->v.parts, word + 1, sizeof out->v.parts); return word + 3;
  default: out->v.integer = **refs; return word + 2;
  }
}

static tc_tensor *handle_of(const api_trace *t, const trace_segment *s, int64_t ref) {
  if (ref >= 0) return t->slots.data[s->slot + ref].handle;
  return ref == TRACE_ABSENT ? NULL : t->handles.data[s->input + TRACE_INPUT(ref)];
}

tc_status trace_decode(api_trace *t, const trace_segment *s, const trace_record *r) {
  t->args.count = t->tensors.count = 0;
  t->ints.count = 0;
  if (!api_reserve(t->context, &t->args, r->n_args + 1) || !api_reserve(t->context, &t->tensors, r->n_words) ||
      !api_reserve(t->context, &t->ints, r->n_words))
    return tc_error_out_of_memory();
  const uint64_t *word = &t->words.data[r->word + 1];
  for (int32_t i = 0; i < r->n_args; i++) {
    tc_argument *a = &t->args.data[t->args.count++];
    const int64_t *refs;
    word = trace_read_argument(word, a, &refs);
    if (a->kind == TC_ARGUMENT_TENSOR) a->v.tensor = handle_of(t, s, refs[0]);
    if (a->kind == TC_ARGUMENT_INT) a->v.integer = trace_value_in(t, s, a->v.integer);
    if (a->kind == TC_ARGUMENT_INTS && t->numbers.count) {
      a->v.integers = t->ints.data + t->ints.count;
      for (int32_t k = 0; k < a->n; k++) t->ints.data[t->ints.count++] = trace_value_in(t, s, refs[k]);
    }
    if (a->kind != TC_ARGUMENT_TENSORS) continue;
    a->v.tensors = t->tensors.data + t->tensors.count;
    for (int32_t k = 0; k < a->n; k++) t->tensors.data[t->tensors.count++] = handle_of(t, s, refs[k]);
  }
  return TC_OK;
}
