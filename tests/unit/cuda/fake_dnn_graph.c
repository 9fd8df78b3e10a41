// The graphs of operations of the cuDNN for tests: descriptors that want what the real ones want, and plans that are
// done at once, operation by operation, in double precision. What lies between operations is kept as it would be, in
// bf16 where it is that.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, BAD = 2000, NOT_SUPPORTED = 3000, RANK = 4, MOST = 24, OPS = 16, BYTES = 128, F32 = 0, BF16 = 9 };
enum {
  POINTWISE = 0,
  CONFIG = 3,
  HEURISTIC,
  PLAN,
  POINTWISE_OP = 13,
  GRAPH = 15,
  PACK,
  TENSOR,
  PRODUCT,
  PRODUCT_OP,
  REDUCTION = 21,
  REDUCTION_OP
};

typedef struct attribute {
  int name, type;
  int64_t count;
  char bytes[BYTES];
} attribute;
typedef struct item {
  int kind, done, n;
  attribute list[MOST];
  double *values; // of a tensor, while a plan runs: packed
} item;

static int live, refuses, runs;
EXPORT int fake_graph_live(void) { return live; }
EXPORT int fake_graph_runs(void) { return runs; }
EXPORT void fake_graph_refuse(int value) { refuses = value; }

static int64_t size_of(int type) { return type == 3 || type == 0 || type == 6 || type == 15 ? 8 : type == 2 ? 1 : 4; }
static const void *of(const item *x, int name) {
  for (int i = 0; x && i < x->n; i++)
    if (x->list[i].name == name) return x->list[i].bytes;
  return NULL;
}
static int number(const item *x, int name, int otherwise) {
  const int *p = of(x, name);
  return p ? *p : otherwise;
}
static item *item_of(const item *x, int name) {
  item *const *p = of(x, name);
  return p ? *p : NULL;
}

EXPORT int cudnnBackendCreateDescriptor(int kind, void **out) {
  item *x = calloc(1, sizeof *x);
  x->kind = kind, live++;
  return *out = x, OK;
}
EXPORT int cudnnBackendDestroyDescriptor(void *p) { return live--, free(p), OK; }

EXPORT int cudnnBackendSetAttribute(void *p, int name, int type, int64_t count, const void *values) {
  item *x = p;
  if (x->done || x->n == MOST || count < 1 || count * size_of(type) > BYTES || of(x, name)) return BAD;
  item *const *items = values;
  for (int64_t i = 0; i < count && type == 15; i++)
    if (!items[i] || !items[i]->done) return BAD; // only what is finished may be named
  attribute *a = &x->list[x->n++];
  a->name = name, a->type = type, a->count = count;
  memcpy(a->bytes, values, (size_t)(count * size_of(type)));
  return OK;
}

static int has(const item *x, const int *names) {
  for (; *names >= 0; names++)
    if (!of(x, *names)) return 0;
  return 1;
}
EXPORT int cudnnBackendFinalize(void *p) {
  static const int tensor[] = {900, 901, 902, 903, 906, -1}, pointwise[] = {0, 1, -1},
                   pointwise_op[] = {750, 751, 753, -1}, product[] = {1500, -1},
                   product_op[] = {1520, 1521, 1522, 1523, -1}, reduction[] = {1600, 1601, -1},
                   reduction_op[] = {1610, 1611, 1612, -1}, graph[] = {800, 801, -1}, heuristic[] = {200, 201, -1},
                   plan[] = {400, 401, -1}, pack[] = {1000, 1001, 1003, -1}, none[] = {-1, -1};
  item *x = p;
  const int *want = x->kind == TENSOR         ? tensor
                    : x->kind == POINTWISE    ? pointwise
                    : x->kind == POINTWISE_OP ? pointwise_op
                    : x->kind == PRODUCT      ? product
                    : x->kind == PRODUCT_OP   ? product_op
                    : x->kind == REDUCTION    ? reduction
                    : x->kind == REDUCTION_OP ? reduction_op
                    : x->kind == GRAPH        ? graph
                    : x->kind == HEURISTIC    ? heuristic
                    : x->kind == PLAN         ? plan
                    : x->kind == PACK         ? pack
                                              : none;
  if (x->done || !has(x, want)) return BAD;
  if (x->kind == POINTWISE && number(x, 0, -1) == 501 && !of(x, 9)) return BAD; // along which dimension?
  if (x->kind == PLAN && refuses) return refuses--, NOT_SUPPORTED;
  return x->done = 1, OK;
}

EXPORT int cudnnBackendGetAttribute(void *p, int name, int type, int64_t room, int64_t *count, void *values) {
  item *x = p, **configs = values;
  if (!x->done) return BAD;
  if (x->kind == PLAN && name == 402 && type == 3) return *(int64_t *)values = 64, *count = 1, OK;
  if (x->kind != HEURISTIC || name != 202 || type != 15 || room < 1) return BAD;
  item *graph = item_of(x, 201);
  if (configs[0]->kind != CONFIG) return BAD;
  configs[0]->list[configs[0]->n++] = (attribute){.name = 201, .type = 15, .count = 1};
  memcpy(configs[0]->list[0].bytes, &graph, sizeof graph);
  return configs[0]->done = 1, *count = 1, OK;
}

// ---- Running a plan ----
static const int64_t *sizes_of(const item *t) { return of(t, 902); }
static int64_t count_of(const item *t) {
  int64_t n = 1;
  for (int i = 0; i < RANK; i++) n *= sizes_of(t)[i];
  return n;
}
static double narrow(const item *t, double v) {
  if (number(t, 901, F32) != BF16) return v;
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  return memcpy(&f, &bits, 4), f;
}
// The value at an index; dimensions of one, and groups of heads, stand for several.
static double at(const item *t, const int64_t *index, const int64_t *all) {
  const int64_t *sizes = sizes_of(t);
  int64_t place = 0;
  for (int i = 0; i < RANK; i++) {
    int64_t k = i == 1 ? index[i] / (all[i] / sizes[i]) : sizes[i] == 1 ? 0 : index[i];
    place = place * sizes[i] + k;
  }
  return t->values[place];
}

static void next(int64_t *index, const int64_t *sizes) {
  for (int i = RANK - 1; i >= 0 && ++index[i] == sizes[i]; i--) index[i] = 0;
}

static double pointwise(const item *op, const int64_t *index, const int64_t *all) {
  const item *what = item_of(op, 750), *x = item_of(op, 751), *b = item_of(op, 752), *t = item_of(op, 758);
  double v = at(x, index, all), w = b ? at(b, index, all) : 0;
  switch (number(what, 0, -1)) {
  case 0: return v + w;
  case 1: return v * w;
  case 6: return v / w;
  case 9: return v - w;
  case 13: return exp(v);
  case 15: return log(v);
  case 303: return v >= w;
  case 501: return (double)index[*(const int64_t *)of(what, 9)];
  case 601: return at(t, index, all) != 0 ? v : w;
  default: return NAN;
  }
}

static double product(const item *op, const int64_t *index, const int64_t *all) {
  const item *a = item_of(op, 1520), *b = item_of(op, 1521);
  int64_t n = sizes_of(a)[3], left[RANK], right[RANK];
  double sum = 0;
  memcpy(left, index, sizeof left), memcpy(right, index, sizeof right);
  for (int64_t k = 0; k < n; k++) left[3] = right[2] = k, sum += at(a, left, all) * at(b, right, all);
  return sum;
}

static double reduced(const item *op, const int64_t *index, const int64_t *all) {
  const item *x = item_of(op, 1610);
  int64_t place[RANK];
  double v = number(item_of(op, 1612), 1600, -1) == 3 ? -INFINITY : 0;
  memcpy(place, index, sizeof place);
  for (place[3] = 0; place[3] < sizes_of(x)[3]; place[3]++)
    v = v == -INFINITY || number(item_of(op, 1612), 1600, -1) == 3 ? fmax(v, at(x, place, all)) : v + at(x, place, all);
  return v;
}

static double *address(char *base, const item *t, int64_t place) {
  const int64_t *sizes = sizes_of(t), *strides = of(t, 903);
  int64_t offset = 0;
  for (int i = RANK - 1; i >= 0; i--) offset += place % sizes[i] * strides[i], place /= sizes[i];
  return (double *)(void *)(base + offset * (number(t, 901, F32) == BF16 ? 2 : 4));
}

static char *given(const item *pack, const item *t) {
  const attribute *ids = NULL;
  char *const *addresses = of(pack, 1001);
  for (int i = 0; i < pack->n; i++)
    if (pack->list[i].name == 1000) ids = &pack->list[i];
  for (int64_t i = 0; ids && i < ids->count; i++)
    if (((const int64_t *)(const void *)ids->bytes)[i] == *(const int64_t *)of(t, 906)) return addresses[i];
  return NULL;
}

static int load(const item *pack, item *t) {
  if (t->values) return OK;
  char *base = given(pack, t);
  if (!base) return BAD;
  t->values = calloc((size_t)count_of(t), sizeof *t->values);
  for (int64_t i = 0; i < count_of(t); i++) {
    uint32_t bits = 0;
    float f;
    memcpy((char *)&bits + (number(t, 901, F32) == BF16 ? 2 : 0), address(base, t, i),
           number(t, 901, F32) == BF16 ? 2 : 4);
    memcpy(&f, &bits, 4);
    t->values[i] = f;
  }
  return OK;
}

static int do_op(const item *pack, const item *op) {
  static const int in[][3] = {{751, 752, 758}, {1520, 1521, -2}, {1610, -2, -2}};
  int way = op->kind == POINTWISE_OP ? 0 : op->kind == PRODUCT_OP ? 1 : 2;
  item *y = item_of(op, way == 0 ? 753 : way == 1 ? 1522 : 1611);
  for (int i = 0; i < 3; i++) {
    item *x = item_of(op, in[way][i]);
    if (x && load(pack, x) != OK) return BAD;
  }
  double *values = calloc((size_t)count_of(y), sizeof *values);
  int64_t index[RANK] = {0};
  for (int64_t i = 0; i < count_of(y); i++, next(index, sizes_of(y))) {
    double v = way == 0   ? pointwise(op, index, sizes_of(y))
               : way == 1 ? product(op, index, sizes_of(y))
                          : reduced(op, index, sizes_of(y));
    values[i] = narrow(y, v);
  }
  y->values = values;
  char *base = given(pack, y);
  for (int64_t i = 0; i < count_of(y) && base; i++) {
    float f = (float)values[i];
    bool half = number(y, 901, F32) == BF16;
    memcpy(address(base, y, i), (char *)&f + (half ? 2 : 0), half ? 2 : 4);
  }
  return base || of(y, 907) ? OK : BAD;
}

static void forget(const item *op) {
  static const int names[] = {751, 752, 758, 753, 1520, 1521, 1522, 1610, 1611};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    item *t = item_of(op, names[i]);
    if (t) free(t->values), t->values = NULL;
  }
}

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  const item *p = plan, *graph = item_of(item_of(p, 401), 201);
  item *const *ops = of(graph, 801);
  int64_t n = 0;
  int s = handle && p->done && ((item *)pack)->done ? OK : BAD;
  for (int i = 0; i < graph->n; i++)
    if (graph->list[i].name == 801) n = graph->list[i].count;
  for (int64_t i = 0; i < n && s == OK; i++) s = do_op(pack, ops[i]);
  for (int64_t i = 0; i < n; i++) forget(ops[i]);
  runs++;
  return s;
}
