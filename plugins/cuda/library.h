// Opening the vendor's libraries at run time.
#ifndef TC_PLUGINS_CUDA_LIBRARY_H_
#define TC_PLUGINS_CUDA_LIBRARY_H_

#include <stddef.h>

#include "tc/plugin.h"

// A function that is looked up by its name, and where in the caller's structure its address is put.
typedef struct cuda_symbol {
  const char *name;
  size_t offset;
} cuda_symbol;

typedef struct cuda_library_source {
  const char *title;    // the library in words
  const char *key;      // of the configuration, which can name the file
  const char *names[4]; // in the loader's path; the rest NULL
  const char *pattern;  // of files in the toolkit's folders and in Python's nvidia packages; NULL: it is in neither
  const char *why;      // a function may be missing: behind the message that says so
  size_t n_symbols;
  const cuda_symbol *symbols;
} cuda_library_source;
#define CUDA_SYMBOLS(list) sizeof(list) / sizeof *(list), (list) // a list's length, and the list

// The value of a key of the plugin's section as a C string in `text`; 0 if it is not set (or too long).
int32_t cuda_config(const tc_host *h, const char *key, char *text, size_t size);
// Opens a library: the file of the config key if that is set; else by its names in the loader's path; else what fits
// the pattern. `out` is a structure that begins with a void * for the library; its functions are put where the source
// says. 0, with the reason in `text`, if the library is not there or lacks a function.
int32_t cuda_library_open(const tc_host *h, const cuda_library_source *from, void *out, char *text, size_t size);
// Loads the file, and nothing else.
void cuda_library_preload(const tc_host *h, const cuda_library_source *from);
// Looks functions up; one that is missing is NULL in `out`. The name of the first of these, or NULL.
const char *cuda_library_find(void *library, size_t n, const cuda_symbol *symbols, void *out);
// Writes the version that the library's function `symbol` gives, 130100 for 13.1.0 (8907 for 8.9.7).
void cuda_library_version(void *library, const char *symbol, char *text, size_t size);

#endif
