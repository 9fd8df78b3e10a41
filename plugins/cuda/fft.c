// Transforms along rows by cuFFT as calls: _fft_c2c, _fft_r2c and _fft_c2r of f32 and f64.
//
// The kernels of the op plugin's template do these, too, and take in what stands before and behind; a call is a
// candidate where candidates are timed, and is not taken by estimates. The config key `fft` takes it wherever it can
// ("cufft") or never ("own"). What it does: one dimension, the last one, of which the elements are neighbours, rows at
// one distance, no factor. All else stays with the template.
//
// A plan has no memory of its own: the runtime's workspace is given to it by each run, together with the stream, under
// a lock, since both are the plan's. Transforms to reals overwrite what they read ("Data Layout" in the reference), so
// that they read a copy; reals that do not lie as complex numbers do, which the library wants, are copied as well.
#include "fft.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "library.h"

enum { CALL_NS = 8000, ALIGN = 256 };
enum { SELF, DIMS, NORM, LAST }; // arguments of the ops; the last is `forward`, `onesided` or the length

// ---- The library ----
static const cuda_symbol symbols[] = {
#define X(field, symbol, params) {symbol, offsetof(cuda_fft, field)},
    FFT_FUNCTIONS(X)
#undef X
};
static const cuda_library_source source = {"cuFFT",        "cufft", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"},
                                           "libcufft.so*", "",      CUDA_SYMBOLS(symbols)};

static int32_t open_library(tc_device_ *d, char *why, size_t why_size) {
  cuda_fft *out = &d->fft;
  int version = 0;
  *out = (cuda_fft){0};
  if (!cuda_library_open(d->host, &source, out, why, why_size)) return TC_STATUS_PLUGIN;
  fft_status code = out->version(&version);
  if (code == 0) snprintf(why, why_size, "%d.%d.%d", version / 1000, version % 1000 / 100, version % 100);
  else snprintf(why, why_size, "cufftGetVersion failed (status %d)", code);
  return code == 0 ? TC_STATUS_OK : TC_STATUS_PLUGIN;
}
int32_t cuda_fft_ready(tc_device_ *d) { return cuda_open_running(d, &d->fft_library, open_library); }

int32_t cuda_fft_wished(const tc_host *h, const char *what) {
  char wish[8];
  return cuda_config(h, "fft", wish, sizeof wish) && strcmp(wish, what) == 0;
}

static int32_t failed(const tc_device_ *d, const char *what, fft_status code) {
  char text[120];
  if (code == 0) return TC_STATUS_OK;
  snprintf(text, sizeof text, "%s failed (status %d)", what, code);
  return cuda_report(d->host,
                     code == FFT_ALLOC_FAILED    ? TC_STATUS_OUT_OF_MEMORY
                     : code == FFT_NOT_SUPPORTED ? TC_STATUS_UNIMPLEMENTED
                                                 : TC_STATUS_DEVICE,
                     text);
}

// ---- A transform ----
typedef struct rows {
  int64_t row, distance; // elements that a transform reads or writes; from one row to the next
  int32_t bytes;         // of an element
} rows;
typedef struct transform {
  int32_t type, direction, wide;
  int64_t length, count; // of a row; rows, of which there may be none
  rows in, out;
} transform;

static int32_t refuse(const char **why, const char *text) {
  *why = text;
  return TC_STATUS_UNIMPLEMENTED;
}

// Type and direction; what the last argument says.
static int32_t read_kind(const tc_call_node *n, transform *x, const char **why) {
  static const struct {
    const char *op;
    tc_dtype in, out;
    int32_t type;
  } kinds[] = {{"aten::_fft_c2c", TC_C64, TC_C64, FFT_C2C}, {"aten::_fft_c2c", TC_C128, TC_C128, FFT_Z2Z},
               {"aten::_fft_r2c", TC_F32, TC_C64, FFT_R2C}, {"aten::_fft_r2c", TC_F64, TC_C128, FFT_D2Z},
               {"aten::_fft_c2r", TC_C64, TC_F32, FFT_C2R}, {"aten::_fft_c2r", TC_C128, TC_F64, FFT_Z2D}};
  bool named = false;
  *x = (transform){.direction = FFT_FORWARD};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (n->op.size != strlen(kinds[i].op) || memcmp(n->op.data, kinds[i].op, n->op.size) != 0) continue;
    named = true;
    if (n->operands[0].dtype == kinds[i].in && n->results[0].dtype == kinds[i].out) x->type = kinds[i].type;
  }
  if (!named) return refuse(why, "no transform");
  if (!x->type) return refuse(why, "a transform of other than f32, f64 and complex numbers of these (cuFFT)");
  x->wide = x->type >= FFT_Z2Z;
  bool last = tc_op_bool(n->args, LAST, 1);
  if ((x->type == FFT_R2C || x->type == FFT_D2Z) && !last)
    return refuse(why, "a transform of reals with both sides (cuFFT)");
  if ((x->type == FFT_C2C || x->type == FFT_Z2Z) && !last) x->direction = FFT_INVERSE;
  return TC_STATUS_OK;
}

static bool to_reals(const transform *x) { return x->type == FFT_C2R || x->type == FFT_Z2D; }
static bool from_reals(const transform *x) { return x->type == FFT_R2C || x->type == FFT_D2Z; }

static int32_t read_view(const tc_view *v, const char **why) {
  for (int32_t i = 0; i < v->rank; i++) {
    if (v->sizes[i] == INT64_MIN || !v->strides || v->strides[i] == INT64_MIN)
      return refuse(why, "sizes or strides that are not known (cuFFT)");
  }
  int32_t last = v->rank - 1;
  if (v->sizes[last] < 1) return refuse(why, "a transform of nothing (cuFFT)");
  if (v->sizes[last] > 1 && v->strides[last] != 1) return refuse(why, "rows whose elements are not neighbours (cuFFT)");
  return TC_STATUS_OK;
}

// All dimensions but the last as one, in the order of the result's memory.
static int32_t read_rows(const tc_view *in, const tc_view *out, transform *x, const char **why) {
  int32_t order[TC_MAX_RANK], n = 0;
  x->count = 1, x->in.distance = x->in.row, x->out.distance = x->out.row;
  for (int32_t d = 0; d < in->rank - 1; d++) {
    if (in->sizes[d] != out->sizes[d]) return refuse(why, "a result with another number of rows (cuFFT)");
    if (in->sizes[d] == 0) x->count = 0;
    if (in->sizes[d] == 1) continue;
    int32_t at = n++;
    for (; at > 0 && out->strides[order[at - 1]] < out->strides[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  if (x->count == 0) return TC_STATUS_OK;
  for (int32_t i = n - 1; i >= 0; i--) {
    int32_t d = order[i];
    if (i == n - 1) x->in.distance = in->strides[d], x->out.distance = out->strides[d];
    else if (in->strides[d] != x->in.distance * x->count || out->strides[d] != x->out.distance * x->count)
      return refuse(why, "rows at more than one distance (cuFFT)");
    x->count *= in->sizes[d];
  }
  if (x->in.distance < x->in.row || x->out.distance < x->out.row)
    return refuse(why, "rows that lie over each other (cuFFT)");
  // What is copied is copied with its gaps.
  if ((to_reals(x) || from_reals(x)) && x->in.distance > 2 * x->in.row)
    return refuse(why, "rows far apart, of which a copy may be needed (cuFFT)");
  if (to_reals(x) && x->out.distance != x->out.row) return refuse(why, "a result of reals with gaps (cuFFT)");
  return TC_STATUS_OK;
}

static int32_t describe(const tc_host *h, const tc_call_node *n, transform *x, const char **why) {
  if (cuda_fft_wished(h, "own")) return refuse(why, "our own transforms are asked for (cuda.fft)");
  if (n->n_operands != 1 || n->n_results != 1 || n->n_epilogue)
    return refuse(why, "a transform with something behind it (cuFFT)");
  int32_t s = read_kind(n, x, why);
  if (s != TC_STATUS_OK) return s;
  const tc_view *in = &n->operands[0], *out = &n->results[0];
  int64_t dim = tc_op_count(n->args, DIMS) == 1 ? tc_op_int_at(n->args, DIMS, 0, 0) : INT64_MIN;
  if (in->rank < 1 || in->rank != out->rank || (dim != -1 && dim != in->rank - 1))
    return refuse(why, "a transform along other than the last dimension alone (cuFFT)");
  if (tc_op_int(n->args, NORM, 0) != 0) return refuse(why, "a transform with a factor (cuFFT)");
  s = read_view(in, why);
  if (s == TC_STATUS_OK) s = read_view(out, why);
  if (s != TC_STATUS_OK) return s;
  int64_t from = in->sizes[in->rank - 1], to = out->sizes[in->rank - 1];
  x->length = to_reals(x) ? to : from;
  x->in.row = to_reals(x) ? x->length / 2 + 1 : x->length;
  x->out.row = from_reals(x) ? x->length / 2 + 1 : x->length;
  if (from < x->in.row || to != x->out.row) return refuse(why, "a result of another length (cuFFT)");
  int32_t real = x->wide ? 8 : 4;
  x->in.bytes = from_reals(x) ? real : 2 * real, x->out.bytes = to_reals(x) ? real : 2 * real;
  return read_rows(in, out, x, why);
}

static uint64_t bytes_of(const transform *x, const rows *r) {
  return x->count == 0 ? 0 : (uint64_t)((x->count - 1) * r->distance + r->row) * (uint64_t)r->bytes;
}

// ---- The tables ----
// More than the estimate of any kernel: only what is timed, or asked for, is taken.
static int64_t cost_of(const tc_device_ *d, const transform *x) {
  double flops = 5.0 * (double)x->count * (double)x->length * log2((double)x->length + 1);
  double bytes = (double)(bytes_of(x, &x->in) + bytes_of(x, &x->out));
  double ns = 4 * flops / (double)(d->props.flops_per_ns + 1) + 2 * bytes / (double)(d->props.bytes_per_ns + 1);
  return CALL_NS + (int64_t)fmin(ns, 1e15);
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  transform x;
  const char *why = "";
  *out_cost = -1;
  int32_t s = describe(h, n, &x, &why);
  if (s != TC_STATUS_OK) cuda_report(h, s, why);
  else if (cuda_fft_ready(d) == TC_STATUS_OK) *out_cost = cost_of(d, &x);
  return TC_STATUS_OK;
}

typedef struct prepared {
  tc_device_ *d;
  transform x;
  fft_plan plan;
  int32_t has_plan;
  size_t library;         // bytes of the library's workspace, which comes first
  uint64_t in_at, out_at; // behind it: a copy of what is read, a place for the result; 0: none
} prepared;

static void destroy(void *p) {
  prepared *q = p;
  if (!q) return;
  if (q->has_plan && cuda_enter(q->d) == TC_STATUS_OK) {
    pthread_mutex_lock(&q->d->fft_lock);
    q->d->fft.destroy(q->plan);
    pthread_mutex_unlock(&q->d->fft_lock);
  }
  q->has_plan = 0;
  cuda_destroy_call(q);
}

static fft_status make_plan(prepared *q) {
  const cuda_fft *l = &q->d->fft;
  transform *x = &q->x;
  long long length = x->length, in = x->in.distance, out = x->out.distance;
  bool dense = in == x->in.row && out == x->out.row;
  fft_status s = l->create(&q->plan);
  if (s != 0) return s;
  q->has_plan = 1;
  s = l->auto_allocation(q->plan, 0);
  if (s != 0) return s;
  return l->make(q->plan, 1, &length, dense ? NULL : &in, 1, in, dense ? NULL : &out, 1, out, x->type, x->count,
                 &q->library);
}

static uint64_t aligned(uint64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  transform x;
  const char *why = "";
  void *memory;
  int32_t s = describe(h, n, &x, &why);
  if (s != TC_STATUS_OK) return cuda_report(h, s, why);
  s = cuda_fft_ready(d);
  if (s == TC_STATUS_OK) s = cuda_prepare(h, d, sizeof(prepared), &memory);
  if (s != TC_STATUS_OK) return s;
  prepared *q = memory;
  q->x = x;
  pthread_mutex_lock(&d->fft_lock);
  s = x.count == 0 ? TC_STATUS_OK : failed(d, "planning a transform of cuFFT", make_plan(q));
  if (s != TC_STATUS_OK && q->has_plan) d->fft.destroy(q->plan);
  pthread_mutex_unlock(&d->fft_lock);
  uint64_t end = aligned(q->library);
  if (to_reals(&x) || from_reals(&x)) {
    q->in_at = end;
    end += aligned(bytes_of(&x, &x.in));
  }
  if (to_reals(&x)) {
    q->out_at = end;
    end += aligned(bytes_of(&x, &x.out));
  }
  return cuda_prepared(h, s, q, end, out, out_workspace);
}

static fft_status execute(const prepared *q, cu_stream stream, cu_ptr workspace, cu_ptr from, cu_ptr to) {
  const cuda_fft *l = &q->d->fft;
  void *in = (void *)(uintptr_t)from, *out = (void *)(uintptr_t)to;
  fft_status s = l->set_stream(q->plan, stream);
  if (s == 0 && q->library) s = l->set_workspace(q->plan, (void *)(uintptr_t)workspace);
  if (s != 0) return s;
  switch (q->x.type) {
  case FFT_C2C: return l->c2c(q->plan, in, out, q->x.direction);
  case FFT_Z2Z: return l->z2z(q->plan, in, out, q->x.direction);
  case FFT_R2C: return l->r2c(q->plan, in, out);
  case FFT_D2Z: return l->d2z(q->plan, in, out);
  case FFT_C2R: return l->c2r(q->plan, in, out);
  default: return l->z2d(q->plan, in, out);
  }
}

static int32_t run(void *p, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                   int64_t offset) {
  prepared *q = p;
  const transform *x = &q->x;
  int32_t s = x->count == 0 ? TC_STATUS_OK : cuda_enter(q->d);
  if (s != TC_STATUS_OK || x->count == 0) return s;
  cu_stream on = (cu_stream)(uintptr_t)stream;
  cu_ptr own = workspace + (uint64_t)offset, in = cuda_address(operands), out = cuda_address(results);
  cu_ptr from = in, to = out, pair = x->wide ? 16 : 8;
  if (to_reals(x) || (from_reals(x) && in % pair)) from = own + q->in_at;
  if (to_reals(x) && out % pair) to = own + q->out_at;
  if (from != in) s = cuda_check(q->d, "cuMemcpyDtoDAsync", q->d->driver.copy(from, in, bytes_of(x, &x->in), on));
  if (s != TC_STATUS_OK) return s;
  pthread_mutex_lock(&q->d->fft_lock);
  fft_status code = execute(q, on, own, from, to);
  pthread_mutex_unlock(&q->d->fft_lock);
  s = failed(q->d, "a transform of cuFFT", code);
  if (s == TC_STATUS_OK && to != out)
    s = cuda_check(q->d, "cuMemcpyDtoDAsync", q->d->driver.copy(out, to, bytes_of(x, &x->out), on));
  return s;
}

#define FFT_CALLS                                                                                                   \
  .struct_size = sizeof(tc_call_table), .name = {"cufft", 5}, .supports = supports, .prepare = prepare, .run = run, \
  .destroy = destroy, .thread_safe = 1, .capture_safe = 1
const tc_call_table cuda_fft_calls = {FFT_CALLS};
const tc_call_table cuda_fft_asked_calls = {FFT_CALLS, .preferred = 1};
