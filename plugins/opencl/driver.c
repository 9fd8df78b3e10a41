// Opening the ICD loader, which finds the drivers that are installed, and naming its results.
#include "driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tc/bundle.h"

int32_t cl_driver_open(const tc_host *h, cl_driver *out) {
  char file[PATH_MAX] = "libOpenCL.so.1", text[PATH_MAX + 300];
  int32_t named = tc_host_config(h, "library", file, sizeof file);
  *out = (cl_driver){.library = dlopen(file, RTLD_NOW | RTLD_LOCAL)};
  if (!out->library) {
    const char *reason = dlerror();
    snprintf(text, sizeof text, "cannot open '%s'%s: %s", file,
             named ? " (opencl.library)" : "; the config key opencl.library can name the file",
             reason ? reason : "unknown");
    return tc_host_report(h, TC_STATUS_DEVICE, text);
  }
  static const char *const symbols[] = {
#define X(result, field, symbol, params) symbol,
      CL_FUNCTIONS(X)
#undef X
  };
  void **const slots[] = {
#define X(result, field, symbol, params) (void **)&out->field,
      CL_FUNCTIONS(X)
#undef X
  };
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
    void *found = dlsym(out->library, symbols[i]);
    memcpy(slots[i], &found, sizeof found);
    if (found) continue;
    snprintf(text, sizeof text, "'%s' has no %s: it is no OpenCL 1.2", file, symbols[i]);
    return tc_host_report(h, TC_STATUS_DEVICE, text);
  }
  return TC_STATUS_OK;
}

static const char *code_name(cl_int code) {
  switch (code) {
#define X(name, number) \
  case number: return "CL_" #name;
    CL_CODES(X)
#undef X
  default: return "an error of its own";
  }
}

int32_t cl_driver_check(const tc_host *h, const char *what, cl_int code) {
  char text[400];
  if (code == CL_SUCCESS) return TC_STATUS_OK;
  snprintf(text, sizeof text, "%.300s: %s (%d)", what, code_name(code), (int)code);
  int32_t short_of = code == CL_MEM_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
                     code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
  return tc_host_report(h, short_of ? TC_STATUS_OUT_OF_MEMORY : TC_STATUS_DEVICE, text);
}
