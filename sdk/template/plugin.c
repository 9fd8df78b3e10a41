// The handshake.
#include "template.h"

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  static const char build[] = "template " TEMPLATE_VERSION ", " __DATE__ " " __TIME__;
  const tc_plugin_desc d = {.name = {"template", 8},
                            .vendor = {"example", 7},
                            .version = {TEMPLATE_VERSION, sizeof TEMPLATE_VERSION - 1},
                            .build_id = {build, sizeof build - 1},
                            .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN,
                            .kernel_abi_hash = TC_KERNEL_ABI_HASH,
                            .device = &template_device,
                            .codegen = &template_codegen};
  return tc_sdk_answer(h, &d, out);
}
