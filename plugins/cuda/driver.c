// Opening the driver and wording its errors.
#include "driver.h"

#include <stdio.h>

#include "library.h"

static const cuda_symbol symbols[] = {
#define X(field, symbol, params) {symbol, offsetof(cuda_driver, field)},
    CU_FUNCTIONS(X)
#undef X
};
// Of later versions.
static const cuda_symbol later[] = {{"cuTensorMapEncodeTiled", offsetof(cuda_driver, tensor_map)},
                                    {"cuLaunchKernelEx", offsetof(cuda_driver, launch_as)}};
static const cuda_library_source source = {
    "the driver", "driver", {"libcuda.so.1"}, NULL, ": it is older than CUDA 11.2", CUDA_SYMBOLS(symbols)};

int32_t cuda_driver_open(const tc_host *h, cuda_driver *out, char *why, size_t why_size) {
  *out = (cuda_driver){0};
  if (!cuda_library_open(h, &source, out, why, why_size)) return TC_STATUS_DEVICE;
  cuda_library_find(out->library, CUDA_SYMBOLS(later), out);
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
