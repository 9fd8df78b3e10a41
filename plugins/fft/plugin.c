// The handshake.
#include "fft.h"

static const tc_template_table *const templates[] = {&fft_template};

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  tc_plugin_desc d = {
      .name = {"fft", 3},
      .vendor = {"tc", 2},
      .version = {FFT_VERSION, sizeof FFT_VERSION - 1},
      .build_id = {FFT_VERSION, sizeof FFT_VERSION - 1},
      .capabilities = TC_CAP_OPS | TC_CAP_TEMPLATES,
      .kernel_abi_hash = TC_KERNEL_ABI_HASH,
      .ops = fft_ops,
      .n_ops = fft_op_count,
      .templates = templates,
      .n_templates = 1,
  };
  return tc_sdk_answer(h, &d, out);
}
