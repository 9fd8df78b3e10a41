// The fft plugin: ops with their meta functions, references and lowerings, and the template "fft" that makes one
// transform along rows.
//
//   ops.c        _fft_c2c, _fft_r2c, _fft_c2r: meta functions and lowerings
//   long.c       rows that no block can hold
//   torch.c      torch.fft's functions, as graph nodes over those three
//   stft.c       stft, istft, overlap-add
//   table.c      the rows of the ops
//   reference.c  plain C
//   plan.c       radices, tables, any length
//   butterfly.c  small transforms as straight-line code
//   stage.c      the template: candidates, real transforms, Bluestein's algorithm
//   turn.c       factors between the steps of long rows
//   vectors.c threads.c rows.c   passes where lanes are vector elements along a row, threads, neighbouring rows
//
// Sign: forward is exp(-2πi kn/N), as everywhere. Tables hold exp(+2πi t); the code conjugates.
#ifndef TC_PLUGINS_FFT_FFT_H_
#define TC_PLUGINS_FFT_FFT_H_

#include <stdbool.h>

#include "tc/plugin.h"

// ---- plan.c: radices and tables ----
enum {
  FFT_MAX_RADIX = 32, // of passes that are written out where lanes are threads, which have registers for it
  FFT_FEW = 16,       // elsewhere, and of primes
  FFT_MAX_PRIME = 64, // lengths with larger prime factors are convolutions
  FFT_MAX_PASSES = 24,
  FFT_MAX_LENGTH = 1 << 16, // what one block is asked to hold
  FFT_TABLE_BYTES = 1 << 16
};

// One pass over n points that have been transformed in groups of `s`: N/R butterflies of radix R; butterfly j = p s + q
// reads j + k N/R, turns output k by exp(∓2πi pk / (N/s)) and writes to q + s (R p + k).  (Stockham's autosort,
// decimation in frequency; see Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992, §1.7.)
typedef struct fft_pass {
  int32_t radix, s, m; // m = N / (radix s): values of p
} fft_pass;

typedef struct fft_plan {
  int32_t length; // what is transformed
  int32_t n;      // by passes over so many points: `length`, or more if it is done as a convolution (Bluestein)
  int32_t n_passes, lanes;
  int32_t per_lane; // threads: points of the row in each lane
  bool rows;        // lanes are neighbouring rows
  bool wide;        // threads: of radices up to FFT_MAX_RADIX
  double cost;      // of a row, in vector operations
  fft_pass passes[FFT_MAX_PASSES];
} fft_plan;

typedef struct fft_limits {
  int32_t vector;    // elements of a vector register; 0: lanes are threads
  int32_t max_lanes; // threads
  int32_t lanes;     // these and no others; 0: any
  bool rows;         // vector: lanes are to be neighbouring rows
  bool wide;         // threads: radices up to FFT_MAX_RADIX
  bool few;          // 16 vector registers, stores under a mask are slow; else they are so wide (64 bytes) that many
                     // processors take them in two steps
} fft_limits;

// The best plan for rows of n, or a reason why there is none. A plan never has fewer than one pass (n = 1: radix 1).
const char *fft_make_plan(int32_t n, const fft_limits *limits, fft_plan *out);
// Radices that take many registers may pay where a row goes through memory on chip once less, and few lanes idle.
bool fft_saves_a_pass(const fft_plan *wide, const fft_plan *few);
// They do where four passes become three (measured on an H200: 2 to 27 % less time); where three become two, some rows
// take 3 % more.
bool fft_pays(const fft_plan *wide, const fft_plan *few);
// For any length up to `most`: a convolution with a chirp that is made when the length is known.
const char *fft_make_plan_up_to(int32_t most, const fft_limits *limits, fft_plan *out);
int32_t fft_largest_prime(int32_t n);
// Are butterflies of this radix written out? Of others, which are primes, they are loops.
bool fft_is_written_out(int32_t radix);
// exp(2πi k/n), every part rounded once from a value of higher accuracy.
void fft_unit(int64_t k, int64_t n, double *re, double *im);

// ---- butterfly.c: transforms of values ----
// (re + i im)·scale: constant factors stay outside until an addition takes them in as a fused multiply-add.
typedef struct fft_value {
  tc_kval re, im;
  double scale;
} fft_value;

typedef struct fft_code {
  tc_stage *stage;
  tc_kb *b;
  tc_dtype real; // TC_F32 or TC_F64
  double sign;   // -1 forward, +1 inverse
} fft_code;

// Where a butterfly gets its inputs and puts its outputs: each number exactly once, as late and as early as possible,
// so that few values are alive.
typedef struct fft_ports {
  void *self;
  fft_value (*in)(void *self, int32_t k);
  void (*out)(void *self, int32_t k, fft_value v);
} fft_ports;

void fft_butterfly(const fft_code *c, int32_t radix, const fft_ports *ports);
int32_t fft_butterfly_cost(int32_t radix); // operations
// The same of inputs that are turned, input k by w^k, for a radix that is a power of two and at least 2. `factor` gives
// number i of fft_factor with the same `most`.
void fft_turned_butterfly(const fft_code *c, int32_t radix, const fft_ports *ports, int32_t most,
                          void (*factor)(void *self, int32_t i, tc_kval factor[2]));
int32_t fft_turned_cost(int32_t radix); // operations, of any radix
// Of any radix: others than powers of two take w, w^2, …, w^(radix - 1), these at most so many for each step that
// doubles what is transformed.
int32_t fft_factor_count(int32_t radix, int32_t most);
// Factor i for w = exp(2πi q/(s radix)): its parts; where the radix is a power of two, from i = 1 on, cosine and
// tangent.
void fft_factor(int32_t radix, int32_t most, int64_t s, int64_t q, int32_t i, double factor[2]);
fft_value fft_plain(const fft_code *c, fft_value v); // scale 1
// v · (wr ± i wi), plus for the inverse.
fft_value fft_turn(const fft_code *c, fft_value v, tc_kval wr, tc_kval wi);

// ---- stage.c ----
extern const tc_template_table fft_template;
// What a stage does along the last dimension. N is the length of the transform.
enum {
  FFT_C2C,
  FFT_R2C,      // N reals to N/2 + 1
  FFT_R2C_FULL, // N reals to N
  FFT_C2R       // N/2 + 1 to N reals; the imaginary parts that have no meaning are not looked at
};
// Attributes of the template.
enum {
  FFT_ATTR_KIND,
  FFT_ATTR_FORWARD, // C2C; the others have their direction
  FFT_ATTR_NORM,    // 0 none, 1 by the root of N, 2 by N
  FFT_ATTR_MOST,    // no length is more; looked at where the length is not a constant
  FFT_ATTR_COLUMNS, // 1: neighbours along the transform are not neighbours in the operand's memory; 2: in the result's
  FFT_ATTR_TURN,    // C2C; not 0: result k of row j (of the last dimension of rows) is turned by the jk-th part of this
  FFT_ATTR_LENGTH,  // N, of which the result may have the first points only; 0: the result says
  FFT_ATTRS
};

// ---- table.c, and the functions that it names: ops.c, torch.c, stft.c, reference.c ----
extern const tc_op_def fft_ops[];
extern const int32_t fft_op_count;
int32_t fft_expand_fft_1(tc_op_args *a);
int32_t fft_expand_fft_n(tc_op_args *a);
int32_t fft_expand_ifft_1(tc_op_args *a);
int32_t fft_expand_ifft_n(tc_op_args *a);
int32_t fft_expand_rfft_1(tc_op_args *a);
int32_t fft_expand_rfft_n(tc_op_args *a);
int32_t fft_expand_irfft_1(tc_op_args *a);
int32_t fft_expand_irfft_n(tc_op_args *a);
int32_t fft_expand_hfft_1(tc_op_args *a);
int32_t fft_expand_hfft_n(tc_op_args *a);
int32_t fft_expand_ihfft_1(tc_op_args *a);
int32_t fft_expand_ihfft_n(tc_op_args *a);
int32_t fft_expand_fftshift(tc_op_args *a);
int32_t fft_expand_ifftshift(tc_op_args *a);
int32_t fft_expand_fftfreq(tc_op_args *a);
int32_t fft_expand_rfftfreq(tc_op_args *a);
int32_t fft_expand_stft(tc_op_args *a);
int32_t fft_expand_stft_center(tc_op_args *a);
int32_t fft_expand_istft(tc_op_args *a);
int32_t fft_meta_overlap(tc_op_args *a);
int32_t fft_lower_overlap(tc_op_args *a);
int32_t fft_ref_overlap(tc_op_args *a);
int32_t fft_meta_c2c(tc_op_args *a);
int32_t fft_meta_r2c(tc_op_args *a);
int32_t fft_meta_c2r(tc_op_args *a);
int32_t fft_lower_c2c(tc_op_args *a);
int32_t fft_lower_r2c(tc_op_args *a);
int32_t fft_lower_c2r(tc_op_args *a);
int32_t fft_ref_c2c(tc_op_args *a);
int32_t fft_ref_r2c(tc_op_args *a);
int32_t fft_ref_c2r(tc_op_args *a);
bool fft_is_complex(tc_dtype d);
tc_dtype fft_complex_of(tc_dtype d); // the dtype of the transform of a real or complex tensor
tc_dtype fft_real_of(tc_dtype d);    // of the parts
// A row of constant length that takes several nodes (long.c): x is [sizes without the last, …], the last size is made.
bool fft_is_long(int64_t n, int64_t kind, tc_dtype dtype);
tc_lt fft_lower_long(tc_op_args *a, tc_lt x, int32_t rank, const tc_int *sizes, int64_t kind, bool forward, int64_t n,
                     int64_t norm, tc_dtype dtype);
#define FFT_PI 0x1.921fb54442d18p+1
double fft_norm(int64_t norm, double n); // the factor of an FFT_ATTR_NORM
// x[k] = scale · Σ x[j] exp(∓2πi jk/n), in place; scratch: 3 n.
void fft_reference(int64_t n, bool forward, double scale, tc_c128 *x, tc_c128 *scratch);
#endif
