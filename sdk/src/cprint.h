// The inside of the C-like printer: cprint.c (the kernel, structure), cprint_access.c (memory,
// collectives), cprint_shared.c (places of shared memory) and cprint_ops.c (expressions).
#ifndef TC_SDK_SRC_CPRINT_H_
#define TC_SDK_SRC_CPRINT_H_

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tc/cprint.h"

typedef struct printer {
  const tc_kernel *k;
  const tc_cdialect *d;
  tc_write_fn write;
  void *self;
  const char *missing; // what the dialect cannot say; NULL: all is well
  int32_t depth, next; // indentation; numbers of helper variables
  int32_t n_params;
  bool given;            // the kernel is source that somebody wrote
  struct lazies *lazies; // NULL: nothing is left out
} printer;

// An operand of a format: a value, a text, or a number.
typedef struct operand {
  const char *text; // NULL: value
  tc_kval value;
} operand;

void put(printer *p, const char *text);
void put_sv(printer *p, tc_sv text);
void put_int(printer *p, int64_t v);
void put_indent(printer *p);
void put_name(printer *p, tc_kval v);  // the variable of a value
void put_value(printer *p, tc_kval v); // variable, literal or parameter
void put_mem(printer *p, tc_kmem m);   // the C name of a memory object
void put_type(printer *p, tc_dtype t);
void put_literal(printer *p, tc_dtype t, int64_t imm, double fimm);
void put_operand(printer *p, operand o);
// Replaces $0 … $2 by the operands.
void put_format(printer *p, const char *format, int32_t n, const operand *args);
bool is_in_place(const printer *p, tc_kval v); // a constant or scalar: no variable
tc_dtype type_of(const printer *p, tc_kval v);
void missing(printer *p, const char *what);
// The expression of a pure instruction; and of an opcode on operands of one type (reductions).
void put_pure(printer *p, const tc_kinst *in);
void put_op(printer *p, int32_t op, int32_t flags, tc_dtype type, int32_t n, const operand *args);
int64_t divisor_of(const printer *p, tc_kval v, int32_t depth); // a number ≥ 1 that divides an index

// Statements and their parts.
int32_t size_of(tc_dtype t);
void declare(printer *p, tc_kval v, bool constant); // indentation, type and name
void put_barrier(printer *p);
void put_scratch_name(printer *p, tc_dtype t);
int32_t subgroup_of(const printer *p); // lanes that shuffles combine at once; 1 if they cannot be used
// Bytes of all shared arrays; where one lies in a buffer in which those that are never needed together share places,
// or, for the number of memory objects, that buffer's bytes.
int64_t shared_bytes(const tc_kernel *k);
int64_t shared_offset(const tc_kernel *k, tc_kmem m);
void put_load(printer *p, const tc_kinst *in);
// Finds what only one side of selects needs (cprint_lazy.c), until lazies_free.
void lazies_find(printer *p);
void lazies_free(printer *p);
int32_t lazy_group(const printer *p, int32_t inst); // the select at whose place an instruction is printed; -1: its own
// Prints the group whose first select stands at place `at` of the region; false: there is none.
bool put_lazy(printer *p, const tc_kregion *g, int32_t at);
// The instructions up to a place of the region that are printed in a group, or in none (-1).
void put_members(printer *p, const tc_kregion *g, int32_t group, int32_t until);
void put_store(printer *p, const tc_kinst *in);
void put_atomic(printer *p, const tc_kinst *in);
void put_prefetch(printer *p, const tc_kinst *in);
void put_collective(printer *p, const tc_kinst *in);

#endif
