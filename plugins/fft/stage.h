// One emission of the template "fft", shared by stage.c (what is common, choice of configurations), vectors.c (lanes
// are elements of vectors along a row), threads.c (lanes are threads) and rows.c (lanes are neighbouring rows).
#ifndef TC_PLUGINS_FFT_STAGE_H_
#define TC_PLUGINS_FFT_STAGE_H_

#include "fft.h"

enum { FFT_WIDE = 16 }; // points that are loaded or stored together at most

// Turning factors of one pass, made in double, in the layout that the pass reads.
enum {
  FFT_TABLE_NONE,  // every factor is 1
  FFT_TABLE_LANES, // [p / lanes][k - 1][re, im][lane]: neighbouring p in neighbouring lanes
  FFT_TABLE_SPLIT, // the same as a product: [p / lanes][k - 1][re, im] times [k - 1][re, im][lane]
  FFT_TABLE_PAIRS, // [p][k - 1][re, im]
  FFT_TABLE_INPUTS // of fft_turned_butterfly, or of inputs by themselves: [i / together][q][i % together][re, im]
};
typedef struct fft_table {
  int32_t kind;
  int32_t together;  // INPUTS: factors that lie together, so that one load takes them
  int32_t most;      // INPUTS, as in fft_turned_butterfly
  tc_kmem mem, fine; // fine: the second factor of SPLIT
} fft_table;

typedef struct fft_emit fft_emit;

// Where the points of a transform come from or go to; i counts points, mask is -1 or bool. The functions that are NULL
// mean on-chip memory as it is.
typedef struct fft_io {
  // n points from i on
  void (*load)(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out);
  void (*store)(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask);
  int32_t limit; // points from here on are zero and not loaded, or are not wanted; 0: none
  tc_kval until; // the same where it is known to the running kernel only; 0: none
  bool chip;     // they lie on chip after all
} fft_io;

// How a row lies on chip and how lanes go over it. Regions of lanes are opened by these functions, with barriers.
typedef struct fft_way {
  void (*open)(fft_emit *e, bool chip); // makes on-chip memory if there is need
  void (*passes)(fft_emit *e, const fft_io *in, const fft_io *out);
  // f(i, mask) for i in [from, to), inside one region; f reads the row on chip or writes it, not both.
  void (*each)(fft_emit *e, int32_t from, int32_t to, void (*f)(fft_emit *e, tc_kval i, tc_kval mask));
  fft_value (*load)(fft_emit *e, tc_kval i, tc_kval mask); // of the row on chip
  void (*store)(fft_emit *e, tc_kval i, fft_value v, tc_kval mask);
  tc_kval (*place)(fft_emit *e, tc_kval i); // where point i lies in an on-chip array
  int64_t (*room)(const fft_emit *e);       // numbers in an on-chip array
} fft_way;

extern const fft_way fft_vectors, fft_threads, fft_rows;

struct fft_emit {
  fft_code c;
  fft_plan plan;
  const fft_way *way;
  int32_t rank, kind, length, columns;
  int32_t kept;                 // points that are stored, of more; 0: all
  double norm, pair_norm;       // of what is stored; of the step that takes real spectra apart
  tc_kval any_length, any_norm; // i32, real: of a transform whose length is not a constant; else -1
  tc_kval any_half;             // points of its one-sided spectrum
  int64_t turn;                 // FFT_ATTR_TURN
  tc_kmem turn_low, turn_high;  // turn.c: tables
  bool turned;                  // what is stored now was turned before
  tc_kmem turn_lane, turn_far;  // rows.c only
  int32_t turn_bits, turn_fine; // exponents are split after so many bits
  bool forward;                 // of the whole; the sign in `c` is that of the passes
  bool from_zero;               // real transforms: pairs begin with k = 0
  bool swap;                    // conjugate outside: the chirp of an inverse transform
  tc_kval index[TC_MAX_RANK];   // of the row; the last is set for each access
  tc_kval lane, row_mask;       // rows.c, threads.c: the lane, of the row; which rows exist, for stores of threads.c
  tc_kval row;                  // threads.c: number of the row in the block
  int32_t rows;                 // threads.c: that a block has
  bool in_place;                // threads.c: passes write where they have read
  bool gaps;                    // threads.c, vectors.c: between points of a row on chip
  const tc_stage_config *config;
  tc_kmem chirp[2], filter[2], turns; // of a convolution: real and imaginary parts; tables or on-chip arrays
  const fft_io *inner_in, *inner_out; // of a convolution
  tc_kmem own;                        // threads.c: lane array with the first half of the last pass; -1: none
  int32_t own_radix;                  // of that pass
  int32_t step;                       // threads.c: of a region of lanes, from 0, or of the round that
  tc_kval first_round;                // is under way: is it the first of two? -1: there are no rounds, -2: more
  tc_kmem array[2][2];                // on chip: [which][re, im]; threads.c has both parts in the first
  int32_t arrays;                     // threads.c: 1 or 2
  int32_t from, to;                   // which of the two is read and written now
  bool failed;                        // no memory for a table
};

// One vector (or one butterfly per thread) of a pass while its code is written.
typedef struct fft_spot {
  fft_emit *e;
  const fft_pass *p;
  const fft_io *in, *out; // NULL: on chip, by load and store
  tc_kval read;           // input k lies at read + k N/R
  tc_kval write;          // output k goes to write + s k
  tc_kval mask;           // or -1
  bool put_off;           // outputs go to `store` first although there is an `out`
  fft_table table;
  int32_t k;            // the input or output that is being moved, or -1 if it is known to the running kernel only
  tc_kval turn;         // where the factors of this spot start; -1: all are 1
  bool early;           // inputs are turned (decimation in time), in place of outputs,
  bool merged;          // and that in their first additions
  bool turns_out;       // outputs are turned by FFT_ATTR_TURN here, not as they are stored
  fft_value turn_first; // of output 0, once it is made (re < 0: not yet)
  // How inputs and outputs move on chip; k is an i32 value, the same in all lanes.
  fft_value (*load)(struct fft_spot *at, tc_kval k);
  void (*store)(struct fft_spot *at, tc_kval k, fft_value v);
  void (*factor)(struct fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im);
  void *self;
} fft_spot;

tc_kval fft_int(const fft_emit *e, int64_t v); // i32
tc_kval fft_add(const fft_emit *e, tc_kval x, tc_kval y);
tc_kval fft_sub(const fft_emit *e, tc_kval x, tc_kval y);
tc_kval fft_mul(const fft_emit *e, tc_kval x, tc_kval y);
tc_kval fft_muli(const fft_emit *e, tc_kval x, int64_t y);
tc_kval fft_addi(const fft_emit *e, tc_kval x, int64_t y);
tc_kval fft_both(const fft_emit *e, tc_kval mask, tc_kval other); // of masks; -1 is none

// Tables: room for `count` numbers (NULL: none), which are put there and become a table that takes them over.
void *fft_room(const fft_emit *e, int64_t count);
void fft_put_number(const fft_emit *e, void *data, int64_t at, double v);
void fft_put_unit(const fft_emit *e, void *data, int64_t at, int64_t step, int64_t k, int64_t n); // exp(2πi k/n)
tc_kmem fft_add_table(fft_emit *e, const char *name, int64_t count, void *data);

// On-chip arrays, as many as the stage needs to go from one to the other; `more`: steps beside those between passes.
void fft_make_arrays(fft_emit *e, int32_t more);
fft_table fft_make_table(fft_emit *e, const fft_pass *p, int32_t kind);
fft_table fft_make_input_table(fft_emit *e, const fft_pass *p);
// Point i of the row on chip, in the first half, inside the step of `each` that has it.
fft_value fft_own_point(fft_emit *e, tc_kval i, tc_kval mask);
// [p][k - 1][re, im]
void fft_factor_pairs(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im);
// Output k goes to `out`, unless it is not wanted.
void fft_put_out(fft_spot *at, tc_kval k, fft_value v);
// turn.c: tables for FFT_ATTR_TURN; v is number k of the row that e->index tells, k the same in all lanes in rows.c.
void fft_make_turn(fft_emit *e);
fft_value fft_turn_row(fft_emit *e, fft_value v, tc_kval k, tc_kval mask);
fft_value fft_turn_output(fft_spot *at, fft_value v); // the same of output at->k of a spot
// The butterflies of one spot: loads, transform, turning, stores.
void fft_spot_emit(fft_spot *at);

#endif
