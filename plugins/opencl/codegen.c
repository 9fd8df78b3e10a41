// Kernels to code objects: printed as OpenCL C, compiled by the driver, kept as its program binary in a bundle.
//
// Each kernel is a program of its own. Limits are looked at here, where a kernel can still be refused with words: some
// drivers abort at the launch.
#include <code_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#include "tc/cprint.h"

enum { MOST_LOG = 1600 };

// ---- Building ----
static int32_t refuse(tc_device_ *d, const char *name, const char *why, const char *log) {
  char text[MOST_LOG + 400];
  snprintf(text, sizeof text, "the kernel %.120s %s%s%.*s", name, why, log ? ":\n" : "", MOST_LOG, log ? log : "");
  return tc_host_report(d->host, TC_STATUS_PLUGIN, text);
}

static cl_int build_quietly(const tc_device_ *d, cl_program p) {
  char options[120];
  snprintf(options, sizeof options, "-w -cl-std=%s%s", d->what & TC_OPENCL_SUBGROUPS ? "CL3.0" : "CL1.2",
           d->rounded_divide ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
  return d->driver.program_build(p, 1, &d->device, options, NULL, NULL);
}

int32_t opencl_build(tc_device_ *d, cl_program p, const char *name) {
  cl_int code = build_quietly(d, p);
  if (code == CL_SUCCESS) return TC_STATUS_OK;
  if (code != CL_BUILD_PROGRAM_FAILURE) return opencl_check(d, "clBuildProgram", code);
  size_t size = 0;
  char *log = NULL;
  if (d->driver.build_info(p, d->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS && size)
    log = calloc(1, size + 1);
  if (log) d->driver.build_info(p, d->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  int32_t s = refuse(d, name, "is refused by the driver's compiler", log);
  free(log);
  return s;
}

// The binary of a built program, to be freed.
static int32_t binary_of(tc_device_ *d, cl_program p, tc_bytes *out) {
  size_t size = 0;
  int32_t s =
      opencl_check(d, "clGetProgramInfo", d->driver.program_info(p, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL));
  if (s != TC_STATUS_OK) return s;
  unsigned char *data = malloc(size + !size);
  if (!data) return TC_STATUS_OUT_OF_MEMORY;
  s = opencl_check(d, "clGetProgramInfo", d->driver.program_info(p, CL_PROGRAM_BINARIES, sizeof data, &data, NULL));
  *out = (tc_bytes){.data = (char *)data, .size = size, .capacity = size};
  return s;
}

// ---- The dialect ----
enum { HALF_AS_EXPECTED = 7 }; // of CL_DEVICE_HALF_FP: subnormal numbers, infinities and NaN, rounding to nearest

// Is it one of the names, which blanks divide?
static int32_t is_among(const char *names, const char *name) {
  const size_t size = strlen(name);
  for (const char *at = names; (at = strstr(at, name)); at += size)
    if ((at == names || at[-1] == ' ') && (at[size] == ' ' || at[size] == 0)) return 1;
  return 0;
}

// What the device says that it has.
static uint32_t declared(const tc_device_ *d) {
  static char const words[] = "OpenCL ";
  char names[8192] = "", version[256] = "";
  uint64_t half = 0;
  uint32_t what = 0;
  d->driver.device_info(d->device, CL_DEVICE_EXTENSIONS, sizeof names - 1, names, NULL);
  d->driver.device_info(d->device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
  if (is_among(names, "cl_nv_compiler_options")) return TC_OPENCL_NVIDIA | TC_OPENCL_TILES;
  if (is_among(names, "cl_khr_fp16") &&
      d->driver.device_info(d->device, CL_DEVICE_HALF_FP, sizeof half, &half, NULL) == CL_SUCCESS &&
      (half & HALF_AS_EXPECTED) == HALF_AS_EXPECTED)
    what |= TC_OPENCL_FP16;
  if (version[sizeof words - 1] >= '3' && is_among(names, "cl_khr_subgroups") &&
      is_among(names, "cl_khr_subgroup_shuffle"))
    what |= TC_OPENCL_SUBGROUPS;
  return what;
}

// A kernel that uses the dialect's own functions. What a compiler does not take is not used.
static int32_t takes(tc_device_ *d, uint32_t what, const char *statements) {
  const char *texts[8] = {0};
  char kernel[300];
  cl_uint n = 0;
  cl_int code = CL_SUCCESS;
  d->what = what;
  tc_dialect_opencl_with(what, &d->dialect);
  texts[n++] = d->dialect.prologue;
  for (size_t i = 0; i < sizeof d->dialect.more / sizeof *d->dialect.more; i++)
    if (d->dialect.more[i]) texts[n++] = d->dialect.more[i];
  snprintf(kernel, sizeof kernel,
           "__kernel void tc_probe(__global float *p) { float x = p[get_local_id(0)]; %s; p[get_local_id(0)] = x; }\n",
           statements);
  texts[n++] = kernel;
  cl_program p = d->driver.program_source(d->context, n, texts, NULL, &code);
  if (code != CL_SUCCESS) return 0;
  code = build_quietly(d, p);
  d->driver.program_release(p);
  return code == CL_SUCCESS;
}

void opencl_choose_dialect(tc_device_ *d) {
  static const struct {
    uint32_t what;
    const char *name, *statements;
  } rows[] = {
      {TC_OPENCL_NVIDIA, "; ptx", "x = tc_rcp(tc_quotient(tc_shuffle_xor(x, 1), tc_half_load(tc_half_store(x))))"},
      {TC_OPENCL_NVIDIA | TC_OPENCL_TILES, "; tiles",
       "float y, z, w; tc_mma_bf16(x, y, z, w, 0, 0, 0, 0, 0, 0, x, x, x, x); x += y + z + w"},
      {TC_OPENCL_FP16, "; fp16", "x = tc_half_load(tc_half_store(x))"},
      {TC_OPENCL_SUBGROUPS, "; subgroups", "x = sub_group_shuffle_xor(x, 1u) * (float)get_num_sub_groups()"}};
  char plain[8];
  uint32_t what = 0, asked = declared(d);
  if (tc_host_config(d->host, "plain", plain, sizeof plain) && strcmp(plain, "false") != 0) asked = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t used = strlen(d->props.target);
    if ((asked & rows[i].what) != rows[i].what || !takes(d, rows[i].what, rows[i].statements)) continue;
    what |= rows[i].what;
    snprintf(d->props.target + used, sizeof d->props.target - used, "%s", rows[i].name);
  }
  d->what = what;
  tc_dialect_opencl_with(what, &d->dialect);
  if (what & TC_OPENCL_TILES) d->props.tiles = 1ull << TC_BF16 | 1ull << TC_F16;
}

// ---- One kernel ----
typedef struct compiled {
  tc_bytes source, symbol, name, code;
} compiled;

static void free_compiled(compiled *c) {
  tc_bytes_free(&c->source);
  tc_bytes_free(&c->symbol);
  tc_bytes_free(&c->name);
  tc_bytes_free(&c->code);
}

static int32_t within_limits(tc_device_ *d, const tc_kernel *k, const char *name) {
  char text[200];
  size_t parameters = sizeof(cl_mem);
  for (int32_t i = 0; i < tc_k_param_count(k); i++) {
    tc_kparam p;
    tc_k_param(k, i, &p);
    parameters += p.is_scalar ? 8 : sizeof(cl_mem) + 8;
  }
  if ((size_t)tc_k_lanes(k) > d->work_group)
    snprintf(text, sizeof text, "has %d lanes, the device takes %zu", (int)tc_k_lanes(k), d->work_group);
  else if (parameters > d->parameter_bytes)
    snprintf(text, sizeof text, "has %zu bytes of parameters, the device takes %zu", parameters, d->parameter_bytes);
  else return TC_STATUS_OK;
  return refuse(d, name, text, NULL);
}

static int32_t compile_kernel(tc_device_ *d, const tc_kernel *k, compiled *c) {
  tc_sv reason = {0};
  char text[200];
  tc_bytes_put(&c->name, tc_k_name(k).data, tc_k_name(k).size);
  if (c->name.failed) return TC_STATUS_OUT_OF_MEMORY;
  int32_t s = within_limits(d, k, c->name.data);
  if (s != TC_STATUS_OK) return s;
  if (tc_cprint(k, &d->dialect, tc_bytes_put, &c->source, &reason) != TC_STATUS_OK) {
    snprintf(text, sizeof text, "uses what this device does not do: %.*s", (int)(reason.size < 120 ? reason.size : 120),
             reason.data);
    return tc_host_report(d->host, TC_STATUS_UNIMPLEMENTED, text);
  }
  tc_cprint_name(k, &d->dialect, tc_bytes_put, &c->symbol);
  if (c->source.failed || c->symbol.failed) return TC_STATUS_OUT_OF_MEMORY;
  cl_int code = CL_SUCCESS;
  const char *source = c->source.data;
  cl_program p = d->driver.program_source(d->context, 1, &source, &c->source.size, &code);
  s = opencl_check(d, "clCreateProgramWithSource", code);
  if (s != TC_STATUS_OK) return s;
  s = opencl_build(d, p, c->name.data);
  if (s == TC_STATUS_OK) s = binary_of(d, p, &c->code);
  d->driver.program_release(p);
  return s;
}

// ---- The table ----
static tc_sv sv(const tc_bytes *b) { return (tc_sv){b->data, b->size}; }

static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  (void)h, (void)optimize;
  int32_t s = TC_STATUS_OK;
  compiled *parts = calloc((size_t)n + 1, sizeof *parts);
  tc_bundle_kernel *rows = calloc((size_t)n + 1, sizeof *rows);
  if (!parts || !rows) s = TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < n && s == TC_STATUS_OK; i++) {
    s = compile_kernel(d, kernels[i], &parts[i]);
    if (s != TC_STATUS_OK) break;
    rows[i] = (tc_bundle_kernel){.name = sv(&parts[i].name),
                                 .symbol = sv(&parts[i].symbol),
                                 .code = sv(&parts[i].code),
                                 .lanes = tc_k_lanes(kernels[i]),
                                 .n_params = tc_k_param_count(kernels[i])};
    if (text) s = text->write(text->self, parts[i].source.data, parts[i].source.size);
  }
  if (s == TC_STATUS_OK) s = tc_bundle_write(d->props.target, n, rows, sink);
  for (int32_t i = 0; parts && i < n; i++) free_compiled(&parts[i]);
  free(parts);
  free(rows);
  return s;
}

static int32_t key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  char text[400];
  (void)h;
  int n = snprintf(text, sizeof text, "opencl codegen %s, %s", TC_CODE_VERSION, d->props.target);
  return sink->write(sink->self, text, (uint64_t)n);
}

const tc_codegen_table opencl_codegen = {
    .struct_size = sizeof opencl_codegen, .compile = compile, .key = key, .source_language = {"opencl", 6}};
