// Opening the vendor's libraries at run time.
#ifndef TC_PLUGINS_CUDA_LIBRARY_H_
#define TC_PLUGINS_CUDA_LIBRARY_H_

#include "tc/plugin.h"

// The value of a key of the plugin's section as a C string in `text`; 0 if it is not set (or too long).
int32_t cuda_config(const tc_host *h, const char *key, char *text, size_t size);
// Opens a library: the file of the config key if that is set; else by its names in the loader's path; else NAME.so* in
// the toolkit's folders and in Python's nvidia packages. NULL, with the reason in `why`.
void *cuda_library_open(const tc_host *h, const char *key, const char *const *names, const char *pattern, char *why,
                        size_t why_size);
// Writes the version that the library's function `symbol` gives, 130100 for 13.1.0 (8907 for 8.9.7).
void cuda_library_version(void *library, const char *symbol, char *text, size_t size);

#endif
