// The handshake.
#include "opencl.h"

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  tc_plugin_desc d = {
      .name = {"opencl", 6},
      .vendor = {"tc", 2},
      .version = {OPENCL_VERSION_TEXT, sizeof OPENCL_VERSION_TEXT - 1},
      .build_id = {OPENCL_VERSION_TEXT, sizeof OPENCL_VERSION_TEXT - 1},
      .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN,
      .kernel_abi_hash = TC_KERNEL_ABI_HASH,
      .device = &opencl_device,
      .codegen = &opencl_codegen,
  };
  return tc_sdk_answer(h, &d, out);
}
