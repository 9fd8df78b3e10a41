// The input that the blocks of a convolution bring in for themselves, with zeros around it: for an input of the program
// with few channels no padded copy passes through memory then. Blocks of neighbouring rows bring the rows between them
// both, and so do blocks of other output channels, so all is little beside the products.
#include "core/kernel/templates/conv.h"
#include "core/tensor/tensor.h"

static tc_dtype sums_of(const tc_stage *s) { return tc_template_sums(tc_stage_dtype(s)); }

// Places along spatial dimension i that the positions of a tile meet.
static int64_t places(const tc_stage *s, const tc_conv_shape *p, const int64_t *tile, int32_t i) {
  int64_t all = tc_stage_out_size(s, p->lead + i), mine = tile[p->lead + i];
  if (all < 1) return -1;
  if (mine == 0 || mine > all) mine = all;
  return (mine - 1) * p->stride[i] + (p->k[i] - 1) * p->dilation[i] + 1;
}

int64_t tc_conv_own_bytes(const tc_stage *s, const tc_conv_shape *p, const int64_t *tile) {
  int64_t bytes = p->channels * tc_dtype_size(sums_of(s));
  for (int32_t i = 0; i < p->n; i++) {
    int64_t size = places(s, p, tile, i);
    if (size < 0 || bytes > INT32_MAX / size) return -1;
    bytes *= size;
  }
  return bytes;
}

tc_conv_own tc_conv_own_make(tc_stage *s, const tc_conv_shape *p, const tc_stage_config *c) {
  tc_conv_own o = {0};
  int64_t count = p->channels;
  for (int32_t i = 0; i < p->n; i++) {
    o.size[i] = places(s, p, c->tile, i);
    o.first[i] = tc_stage_origin(s, p->lead + i);
    count *= o.size[i];
  }
  o.memory = tc_kb_shared(tc_stage_builder(s), (tc_sv){"input", 5}, sums_of(s), count);
  return o;
}

static tc_kval add(tc_kb *b, tc_kval x, tc_kval y) { return tc_kb_op2(b, TC_K_ADD, x, y); }
static tc_kval muli(tc_kb *b, tc_kval x, int64_t y) { return tc_kb_op2(b, TC_K_MUL, x, tc_kb_int(b, TC_I64, y)); }

// Is a place (i32) of spatial dimension i in the input? Its own are few, so that lanes need not compare wide numbers.
static tc_kval is_inside(tc_stage *s, const tc_conv_shape *p, const tc_conv_own *o, int32_t i, tc_kval place) {
  tc_kb *b = tc_stage_builder(s);
  tc_kval begin = tc_kb_op2(b, TC_K_SUB, tc_kb_int(b, TC_I64, p->pad[i]), muli(b, o->first[i], p->stride[i]));
  tc_kval end = add(b, begin, tc_stage_operand_extent(s, 0, 2 + i));
  begin = tc_kb_op2(b, TC_K_MIN, begin, tc_kb_int(b, TC_I64, o->size[i]));
  end = tc_kb_op2(b, TC_K_MIN, end, tc_kb_int(b, TC_I64, o->size[i]));
  begin = tc_kb_op2(b, TC_K_MAX, begin, tc_kb_int(b, TC_I64, 0));
  end = tc_kb_op2(b, TC_K_MAX, end, tc_kb_int(b, TC_I64, 0));
  return tc_kb_op2(b, TC_K_AND, tc_kb_op2(b, TC_K_LE, tc_kb_cast(b, TC_I32, begin), place),
                   tc_kb_op2(b, TC_K_LT, place, tc_kb_cast(b, TC_I32, end)));
}

void tc_conv_own_bring(tc_stage *s, const tc_conv_shape *p, const tc_stage_config *c, const tc_conv_own *o,
                       tc_kval image, tc_kval group) {
  tc_kb *b = tc_stage_builder(s);
  int32_t last = p->n - 1;
  tc_kval none = tc_kb_int(b, TC_I64, 0), index[2 + TC_CONV_MAX_SPACE], inside = -1, fits = -1;
  tc_kval channel = tc_kb_for(b, none, tc_kb_int(b, TC_I64, p->channels), 1, 0, 0, NULL, NULL), at = channel;
  index[0] = image, index[1] = group < 0 ? channel : add(b, muli(b, group, p->channels), channel);
  for (int32_t i = 0; i < p->n; i++) {
    tc_kval place = tc_kb_for(b, none, tc_kb_int(b, TC_I64, o->size[i]), i == last ? c->lanes : 1, 0, 0, NULL, NULL),
            narrow = tc_kb_cast(b, TC_I32, place);
    if (i == last) {
      place = add(b, place, tc_kb_cast(b, TC_I64, tc_kb_lane(b)));
      narrow = add(b, narrow, tc_kb_lane(b));
      if (o->size[i] % c->lanes) fits = tc_kb_op2(b, TC_K_LT, narrow, tc_kb_int(b, TC_I32, o->size[i]));
    }
    at = add(b, muli(b, at, o->size[i]), place);
    index[2 + i] = add(b, add(b, muli(b, o->first[i], p->stride[i]), place), tc_kb_int(b, TC_I64, -p->pad[i]));
    tc_kval here = is_inside(s, p, o, i, narrow);
    inside = i ? tc_kb_op2(b, TC_K_AND, inside, here) : here;
  }
  tc_kval v = tc_kb_cast(b, sums_of(s), tc_stage_load(s, 0, index, inside));
  v = tc_kb_op3(b, TC_K_SELECT, inside, v, tc_template_zero(b, sums_of(s)));
  tc_kb_store(b, o->memory, at, 1, &v, fits);
  for (int32_t i = 0; i <= p->n; i++) tc_kb_end_for(b, 0, NULL, NULL);
}

tc_kval tc_conv_own_load(tc_stage *s, const tc_conv_shape *p, const tc_conv_own *o, tc_kval channel,
                         const tc_kval *place, const tc_kval *k) {
  tc_kb *b = tc_stage_builder(s);
  tc_kval at = channel;
  for (int32_t i = 0; i < p->n; i++) {
    tc_kval from = muli(b, tc_kb_op2(b, TC_K_SUB, place[i], o->first[i]), p->stride[i]);
    at = add(b, muli(b, at, o->size[i]), add(b, from, muli(b, k[i], p->dilation[i])));
  }
  return tc_kb_load1(b, o->memory, at, -1, -1);
}
