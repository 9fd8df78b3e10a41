// The handshake.
#include "cuda.h"

static const tc_call_table *const calls[] = {
    &cuda_blas_calls, &cuda_attention_calls,          &cuda_split_calls,        &cuda_half_calls,
    &cuda_dnn_calls,  &cuda_attention_backward_calls, &cuda_dnn_attention_calls};

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  tc_plugin_desc d = {
      .name = {"cuda", 4},
      .vendor = {"tc", 2},
      .version = {CUDA_VERSION_TEXT, sizeof CUDA_VERSION_TEXT - 1},
      .build_id = {CUDA_VERSION_TEXT, sizeof CUDA_VERSION_TEXT - 1},
      .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN | TC_CAP_CALLS,
      .kernel_abi_hash = TC_KERNEL_ABI_HASH,
      .device = &cuda_device,
      .codegen = &cuda_codegen,
      .calls = calls,
      .n_calls = sizeof calls / sizeof *calls,
  };
  return tc_sdk_answer(h, &d, out);
}
