// What this plugin uses of cuFFT (NVIDIA, "cuFFT API Reference"), opened at run time.
#ifndef TC_PLUGINS_CUDA_FFT_H_
#define TC_PLUGINS_CUDA_FFT_H_

#include "driver.h"

typedef int fft_status; // cufftResult: 0 is success
typedef int fft_plan;   // cufftHandle
enum { FFT_ALLOC_FAILED = 2, FFT_NOT_SUPPORTED = 16 };
// cufftType
enum { FFT_C2C = 0x29, FFT_R2C = 0x2a, FFT_C2R = 0x2c, FFT_Z2Z = 0x69, FFT_D2Z = 0x6a, FFT_Z2D = 0x6c };
enum { FFT_FORWARD = -1, FFT_INVERSE = 1 };

#define FFT_FUNCTIONS(X)                                                                                               \
  X(version, "cufftGetVersion", (int *version))                                                                        \
  X(create, "cufftCreate", (fft_plan * plan))                                                                          \
  X(destroy, "cufftDestroy", (fft_plan plan))                                                                          \
  X(auto_allocation, "cufftSetAutoAllocation", (fft_plan plan, int on))                                                \
  X(make, "cufftMakePlanMany64",                                                                                       \
    (fft_plan plan, int rank, long long *sizes, long long *in_embed, long long in_stride, long long in_distance,       \
     long long *out_embed, long long out_stride, long long out_distance, int type, long long rows, size_t *workspace)) \
  X(set_stream, "cufftSetStream", (fft_plan plan, cu_stream stream))                                                   \
  X(set_workspace, "cufftSetWorkArea", (fft_plan plan, void *workspace))                                               \
  X(c2c, "cufftExecC2C", (fft_plan plan, void *in, void *out, int direction))                                          \
  X(z2z, "cufftExecZ2Z", (fft_plan plan, void *in, void *out, int direction))                                          \
  X(r2c, "cufftExecR2C", (fft_plan plan, void *in, void *out))                                                         \
  X(d2z, "cufftExecD2Z", (fft_plan plan, void *in, void *out))                                                         \
  X(c2r, "cufftExecC2R", (fft_plan plan, void *in, void *out))                                                         \
  X(z2d, "cufftExecZ2D", (fft_plan plan, void *in, void *out))

typedef struct cuda_fft {
  void *library;
#define X(field, symbol, params) fft_status(*field) params;
  FFT_FUNCTIONS(X)
#undef X
} cuda_fft;

// The same calls, of which the second takes transforms wherever it can: where the configuration asks for it.
extern const tc_call_table cuda_fft_calls, cuda_fft_asked_calls;
// Does the config key `fft` say `what`?
int32_t cuda_fft_wished(const tc_host *h, const char *what);

#endif
