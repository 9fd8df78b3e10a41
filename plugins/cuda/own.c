// Device code that is written by hand: compiled and loaded when it is first asked for.
#include <stdio.h>
#include <string.h>

#include "cuda.h"

int32_t cuda_own_code(tc_device_ *d, const char *source, const char *arch, const char *const *names, int32_t n,
                      int32_t shared_bytes, cu_module *out_module, cu_function *out) {
  char *log = NULL, what[80];
  void *code = NULL;
  size_t size = 0;
  cu_module module = NULL;
  const char *last = names[n - 1];
  int32_t s = cuda_nvrtc_compile(d->host, &d->compiler, source, arch, &code, &size, &log);
  snprintf(what, sizeof what, "%s does not compile", last);
  if (s != TC_STATUS_OK) cuda_report(d->host, s, log ? log : what);
  else s = cuda_judge_spills(d, (tc_sv){last, strlen(last)}, log);
  if (s == TC_STATUS_OK) s = cuda_check(d, "cuModuleLoadData", d->driver.module_load(&module, code));
  for (int32_t i = 0; i < n && s == TC_STATUS_OK; i++)
    s = cuda_check(d, "cuModuleGetFunction", d->driver.module_function(&out[i], module, names[i]));
  if (s == TC_STATUS_OK)
    s = cuda_check(d, "cuFuncSetAttribute", d->driver.function_set(out[n - 1], CU_FUNC_DYNAMIC_SHARED, shared_bytes));
  if (s == TC_STATUS_OK) *out_module = module;
  else if (module) d->driver.module_unload(module);
  if (code) d->host->free(d->host->self, code);
  if (log) d->host->free(d->host->self, log);
  return s;
}
