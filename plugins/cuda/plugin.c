// The handshake.
#include "cuda.h"

static const tc_call_table *const calls[] = {
    &cuda_blas_calls, &cuda_attention_calls,          &cuda_split_calls,         &cuda_half_calls,
    &cuda_dnn_calls,  &cuda_attention_backward_calls, &cuda_dnn_attention_calls, &cuda_fft_calls};
enum { N_CALLS = sizeof calls / sizeof *calls };
// The same where the configuration asks for cuFFT.
static const tc_call_table *const calls_asked[N_CALLS] = {
    &cuda_blas_calls, &cuda_attention_calls,          &cuda_split_calls,         &cuda_half_calls,
    &cuda_dnn_calls,  &cuda_attention_backward_calls, &cuda_dnn_attention_calls, &cuda_fft_asked_calls};

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
      .n_calls = N_CALLS,
  };
  int32_t s = tc_sdk_answer(h, &d, out);
  // The host's functions may be used now.
  if (s == TC_STATUS_OK && cuda_fft_wished(h, "cufft")) out->calls = calls_asked;
  return s;
}
