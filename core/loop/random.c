// Random numbers in bodies: Philox 4×32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3;
// 2011) over the run's seed, the node's stream and the number of the element, as core/ops/random.c has it for
// references.
#include "core/loop/lo.h"

enum { ROUNDS = 10 };

typedef struct philox {
  tc_lo *lo;
  tc_bval word[4], key[2];
} philox;

static tc_bval u32(tc_lo *lo, uint64_t v) { return tc_body_const(lo, TC_U32, 0, 0, (int64_t)(v & UINT32_MAX)); }
static tc_bval op(tc_lo *lo, int32_t opcode, tc_bval x, tc_bval y) {
  return tc_body_op(lo, opcode, 2, (int32_t[]){x, y});
}

static void one_round(philox *p) {
  static const uint32_t factors[2] = {0xD2511F53, 0xCD9E8D57}, weyl[2] = {0x9E3779B9, 0xBB67AE85};
  tc_bval high[2], low[2];
  for (int32_t i = 0; i < 2; i++) {
    tc_bval f = u32(p->lo, factors[i]);
    high[i] = op(p->lo, TC_K_MULHI, f, p->word[2 * i]);
    low[i] = op(p->lo, TC_K_MUL, f, p->word[2 * i]);
  }
  tc_bval next[4] = {op(p->lo, TC_K_XOR, op(p->lo, TC_K_XOR, high[1], p->word[1]), p->key[0]), low[1],
                     op(p->lo, TC_K_XOR, op(p->lo, TC_K_XOR, high[0], p->word[3]), p->key[1]), low[0]};
  for (int32_t i = 0; i < 4; i++) p->word[i] = next[i];
  for (int32_t i = 0; i < 2; i++) p->key[i] = op(p->lo, TC_K_ADD, p->key[i], u32(p->lo, weyl[i]));
}

// 32 bits of the seed, from its parts of 22.
static tc_bval key(tc_op_args *a, int32_t half) {
  tc_lo *lo = tc_lo_of(a);
  tc_bval part[TC_SYM_SEEDS];
  for (int32_t i = 0; i < TC_SYM_SEEDS; i++)
    part[i] = tc_body_cast(lo, lo_index(a, tc_sym_seed(lo->l->syms, i), TC_I64), TC_U32);
  const int32_t bits = TC_SYM_SEED_BITS;
  if (half == 0) return op(lo, TC_K_OR, part[0], op(lo, TC_K_SHL, part[1], u32(lo, bits)));
  return op(lo, TC_K_OR, op(lo, TC_K_SHR, part[1], u32(lo, 32 - bits)),
            op(lo, TC_K_SHL, part[2], u32(lo, 2 * bits - 32)));
}

// The node's stream behind the run's.
static tc_bval stream(tc_op_args *a) {
  tc_lo *lo = tc_lo_of(a);
  tc_sym_ctx *c = lo->l->syms;
  const tc_sym *sum = tc_sym_int(c, (int64_t)lo->node->stream);
  for (int32_t i = 0; i < TC_SYM_STREAMS; i++)
    sum = tc_sym_add(c, sum, tc_sym_muli(c, tc_sym_seed(c, TC_SYM_SEEDS + i), (int64_t)1 << (i * TC_SYM_SEED_BITS)));
  return lo_index(a, sum, TC_I64);
}

void lo_random(tc_op_args *a, tc_int element, tc_bval out[4]) {
  tc_lo *lo = tc_lo_of(a);
  int64_t least, most;
  tc_sym_range(lo->l->syms, element, &least, &most);
  tc_bval number = lo_index(a, element, TC_I64), high = u32(lo, 0);
  if (least < 0 || most > UINT32_MAX)
    high = tc_body_cast(lo, op(lo, TC_K_SHR, number, tc_body_const(lo, TC_I64, 0, 0, 32)), TC_U32);
  tc_bval behind = stream(a);
  tc_bval top = tc_body_cast(lo, op(lo, TC_K_SHR, behind, tc_body_const(lo, TC_I64, 0, 0, 32)), TC_U32);
  philox p = {
      lo, {tc_body_cast(lo, number, TC_U32), high, tc_body_cast(lo, behind, TC_U32), top}, {key(a, 0), key(a, 1)}};
  for (int32_t i = 0; i < ROUNDS; i++) one_round(&p);
  for (int32_t i = 0; i < 4; i++) out[i] = p.word[i];
}
