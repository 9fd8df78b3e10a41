// cc: kernels as C source, through the compiler that the host calls `cc`. What a device with a C-like compiler needs: a
// dialect table for the SDK's printer, a compiler call, loading, a launch.
//
// Memory is the host's. A block has one lane, so that collectives and barriers are nothing; blocks are spread over the
// host's threads. An object is a bundle with the compiler's shared object in it, which holds one function that runs a
// range of blocks. The key `cc.compiler` names another compiler; its name is part of what code is good for. 16-bit
// floats are not offered.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tc/bundle.h"
#include "tc/cprint.h"
#include "tc/hostmem.h"

#define VERSION "1.0"
#define BIT(type) (1ull << TC_##type)
extern char **environ;

// ---- The language ----
static const char prologue[] =
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;\n"
    "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef unsigned long long u64;\n"
    "struct tc_errors { i64 site, value; };\n"
    "static inline i32 tc_bits(float x) { i32 r; __builtin_memcpy(&r, &x, 4); return r; }\n"
    "static inline float tc_float(i32 x) { float r; __builtin_memcpy(&r, &x, 4); return r; }\n"
    "static inline i64 tc_bits2(double x) { i64 r; __builtin_memcpy(&r, &x, 8); return r; }\n"
    "static inline double tc_double(i64 x) { double r; __builtin_memcpy(&r, &x, 8); return r; }\n"
    "#define tc_to_i32(x) ((x) >= -2147483648.0 && (x) < 2147483648.0 ? (i32)(x) : -2147483647 - 1)\n"
    "#define tc_to_i64(x) ((x) >= -9223372036854775808.0 && (x) < 9223372036854775808.0 ? (i64)(x) : \\\n"
    "  -9223372036854775807ll - 1)\n"
    "#define tc_atomic_add(p, v) do { __typeof__(*(p)) *at_ = (p), old_ = *at_, new_; do new_ = old_ + (v); \\\n"
    "  while (!__atomic_compare_exchange(at_, &old_, &new_, 0, 5, 5)); } while (0)\n"
    "static void tc_check(struct tc_errors *e, i64 site) {\n"
    "  i64 none = -1;\n"
    "  __atomic_compare_exchange(&e->site, &none, &site, 0, 5, 5);\n"
    "}\n";

static const tc_cdialect dialect = {
    .prologue = prologue,
    .kernel_prefix = "static void",
    .restrict_ = "restrict",
    .block = "tc_block",
    .lane = "0",
    .barrier = ";",
    .type_names = {[TC_BOOL] = "u8",
                   [TC_U8] = "u8",
                   [TC_I8] = "i8",
                   [TC_I16] = "i16",
                   [TC_I32] = "i32",
                   [TC_I64] = "i64",
                   [TC_U16] = "u16",
                   [TC_U32] = "u32",
                   [TC_U64] = "u64",
                   [TC_F32] = "float",
                   [TC_F64] = "double"},
    .op_formats = {[TC_K_FMA] = {"__builtin_fmaf($0, $1, $2)", "__builtin_fma($0, $1, $2)"},
                   [TC_K_SQRT] = {"__builtin_sqrtf($0)", "__builtin_sqrt($0)"},
                   [TC_K_ABS] = {"__builtin_fabsf($0)", "__builtin_fabs($0)"},
                   [TC_K_FLOOR] = {"__builtin_floorf($0)", "__builtin_floor($0)"},
                   [TC_K_CEIL] = {"__builtin_ceilf($0)", "__builtin_ceil($0)"},
                   [TC_K_TRUNC] = {"__builtin_truncf($0)", "__builtin_trunc($0)"},
                   [TC_K_RINT] = {"__builtin_rintf($0)", "__builtin_rint($0)"},
                   [TC_K_REM] = {"__builtin_fmodf($0, $1)", "__builtin_fmod($0, $1)"},
                   [TC_K_COPYSIGN] = {"__builtin_copysignf($0, $1)", "__builtin_copysign($0, $1)"},
                   [TC_K_RCP_APPROX] = {"(1.0f / $0)", "(1.0 / $0)"},
                   [TC_K_MULHI] = {"(u32)((u64)(u32)$0 * (u32)$1 >> 32)",
                                   "(u64)((unsigned __int128)(u64)$0 * (u64)$1 >> 64)"}},
    .bitcast_f32_i32 = "tc_bits($0)",
    .bitcast_i32_f32 = "tc_float($0)",
    .bitcast_f64_i64 = "tc_bits2($0)",
    .bitcast_i64_f64 = "tc_double($0)",
    // The last parameters: the error block, and the block's number.
    .errors = "struct tc_errors *tc_errors, const i32 tc_block",
    .check = "if (!($0)) tc_check(tc_errors, $1);",
    .atomic_add = "tc_atomic_add($0, ($t)($1));",
    .inf_f32 = "__builtin_inff()",
    .nan_f32 = "__builtin_nanf(\"\")",
    .inf_f64 = "__builtin_inf()",
    .nan_f64 = "__builtin_nan(\"\")",
    .name_prefix = "tc_kernel_",
    .float_to_i32 = "tc_to_i32($0)",
    .float_to_i64 = "tc_to_i64($0)",
};

// ---- The device ----
struct tc_device_ {
  const tc_host *host; // first: tc/hostmem.h
  char compiler[128], target[200];
};

static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  (void)h;
  *out_count = 1;
  return TC_STATUS_OK;
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  if (index != 0) return tc_host_report(h, TC_STATUS_OUT_OF_RANGE, "there is one such device, number 0");
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  d->host = h;
  if (!tc_host_config(h, "compiler", d->compiler, sizeof d->compiler)) memcpy(d->compiler, "cc", sizeof "cc");
  snprintf(d->target, sizeof d->target, "cc " VERSION ", %s", d->compiler);
  *out = d;
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) { d->host->free(d->host->self, d); }

static int32_t properties(tc_device_ *d, tc_device_props *out) {
  const uint64_t types = BIT(BOOL) | BIT(U8) | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64) | BIT(U16) | BIT(U32) |
                         BIT(U64) | BIT(F32) | BIT(F64);
  tc_device_props p = {.name = "the host's C compiler",
                       .host_memory = 1,
                       .cores = d->host->threads(d->host->self),
                       .max_lanes = 1,
                       .shared_bytes = 65536, // of a thread's stack
                       .max_blocks = INT32_MAX,
                       .dtypes = types,
                       .arithmetic = types,
                       .atomics = BIT(I32) | BIT(U32) | BIT(I64) | BIT(U64) | BIT(F32) | BIT(F64),
                       .launch_ns = 200,
                       .flops_per_ns = 4,
                       .bytes_per_ns = 8};
  memcpy(p.target, d->target, sizeof d->target);
  tc_answer_struct(&p, sizeof p, out);
  return TC_STATUS_OK;
}

static int32_t fail(const tc_device_ *d, int32_t code, const char *what, const char *name, const char *why) {
  char text[1800];
  snprintf(text, sizeof text, "%s %.200s: %.1500s", what, name, why);
  return tc_host_report(d->host, code, text);
}

// ---- Files ----
typedef struct files {
  char folder[200], source[240], object[240], log[240];
} files;

static int32_t make_files(const tc_device_ *d, files *f) {
  const char *base = getenv("TMPDIR");
  if (!base || base[0] != '/' || strlen(base) > 150) base = "/tmp";
  snprintf(f->folder, sizeof f->folder, "%s/tc-cc-XXXXXX", base);
  if (!mkdtemp(f->folder)) {
    f->folder[0] = 0;
    return fail(d, TC_STATUS_IO, "cannot make a folder in", base, strerror(errno));
  }
  snprintf(f->source, sizeof f->source, "%s/kernel.c", f->folder);
  snprintf(f->object, sizeof f->object, "%s/kernel.so", f->folder);
  snprintf(f->log, sizeof f->log, "%s/log", f->folder);
  return TC_STATUS_OK;
}

static void remove_files(const files *f) {
  if (!f->folder[0]) return;
  unlink(f->source);
  unlink(f->object);
  unlink(f->log);
  rmdir(f->folder);
}

static int32_t write_file(const tc_device_ *d, const char *path, const char *data, size_t size) {
  FILE *out = fopen(path, "wb");
  int32_t ok = out && (!size || fwrite(data, 1, size, out) == size);
  if (out && fclose(out) != 0) ok = 0;
  return ok ? TC_STATUS_OK : fail(d, TC_STATUS_IO, "cannot write", path, strerror(errno));
}

static void read_file(const char *path, tc_bytes *out) {
  char part[4096];
  FILE *in = fopen(path, "rb");
  for (size_t n; in && (n = fread(part, 1, sizeof part, in)) > 0;) tc_bytes_put(out, part, n);
  if (in) fclose(in);
}

// ---- Compiling ----
static void put(tc_bytes *b, const char *text) { tc_bytes_put(b, text, strlen(text)); }

// The one function of an object: it unpacks words and runs blocks [first, end).
static void put_runner(const tc_kernel *k, tc_bytes *b) {
  char line[200];
  put(b, "void tc_run(const u64 *w, i64 first, i64 end, struct tc_errors *e) {\n"
         "  for (i64 b = first; b < end; b++)\n    ");
  tc_cprint_name(k, &dialect, tc_bytes_put, b);
  put(b, "(");
  for (int32_t i = 0; i < tc_k_param_count(k); i++) {
    tc_kparam p;
    tc_kscalar_info s;
    tc_k_param(k, i, &p);
    if (p.is_scalar) tc_k_scalar(k, p.index, &s);
    if (p.is_scalar) snprintf(line, sizeof line, "*(const %s *)&w[%d], ", dialect.type_names[s.dtype], (int)i);
    else snprintf(line, sizeof line, "(void *)w[%d], ", (int)i);
    put(b, line);
  }
  put(b, "e, (i32)b);\n}\n");
}

static int32_t run_compiler(const tc_device_ *d, const files *f, const char *name) {
  char *const arguments[] = {(char *)d->compiler,
                             (char *)"-O2",
                             (char *)"-shared",
                             (char *)"-fPIC",
                             (char *)"-w",
                             (char *)"-ffp-contract=off",
                             (char *)"-fno-strict-aliasing",
                             (char *)"-fwrapv",
                             (char *)"-o",
                             (char *)f->object,
                             (char *)f->source,
                             (char *)"-lm",
                             NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int status = 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, f->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  int code = posix_spawnp(&pid, d->compiler, &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code) return fail(d, TC_STATUS_PLUGIN, "cannot start the compiler", d->compiler, strerror(code));
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return TC_STATUS_OK;
  tc_bytes log = {0};
  read_file(f->log, &log);
  code = fail(d, TC_STATUS_PLUGIN, "the compiler refuses the kernel", name, log.data ? log.data : "without a word");
  tc_bytes_free(&log);
  return code;
}

static int32_t compile_kernel(const tc_device_ *d, const tc_kernel *k, tc_bytes *source, tc_bytes *object) {
  files f = {{0}, {0}, {0}, {0}};
  tc_sv why = {"", 0}, name = tc_k_name(k);
  char words[200], z[200];
  snprintf(z, sizeof z, "%.*s", (int)(name.size < sizeof z ? name.size : sizeof z - 1), name.data);
  if (tc_k_lanes(k) != 1) return fail(d, TC_STATUS_INVALID_ARGUMENT, "in the kernel", z, "there is more than one lane");
  if (tc_cprint(k, &dialect, tc_bytes_put, source, &why) != TC_STATUS_OK) {
    snprintf(words, sizeof words, "%.*s is not done", (int)(why.size < 150 ? why.size : 150), why.data);
    return fail(d, TC_STATUS_UNIMPLEMENTED, "in the kernel", z, words);
  }
  put_runner(k, source);
  if (source->failed) return TC_STATUS_OUT_OF_MEMORY;
  int32_t code = make_files(d, &f);
  if (code == TC_STATUS_OK) code = write_file(d, f.source, source->data, source->size);
  if (code == TC_STATUS_OK) code = run_compiler(d, &f, z);
  if (code == TC_STATUS_OK) read_file(f.object, object);
  remove_files(&f);
  return code == TC_STATUS_OK && object->failed ? TC_STATUS_OUT_OF_MEMORY : code;
}

static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  int32_t code = TC_STATUS_OK;
  tc_bundle_kernel *rows = h->alloc(h->self, (uint64_t)(n + 1) * sizeof *rows);
  tc_bytes *objects = h->alloc(h->self, (uint64_t)(n + 1) * sizeof *objects);
  (void)optimize;
  if (!rows || !objects) code = TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < n && code == TC_STATUS_OK; i++) {
    tc_bytes source = {0};
    code = compile_kernel(d, kernels[i], &source, &objects[i]);
    if (code == TC_STATUS_OK && text) code = text->write(text->self, source.data, source.size);
    tc_bytes_free(&source);
    rows[i] = (tc_bundle_kernel){.name = tc_k_name(kernels[i]),
                                 .symbol = {"tc_run", 6},
                                 .code = {objects[i].data, objects[i].size},
                                 .lanes = 1,
                                 .n_params = tc_k_param_count(kernels[i])};
  }
  if (code == TC_STATUS_OK) code = tc_bundle_write(d->target, n, rows, sink);
  for (int32_t i = 0; objects && i < n; i++) tc_bytes_free(&objects[i]);
  h->free(h->self, objects);
  h->free(h->self, rows);
  return code;
}

static int32_t key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  (void)h;
  return sink->write(sink->self, d->target, strlen(d->target));
}
static const tc_codegen_table codegen = {.struct_size = sizeof codegen, .compile = compile, .key = key};

// ---- Loading ----
typedef void (*run_fn)(const uint64_t *words, int64_t first, int64_t end, tc_error_block *errors);
typedef struct function {
  void *object;
  run_fn run;
  int32_t n_params, name_size;
  char name[256];
} function;
typedef struct module {
  int32_t n;
  function functions[];
} module;

// The loader wants a file; the name is gone as soon as it is open.
static int32_t load_function(const tc_device_ *d, const tc_bundle_kernel *k, function *f) {
  files at = {{0}, {0}, {0}, {0}};
  if (k->name.size >= sizeof f->name)
    return tc_host_report(d->host, TC_STATUS_DATA_LOSS, "a kernel's name is too long");
  memcpy(f->name, k->name.data, k->name.size);
  f->name_size = (int32_t)k->name.size, f->n_params = k->n_params;
  int32_t code = make_files(d, &at);
  if (code == TC_STATUS_OK) code = write_file(d, at.object, k->code.data, k->code.size);
  if (code == TC_STATUS_OK) {
    f->object = dlopen(at.object, RTLD_NOW | RTLD_LOCAL);
    void *symbol = f->object ? dlsym(f->object, "tc_run") : NULL;
    if (symbol) memcpy(&f->run, &symbol, sizeof symbol);
    else code = fail(d, TC_STATUS_DATA_LOSS, "cannot load the kernel", f->name, dlerror());
  }
  remove_files(&at);
  return code;
}

static void module_unload(tc_device_ *d, tc_handle handle) {
  module *m = (module *)(uintptr_t)handle;
  for (int32_t i = 0; m && i < m->n; i++)
    if (m->functions[i].object) dlclose(m->functions[i].object);
  d->host->free(d->host->self, m);
}

static int32_t module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out) {
  const char *reason = "";
  int32_t n = 0, code = tc_bundle_check(blob, size, d->target, &n, &reason);
  if (code != TC_STATUS_OK) return fail(d, code, "this is no object of", d->target, reason);
  module *m = d->host->alloc(d->host->self, sizeof *m + (uint64_t)n * sizeof(function));
  if (!m) return TC_STATUS_OUT_OF_MEMORY;
  for (m->n = 0; m->n < n && code == TC_STATUS_OK; m->n++) {
    tc_bundle_kernel k;
    tc_bundle_get(blob, m->n, &k);
    code = load_function(d, &k, &m->functions[m->n]);
  }
  if (code == TC_STATUS_OK) *out = (tc_handle)(uintptr_t)m;
  else module_unload(d, (tc_handle)(uintptr_t)m);
  return code;
}

static int32_t find_function(tc_device_ *d, tc_handle handle, tc_sv name, tc_handle *out) {
  module *m = (module *)(uintptr_t)handle;
  char z[200];
  for (int32_t i = 0; i < m->n; i++) {
    const function *f = &m->functions[i];
    if ((size_t)f->name_size != name.size || memcmp(f->name, name.data, name.size) != 0) continue;
    *out = (tc_handle)(uintptr_t)f;
    return TC_STATUS_OK;
  }
  snprintf(z, sizeof z, "%.*s", (int)(name.size < sizeof z ? name.size : sizeof z - 1), name.data);
  return fail(d, TC_STATUS_NOT_FOUND, "the module has no kernel", z, "it was not compiled with it");
}

// ---- Launching ----
typedef struct launched {
  const function *f;
  const uint64_t *words;
  tc_error_block *errors;
} launched;
static void run_blocks(void *arg, int64_t first, int64_t end) {
  const launched *l = arg;
  l->f->run(l->words, first, end, l->errors);
}

static int32_t launch(tc_device_ *d, tc_handle stream, const tc_launch *l) {
  const function *f = (const function *)(uintptr_t)l->function;
  tc_error_block none = {-1, 0};
  (void)stream;
  if (l->blocks <= 0) return TC_STATUS_OK;
  if (l->n_args != f->n_params)
    return fail(d, TC_STATUS_INVALID_ARGUMENT, "cannot launch", f->name, "the number of arguments is another");
  uint64_t *words = d->host->alloc(d->host->self, (uint64_t)(l->n_args + 1) * sizeof *words);
  if (!words) return TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < l->n_args; i++)
    words[i] = l->args[i].kind == TC_ARG_MEMORY ? l->args[i].value + (uint64_t)l->args[i].offset : l->args[i].value;
  launched all = {f, words, l->errors ? tc_hostmem_at(l->errors, 0) : &none};
  d->host->parallel_for(d->host->self, l->blocks, l->grain > 0 ? l->grain : 1, run_blocks, &all);
  d->host->free(d->host->self, words);
  return TC_STATUS_OK;
}

static const tc_device_table device = {.struct_size = sizeof device,
                                       .enumerate = enumerate,
                                       .open = open_device,
                                       .close = close_device,
                                       .properties = properties,
                                       TC_HOSTMEM_SLOTS,
                                       .module_load = module_load,
                                       .module_unload = module_unload,
                                       .function = find_function,
                                       .launch = launch};

// ---- The handshake ----
TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  static const char build[] = "cc " VERSION ", " __DATE__ " " __TIME__;
  const tc_plugin_desc d = {.name = {"cc", 2},
                            .vendor = {"example", 7},
                            .version = {VERSION, sizeof VERSION - 1},
                            .build_id = {build, sizeof build - 1},
                            .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN,
                            .kernel_abi_hash = TC_KERNEL_ABI_HASH,
                            .device = &device,
                            .codegen = &codegen};
  return tc_sdk_answer(h, &d, out);
}
