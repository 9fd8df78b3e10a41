// Where the vendor's libraries are looked for (the configuration, the loader's path, the toolkit's usual folders, and
// the nvidia packages of the Python environments that are active or on the path), and how their functions are found.
//
// A file that is found by a folder's pattern is taken in the order of its name, the longest version last, so that
// "libnvrtc.so.13" wins over "libnvrtc.so.12".
#include "library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t cuda_config(const tc_host *h, const char *key, char *text, size_t size) {
  tc_sv value = h->config(h->self, (tc_sv){key, strlen(key)});
  if (!value.size || value.size >= size) return 0;
  memcpy(text, value.data, value.size);
  text[value.size] = 0;
  return 1;
}

// The last file that fits and can be opened.
static void *open_pattern(const char *pattern) {
  glob_t found = {0};
  void *library = NULL;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = found.gl_pathc; i-- > 0 && !library;) {
      if (!strstr(found.gl_pathv[i], ".alt.")) library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    }
  }
  globfree(&found);
  return library;
}

static void *open_below(const char *prefix, size_t prefix_size, const char *folder, const char *pattern) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof path, "%.*s/%s/%s", (int)prefix_size, prefix, folder, pattern);
  return n > 0 && (size_t)n < sizeof path ? open_pattern(path) : NULL;
}

// Python environments: of the variables, and those whose bin folder is on the path.
static void *open_python(const char *pattern) {
  static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
  static const char *const folders[] = {"lib/python3*/site-packages/nvidia/*/lib",
                                        "lib/python3*/dist-packages/nvidia/*/lib"};
  void *library = NULL;
  for (size_t f = 0; f < 2 && !library; f++) {
    for (size_t i = 0; i < 2 && !library; i++) {
      const char *prefix = secure_getenv(variables[i]);
      if (prefix) library = open_below(prefix, strlen(prefix), folders[f], pattern);
    }
    const char *path = secure_getenv("PATH");
    for (const char *at = path; at && *at && !library;) {
      size_t size = strcspn(at, ":");
      if (at[0] == '/' && size > 4 && memcmp(at + size - 4, "/bin", 4) == 0)
        library = open_below(at, size - 4, folders[f], pattern);
      at += size + (at[size] == ':');
    }
    const char *home = secure_getenv("HOME");
    if (!library && home) {
      char local[PATH_MAX];
      int n = snprintf(local, sizeof local, "%s/.local", home);
      if (n > 0 && (size_t)n < sizeof local) library = open_below(local, (size_t)n, folders[f], pattern);
    }
  }
  return library;
}

const char *cuda_library_find(void *library, size_t n, const cuda_symbol *symbols, void *out) {
  const char *missing = NULL;
  for (size_t i = 0; i < n; i++) {
    void *p = dlsym(library, symbols[i].name);
    if (!p && !missing) missing = symbols[i].name;
    memcpy((char *)out + symbols[i].offset, &p, sizeof p);
  }
  return missing;
}

void cuda_library_version(void *library, const char *symbol, char *text, size_t size) {
  size_t (*version)(void);
  cuda_library_find(library, 1, &(cuda_symbol){symbol, 0}, &version);
  size_t n = version ? version() : 0, high = n < 10000 ? 1000 : 10000;
  snprintf(text, size, "%zu.%zu.%zu", n / high, n % high / 100, n % 100);
}

static void *open_file(const tc_host *h, const cuda_library_source *from, char *why, size_t why_size) {
  static const char *const toolkits[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-[0-9]*/lib64", "/opt/cuda/lib64"};
  char file[PATH_MAX];
  if (cuda_config(h, from->key, file, sizeof file)) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror();
    if (!library)
      snprintf(why, why_size, "cannot open '%s' (cuda.%s): %s", file, from->key, reason ? reason : "unknown");
    return library;
  }
  void *library = NULL;
  const char *pattern = from->pattern;
  for (const char *const *name = from->names; *name && !library; name++) library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; pattern && !library && i < sizeof toolkits / sizeof *toolkits; i++)
    library = open_below(toolkits[i], strlen(toolkits[i]), ".", pattern);
  if (pattern && !library) library = open_python(pattern);
  if (!library)
    snprintf(why, why_size, "%s not found%s; the config key cuda.%s can name the file", from->names[0],
             pattern ? " (loader's path, /usr/local/cuda*, Python's nvidia packages)" : "", from->key);
  return library;
}

void cuda_library_preload(const tc_host *h, const cuda_library_source *from) {
  char why[600];
  open_file(h, from, why, sizeof why);
}

int32_t cuda_library_open(const tc_host *h, const cuda_library_source *from, void *out, char *text, size_t size) {
  void *library = open_file(h, from, text, size);
  memcpy(out, &library, sizeof library);
  if (!library) return 0;
  const char *missing = cuda_library_find(library, from->n_symbols, from->symbols, out);
  if (missing) snprintf(text, size, "%s lacks %s%s", from->title, missing, from->why);
  return !missing;
}
