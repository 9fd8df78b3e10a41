// Sets of inputs differ in signs of floating-point elements. The ordinary runs are timed ones: those are never
// recorded.
#include "tcrun/replays.h"

#include <string.h>

enum { SETS = 3, MOST_RECORDS = 1 };

typedef struct set {
  tc_tensor *host, *device, *wanted;
  bool usable; // the program takes it
} set;

static bool has_signs(tc_dtype t) { return tc_dtype_is_float(t) || tc_dtype_is_complex(t); }

// The tensor with other signs: a copy of what lies between its first element and its last.
static tc_status change(tc_context *c, const tc_tensor *t, int32_t which, tc_tensor *out) {
  if (which == 0 || !has_signs(t->dtype) || tc_tensor_numel(t) == 0) {
    *out = tc_tensor_ref(t);
    return TC_OK;
  }
  size_t size = (size_t)tc_dtype_size(t->dtype), real = size / (tc_dtype_is_complex(t->dtype) ? 2 : 1), n = 1;
  for (int32_t d = 0; d < t->rank; d++) n += (size_t)((t->sizes[d] - 1) * t->strides[d]);
  tc_storage *s;
  TC_TRY(tc_storage_create(c->allocator, n * size, &s));
  unsigned char *to = s->data;
  memcpy(to, tc_tensor_data(t), n * size);
  for (size_t i = 0; i < n * size / real; i++)
    if ((i * 2654435761u >> 7) % (size_t)(which + 1) == 0) to[i * real + real - 1] ^= 0x80;
  tc_status status = tc_tensor_view(s, t->dtype, t->rank, t->sizes, t->strides, 0, out);
  tc_storage_unref(s);
  return status;
}

static tc_status fill_set(tc_context *c, run_options *o, const model *m, tc_session *session, const tc_tensor *inputs,
                          int32_t which, set *x) {
  int32_t n = m->graph->inputs.count, n_out = m->graph->outputs.count;
  x->host = TC_NEW_ARRAY(o->arena, tc_tensor, n);
  x->device = TC_NEW_ARRAY(o->arena, tc_tensor, n);
  x->wanted = TC_NEW_ARRAY(o->arena, tc_tensor, n_out);
  for (int32_t i = 0; i < n; i++) {
    const tc_value *v = m->graph->inputs.data[i].value;
    if (!inputs[i].storage) continue;
    TC_TRY(change(c, &inputs[i], which, &x->host[i]));
    if (c->device && v && v->kind == TC_VALUE_TENSOR)
      TC_TRY(tc_tensor_to_device(c->device, &x->host[i], &x->device[i]));
    else x->device[i] = tc_tensor_ref(&x->host[i]);
  }
  tc_launch_record record[MOST_RECORDS];
  tc_run_report report = {.launches = record, .capacity = MOST_RECORDS};
  tc_status s =
      tc_session_run(session, x->host, x->wanted, &(tc_session_run_options){.seed = o->seed, .report = &report});
  x->usable = s == TC_OK;
  if (which == 0) return s;
  tc_status_free(s); // signs may be what a program refuses
  return TC_OK;
}

static tc_status compare(const tc_tensor *a, const tc_tensor *b, int32_t turn, int32_t output) {
  int64_t n = tc_tensor_numel(a);
  bool same = a->rank == b->rank && n == tc_tensor_numel(b) && a->dtype == b->dtype;
  int64_t index[TC_MAX_RANK] = {0}, size = tc_dtype_size(a->dtype);
  for (int64_t i = 0; same && i < n; i++) {
    int64_t x = a->offset, y = b->offset;
    for (int32_t d = 0; d < a->rank; d++) x += index[d] * a->strides[d], y += index[d] * b->strides[d];
    same = memcmp((char *)a->storage->data + x * size, (char *)b->storage->data + y * size, (size_t)size) == 0;
    for (int32_t d = a->rank - 1; d >= 0 && ++index[d] == a->sizes[d]; d--) index[d] = 0;
  }
  if (same) return TC_OK;
  return tc_error(TC_STATUS_MISMATCH, "run %d: output %d is not what an ordinary run gives", turn, output);
}

static tc_status run_turn(run_options *o, const model *m, tc_session *session, const set *x, int32_t turn) {
  int32_t n_out = m->graph->outputs.count;
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, n_out);
  TC_TRY(tc_session_run(session, turn / SETS % 2 ? x->host : x->device, outputs,
                        &(tc_session_run_options){.seed = o->seed}));
  tc_status s = TC_OK;
  for (int32_t i = 0; i < n_out && s == TC_OK; i++)
    if (outputs[i].storage) s = compare(&outputs[i], &x->wanted[i], turn, i);
  tcrun_free_tensors(outputs, n_out);
  return s;
}

tc_status tcrun_check_replays(tc_context *c, run_options *o, const model *m, tc_session *session,
                              const tc_tensor *inputs) {
  set sets[SETS] = {{0}};
  tc_status s = TC_OK;
  for (int32_t i = 0; i < SETS && s == TC_OK; i++) s = fill_set(c, o, m, session, inputs, i, &sets[i]);
  for (int32_t turn = 0; turn < o->replays && s == TC_OK; turn++)
    if (sets[turn % SETS].usable) s = run_turn(o, m, session, &sets[turn % SETS], turn);
  for (int32_t i = 0; i < SETS; i++) {
    if (sets[i].host) tcrun_free_tensors(sets[i].host, m->graph->inputs.count);
    if (sets[i].device) tcrun_free_tensors(sets[i].device, m->graph->inputs.count);
    if (sets[i].wanted) tcrun_free_tensors(sets[i].wanted, m->graph->outputs.count);
  }
  return s;
}
