// Code objects for plugins that have no format of their own: some kernels, each with its names, its launch parameters
// and whatever the vendor's compiler made of it, in one block of bytes with a checksum. Also the small things that
// every code generator needs: bytes that grow, and a value of the configuration as a C string.
//
//   bytes of a bundle:  header | an entry per kernel | names and code, at offsets from the start
//
// A bundle comes back from a cache on disk, maybe damaged: nothing of it is used before tc_bundle_check said OK, so
// that no driver ever sees bytes that its compiler did not make. Numbers are of this machine's byte order. All
// functions may be called from any thread. These are static helpers (libtc_sdk.a), no part of the interface.
#ifndef TC_BUNDLE_H_
#define TC_BUNDLE_H_

#include "tc/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that grow; zero is empty. `failed` is set, and stays, when memory is short.
typedef struct tc_bytes {
  char *data; // with a NUL behind, or NULL
  size_t size, capacity;
  int32_t failed;
} tc_bytes;
void tc_bytes_put(void *self, const char *data, size_t size); // a tc_write_fn; self is a tc_bytes
void tc_bytes_free(tc_bytes *b);

// The value of a key of the plugin's own section; 0, with text untouched, if it is not set or too long.
int32_t tc_host_config(const tc_host *h, const char *key, char *text, size_t size);
// Reports the text through the host and returns the code.
int32_t tc_host_report(const tc_host *h, int32_t code, const char *text);

typedef struct tc_bundle_kernel {
  tc_sv name;   // the kernel's
  tc_sv symbol; // what the compiled code calls it
  tc_sv code;
  int32_t lanes, n_params;
  int64_t shared_bytes; // to be given at the launch
} tc_bundle_kernel;

// Writes a bundle for `target` (which device and compiler: up to 255 bytes). A TC_STATUS_*.
int32_t tc_bundle_write(const char *target, int32_t n, const tc_bundle_kernel *kernels, const tc_sink *sink);
// OK and the number of kernels; DATA_LOSS with a static text if these bytes are not, or no longer, a bundle for
// `target`.
int32_t tc_bundle_check(const void *data, uint64_t size, const char *target, int32_t *out_n, const char **out_reason);
// Kernel i of a bundle that was checked. Texts point into it.
void tc_bundle_get(const void *data, int32_t i, tc_bundle_kernel *out);

#ifdef __cplusplus
}
#endif
#endif
