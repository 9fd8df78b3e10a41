// One emission of the template "fft", shared by stage.c (what is common, choice of configurations), vectors.c (lanes
// are elements of vectors) and threads.c (lanes are threads).
#ifndef TC_PLUGINS_FFT_STAGE_H_
#define TC_PLUGINS_FFT_STAGE_H_

#include "fft.h"

// Turning factors of one pass, made in double, in the layout that the pass reads.
enum {
  FFT_TABLE_NONE,   // every factor is 1
  FFT_TABLE_LANES,  // [p / lanes][k - 1][re, im][lane]: neighbouring p in neighbouring lanes
  FFT_TABLE_SPLIT,  // the same as a product: [p / lanes][k - 1][re, im] times [k - 1][re, im][lane]
  FFT_TABLE_PAIRS,  // [p][k - 1][re, im]
  FFT_TABLE_THREADS // [k - 1][p][re, im]
};
typedef struct fft_table {
  int32_t kind;
  tc_kmem mem, fine; // fine: the second factor of SPLIT
} fft_table;

typedef struct fft_emit {
  fft_code c;
  fft_plan plan;
  int32_t rank;
  double norm;
  tc_kval index[TC_MAX_RANK]; // of the row; the last is set for each access
  bool failed;                // no memory for a table
} fft_emit;

// One vector (or one butterfly per thread) of a pass while its code is written.
typedef struct fft_spot {
  fft_emit *e;
  const fft_pass *p;
  bool first, last;
  tc_kval read;  // input k lies at read + k N/R
  tc_kval write; // output k goes to write + s k
  tc_kval mask;  // or -1
  fft_table table;
  int32_t k;    // the input or output that is being moved, or -1 if it is known to the running kernel only
  tc_kval turn; // where the factors of this spot start; -1: all are 1
  // How inputs and outputs move on chip; k is an i32 value, the same in all lanes.
  fft_value (*load)(struct fft_spot *at, tc_kval k);
  void (*store)(struct fft_spot *at, tc_kval k, fft_value v);
  void (*factor)(struct fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im);
  void *self;
} fft_spot;

tc_kval fft_int(const fft_emit *e, int64_t v); // i32
tc_kval fft_add(const fft_emit *e, tc_kval x, tc_kval y);
tc_kval fft_mul(const fft_emit *e, tc_kval x, tc_kval y);
tc_kval fft_muli(const fft_emit *e, tc_kval x, int64_t y);
tc_kval fft_addi(const fft_emit *e, tc_kval x, int64_t y);

fft_table fft_make_table(fft_emit *e, const fft_pass *p, int32_t kind);
// The butterflies of one spot: loads, transform, turning, stores.
void fft_spot_emit(fft_spot *at);
void fft_vectors(fft_emit *e); // vectors.c
void fft_threads(fft_emit *e); // threads.c

#endif
