// Opening the driver and wording its errors.
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "library.h"

int32_t cuda_driver_open(const tc_host *h, cuda_driver *out, char *why, size_t why_size) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  *out = (cuda_driver){0};
  out->library = cuda_library_open(h, "driver", names, NULL, why, why_size);
  if (!out->library) return TC_STATUS_DEVICE;
  void *p;
#define X(field, symbol, params)                                                        \
  p = dlsym(out->library, symbol);                                                      \
  if (!p) {                                                                             \
    snprintf(why, why_size, "the driver lacks %s: it is older than CUDA 11.2", symbol); \
    return TC_STATUS_DEVICE;                                                            \
  }                                                                                     \
  memcpy(&out->field, &p, sizeof p);
  CU_FUNCTIONS(X)
#undef X
  p = dlsym(out->library, "cuTensorMapEncodeTiled");
  memcpy(&out->tensor_map, &p, sizeof p);
  p = dlsym(out->library, "cuLaunchKernelEx");
  memcpy(&out->launch_as, &p, sizeof p);
  cu_result code = out->init(0);
  if (code == CU_OK) return TC_STATUS_OK;
  cuda_driver_error(out, "cuInit", code, why, why_size);
  return TC_STATUS_DEVICE;
}

int32_t cuda_driver_error(const cuda_driver *d, const char *what, cu_result code, char *text, size_t size) {
  const char *name = NULL, *words = NULL;
  if (d->error_name(code, &name) != CU_OK || !name) name = "unknown error";
  if (d->error_text(code, &words) != CU_OK || !words) words = "no description";
  snprintf(text, size, "%s: %s (%d, %s)", what, name, code, words);
  return code == CU_OUT_OF_MEMORY ? TC_STATUS_OUT_OF_MEMORY : TC_STATUS_DEVICE;
}
