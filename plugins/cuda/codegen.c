// Kernels to code objects: printed as CUDA C++, compiled by NVRTC for the device's architecture.
//
// Each kernel is a program of its own. What ptxas says of registers and spills goes behind the source where a text is
// asked for; spills are a perf hint, or, with the config key spills = "error", a failure.
#include <code_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "library.h"
#include "tables.h"

#include "tc/cprint.h"

// ---- Texts that grow ----
typedef struct buffer {
  char *data;
  size_t size, capacity;
  int32_t failed;
} buffer;

static void append(void *self, const char *data, size_t size) {
  buffer *b = self;
  if (b->failed) return;
  if (b->size + size + 1 > b->capacity) {
    size_t capacity = (b->size + size + 1) * 2 + 4096;
    char *more = realloc(b->data, capacity);
    if (!more) {
      b->failed = 1;
      return;
    }
    b->data = more, b->capacity = capacity;
  }
  memcpy(b->data + b->size, data, size);
  b->size += size;
  b->data[b->size] = 0;
}

static void align(buffer *b, size_t to) {
  static const char zeros[64];
  append(b, zeros, (to - b->size % to) % to);
}

// ---- The compiler ----
static int32_t open_nvrtc(tc_device_ *d, char *text, size_t size) {
  return cuda_nvrtc_open(d->host, &d->compiler, text, size);
}
int32_t cuda_compiler(tc_device_ *d) { return cuda_open_once(d, &d->compiler_library, open_nvrtc, TC_STATUS_PLUGIN); }

// "12 bytes spill stores" with a number other than 0?
static int32_t spills(const char *log) {
  static const char mark[] = " bytes spill stores";
  for (const char *at = log ? strstr(log, mark) : NULL; at; at = strstr(at + 1, mark)) {
    if (at > log && (at[-1] != '0' || (at - 1 > log && at[-2] >= '0' && at[-2] <= '9'))) return 1;
  }
  return 0;
}

int32_t cuda_judge_spills(tc_device_ *d, tc_sv name, const char *log) {
  char text[400], wish[16];
  if (!spills(log)) return TC_STATUS_OK;
  const char *line = strstr(log, " bytes stack frame");
  while (line && line > log && line[-1] != '\n') line--;
  snprintf(text, sizeof text, "the kernel %.*s spills registers: %.120s", (int)(name.size < 120 ? name.size : 120),
           name.data, line ? line : "");
  text[strcspn(text, "\n")] = 0;
  if (cuda_config(d->host, "spills", wish, sizeof wish) && strcmp(wish, "error") == 0)
    return cuda_report(d->host, TC_STATUS_PLUGIN, text);
  d->host->log(d->host->self, TC_ARTIFACT_PERF_HINTS, (tc_sv){text, strlen(text)});
  return TC_STATUS_OK;
}

static int32_t refuse(tc_device_ *d, tc_sv name, const char *why, const char *log) {
  char text[2000];
  snprintf(text, sizeof text, "the kernel %.*s %s%s%.1600s", (int)(name.size < 120 ? name.size : 120), name.data, why,
           log ? ":\n" : "", log ? log : "");
  return cuda_report(d->host, TC_STATUS_PLUGIN, text);
}

// ---- One kernel ----
typedef struct compiled {
  buffer source, symbol;
  void *code; // of the host's allocator
  size_t code_size;
  char *log; // the same
} compiled;

static void free_compiled(tc_device_ *d, compiled *c) {
  free(c->source.data);
  free(c->symbol.data);
  if (c->code) d->host->free(d->host->self, c->code);
  if (c->log) d->host->free(d->host->self, c->log);
}

// Does the kernel take the compiler most of half a second?
static int32_t is_large(const tc_kernel *k) {
  enum { MANY_INSTRUCTIONS = 3000 };
  return tc_k_inst_count(k) > MANY_INSTRUCTIONS;
}

// Tables of large kernels are left blank: a sixth to a fifth of their time. Of others they are not, since a compiler
// that does not know that they are constant loads them anew behind each barrier: a hundredth or two of what they take
// to run. `blocks`: so many are to fit a multiprocessor; 0: the compiler's choice. `more`: an option of the compiler,
// or NULL.
static int32_t compile_as(tc_device_ *d, const tc_kernel *k, int32_t blocks, const char *more, compiled *c) {
  tc_cdialect dialect = tc_dialect_cuda;
  if (is_large(k)) cuda_leave_tables_blank(k, &dialect);
  tc_sv reason = {0};
  char text[200], bounds[48];
  int32_t most = cuda_pack_most(k);
  cuda_pack_dialect(most, tc_k_lanes(k), &dialect);
  cuda_pack_bounds(most, blocks, sizeof bounds, bounds);
  dialect.kernel_bounds = bounds;
  if (tc_cprint(k, &dialect, append, &c->source, &reason) != TC_STATUS_OK) {
    snprintf(text, sizeof text, "uses what this device does not do: %.*s", (int)(reason.size < 120 ? reason.size : 120),
             reason.data);
    cuda_report(d->host, TC_STATUS_UNIMPLEMENTED, text);
    return TC_STATUS_UNIMPLEMENTED;
  }
  tc_cprint_name(k, &dialect, append, &c->symbol);
  if (c->source.failed || c->symbol.failed) return TC_STATUS_OUT_OF_MEMORY;
  int32_t s =
      cuda_nvrtc_compile(d->host, &d->compiler, c->source.data, d->arch, more, &c->code, &c->code_size, &c->log);
  if (s == TC_STATUS_OUT_OF_MEMORY) return s;
  if (s != TC_STATUS_OK) return refuse(d, tc_k_name(k), "is refused by NVRTC", c->log);
  if (is_large(k) && !cuda_fill_tables(k, c->code, c->code_size))
    return refuse(d, tc_k_name(k), "has tables that its object has no place for", NULL);
  return TC_STATUS_OK;
}

static int32_t registers_of(const char *log) {
  const char *at = log ? strstr(log, ": Used ") : NULL;
  return at ? (int32_t)strtol(at + 7, NULL, 10) : 0;
}

// What a multiprocessor has for four blocks of 128 lanes or the like, how registers are given out, lanes that leave its
// schedulers with so little to choose from that the order of instructions matters.
enum {
  REGISTERS = 65536,
  FEW_REGISTERS = 128,
  REGISTER_UNIT = 8,
  MANY_REGISTERS = 64,
  FEW_LANES = 512,
  ADDRESSES = 24
};

// What each lane keeps in arrays, in registers, while the block shares memory; 0 where it does not.
static int32_t registers_of_arrays(const tc_kernel *k) {
  int64_t n = 0;
  int32_t shares = 0;
  for (tc_kmem i = 0; i < tc_k_mem_count(k); i++) {
    tc_kmem_info m;
    tc_k_mem(k, i, &m);
    shares |= m.space == TC_SPACE_SHARED;
    if (m.space == TC_SPACE_LANE) n += m.count * (m.dtype == TC_F64 || m.dtype == TC_I64 || m.dtype == TC_U64 ? 2 : 1);
  }
  return shares && n < REGISTERS ? (int32_t)n : 0;
}

// The number of blocks that a kernel is worth being told which takes so many registers without; 0: none. A few
// registers more than fit keep half of a multiprocessor idle. Where few blocks fit anyway, the compiler saves
// registers, and puts loads late, for blocks that cannot come; so it does for a kernel with fewer registers than its
// arrays and some addresses take, whose loads are not all under way at once. Within a bound that is less than these it
// spills.
static int32_t blocks_for(const tc_kernel *k, int32_t registers) {
  int32_t used = (registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT, blocks = 0;
  int32_t lanes = tc_k_lanes(k) * cuda_pack_most(k);
  int32_t needed = registers_of_arrays(k);
  if (needed) needed += ADDRESSES;
  if (used > FEW_REGISTERS) blocks = REGISTERS / (FEW_REGISTERS * lanes) > 1 ? REGISTERS / (FEW_REGISTERS * lanes) : 0;
  else if (used > MANY_REGISTERS && REGISTERS / used / lanes * lanes <= FEW_LANES) blocks = REGISTERS / used / lanes;
  if (!blocks && used < needed) blocks = 1;
  return blocks && needed <= REGISTERS / (blocks * lanes) ? blocks : 0;
}

// Compiles once more, and takes that in the place of `c` if nothing is spilled.
static int32_t compile_again(tc_device_ *d, const tc_kernel *k, int32_t blocks, const char *more, compiled *c) {
  compiled other = {0};
  int32_t s = compile_as(d, k, blocks, more, &other);
  if (s == TC_STATUS_OK && !spills(other.log)) {
    compiled first = *c;
    *c = other, other = first;
  }
  free_compiled(d, &other);
  return s;
}

// A large kernel, or one whose arrays alone take many registers, is compiled for the blocks that fit at first, which
// stands where it takes so many registers that these are the ones it is worth: being compiled twice is what a program
// with one such kernel waits for. `out_tried`: a bound that need not be tried any more, because it stands or spills; 0:
// none.
static int32_t compile_first(tc_device_ *d, const tc_kernel *k, compiled *c, int32_t *out_tried) {
  int32_t guesses = is_large(k) || registers_of_arrays(k) + ADDRESSES > MANY_REGISTERS;
  int32_t blocks = guesses ? blocks_for(k, FEW_REGISTERS) : 0;
  int32_t s = compile_as(d, k, blocks, NULL, c), spilled = spills(c->log);
  int32_t stands = !spilled && blocks_for(k, registers_of(c->log)) == blocks;
  *out_tried = spilled || stands ? blocks : 0;
  if (s != TC_STATUS_OK || !blocks || stands) return s;
  free_compiled(d, c);
  *c = (compiled){0};
  return compile_as(d, k, 0, NULL, c);
}

// Where the registers that the compiler took ask for a bound it is tried. Where numbers are spilled all the same, ptxas
// moves less out of loops at a lower level.
static int32_t compile_kernel(tc_device_ *d, const tc_kernel *k, compiled *c) {
  int32_t tried, s = compile_first(d, k, c, &tried);
  if (s != TC_STATUS_OK) return s;
  int32_t blocks = blocks_for(k, registers_of(c->log));
  if (blocks && blocks != tried) s = compile_again(d, k, blocks, NULL, c);
  if (s == TC_STATUS_OK && spills(c->log)) s = compile_again(d, k, 0, "--ptxas-options=-O1", c);
  return s == TC_STATUS_OK ? cuda_judge_spills(d, tc_k_name(k), c->log) : s;
}

static int32_t write_text(const compiled *c, const tc_sink *text) {
  int32_t s = text->write(text->self, c->source.data, c->source.size);
  const char *line = c->log;
  while (s == TC_STATUS_OK && line && *line) { // the log as comments
    size_t size = strcspn(line, "\n");
    s = text->write(text->self, "// ", 3);
    if (s == TC_STATUS_OK) s = text->write(text->self, line, size);
    if (s == TC_STATUS_OK) s = text->write(text->self, "\n", 1);
    line += size + (line[size] == '\n');
  }
  return s;
}

// ---- The object ----
static int32_t put_together(tc_device_ *d, const tc_kernel *const *kernels, int32_t n, const compiled *parts,
                            const tc_sink *sink) {
  buffer all = {0};
  cuda_blob_header h = {.magic = CUDA_BLOB_MAGIC, .n = n};
  cuda_blob_entry empty = {0};
  memcpy(h.arch, d->arch, sizeof h.arch);
  append(&all, (const char *)&h, sizeof h);
  for (int32_t i = 0; i < n; i++) append(&all, (const char *)&empty, sizeof empty);
  for (int32_t i = 0; i < n; i++) {
    tc_sv name = tc_k_name(kernels[i]);
    cuda_blob_entry e = {.lanes = tc_k_lanes(kernels[i]),
                         .n_params = tc_k_param_count(kernels[i]),
                         .most = cuda_pack_most(kernels[i]),
                         .shared_bytes = tc_cprint_dynamic_shared(kernels[i], &tc_dialect_cuda)};
    e.name_at = all.size, e.name_size = name.size;
    append(&all, name.data, name.size);
    e.symbol_at = all.size, e.symbol_size = parts[i].symbol.size;
    append(&all, parts[i].symbol.data, parts[i].symbol.size);
    align(&all, 64);
    e.code_at = all.size, e.code_size = parts[i].code_size;
    append(&all, parts[i].code, parts[i].code_size);
    if (!all.failed) memcpy(all.data + sizeof h + (size_t)i * sizeof e, &e, sizeof e);
  }
  h.size = all.size;
  int32_t s = TC_STATUS_OUT_OF_MEMORY;
  if (!all.failed) {
    memcpy(all.data, &h, sizeof h);
    s = sink->write(sink->self, all.data, all.size);
  }
  free(all.data);
  return s;
}

static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  (void)h, (void)optimize;
  int32_t s = cuda_compiler(d);
  if (s != TC_STATUS_OK) return s;
  compiled *parts = calloc((size_t)n + 1, sizeof *parts);
  if (!parts) return TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < n && s == TC_STATUS_OK; i++) {
    s = compile_kernel(d, kernels[i], &parts[i]);
    if (text && parts[i].source.data && s == TC_STATUS_OK) s = write_text(&parts[i], text);
  }
  if (s == TC_STATUS_OK) s = put_together(d, kernels, n, parts, sink);
  for (int32_t i = 0; i < n; i++) free_compiled(d, &parts[i]);
  free(parts);
  return s;
}

static int32_t key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  char text[200], wish[16];
  int32_t s = cuda_compiler(d);
  if (s != TC_STATUS_OK) return s;
  int32_t strict = cuda_config(h, "spills", wish, sizeof wish) && strcmp(wish, "error") == 0;
  int n = snprintf(text, sizeof text, "cuda codegen %s, NVRTC %d.%d, %s%s", TC_CODE_VERSION, d->compiler.major,
                   d->compiler.minor, d->arch, strict ? ", no spills" : "");
  return sink->write(sink->self, text, (uint64_t)n);
}

const tc_codegen_table cuda_codegen = {
    .struct_size = sizeof cuda_codegen, .compile = compile, .key = key, .source_language = {"cuda", 4}};
