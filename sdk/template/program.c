// Kernels to bytes and back. `compile` reads a kernel through its accessors and writes a program, the machine's own
// form of it, into a bundle (tc/bundle.h), whose checksum is why what is loaded can be believed. A real device prints
// source here (tc/cprint.h), or makes instructions, and keeps what its compiler gives.
//
//   bytes of a program:  program_head | memories | instructions | values | regions | parameters | words | tables
#include <stdio.h>
#include <string.h>

#include "template.h"

// ---- Writing ----
typedef struct writer {
  const tc_kernel *k;
  tc_bytes out, words, tables;
} writer;

static void put(tc_bytes *b, const void *data, size_t size) { tc_bytes_put(b, data, size); }
static void put_words(writer *w, const int32_t *words, int32_t n) { put(&w->words, words, (size_t)n * sizeof *words); }
static int32_t word_count(const writer *w) { return (int32_t)(w->words.size / sizeof(int32_t)); }

static void put_memories(writer *w) {
  for (tc_kmem m = 0; m < tc_k_mem_count(w->k); m++) {
    tc_kmem_info info;
    tc_k_mem(w->k, m, &info);
    const memory row = {info.space, info.dtype, info.count, (int64_t)w->tables.size};
    put(&w->out, &row, sizeof row);
    if (info.space == TC_SPACE_TABLE) put(&w->tables, info.data, (size_t)(info.count * number_bytes(info.dtype)));
  }
}

static int64_t parameter_of_scalar(const tc_kernel *k, int64_t scalar) {
  for (int32_t i = 0; i < tc_k_param_count(k); i++) {
    tc_kparam p;
    tc_k_param(k, i, &p);
    if (p.is_scalar && p.index == scalar) return i;
  }
  return 0;
}

static void put_instructions(writer *w) {
  for (int32_t i = 0; i < tc_k_inst_count(w->k); i++) {
    tc_kinst from;
    tc_k_inst(w->k, i, &from);
    const inst to = {.op = from.op,
                     .width = from.width,
                     .mem = from.mem,
                     .has_mask = from.has_mask,
                     .n_args = from.n_args,
                     .n_results = from.n_results,
                     .n_regions = from.n_regions,
                     .words = word_count(w),
                     .imm = from.op == TC_K_SCALAR ? parameter_of_scalar(w->k, from.imm) : from.imm,
                     .fimm = from.fimm};
    put(&w->out, &to, sizeof to);
    put_words(w, from.args, from.n_args);
    put_words(w, from.results, from.n_results);
    put_words(w, from.regions, from.n_regions);
  }
}

static void put_values_and_regions(writer *w) {
  for (tc_kval v = 0; v < tc_k_value_count(w->k); v++) {
    tc_kvalue from;
    tc_k_value(w->k, v, &from);
    const value to = {from.dtype, from.varying};
    put(&w->out, &to, sizeof to);
  }
  for (int32_t r = 0; r < tc_k_region_count(w->k); r++) {
    tc_kregion from;
    tc_k_region(w->k, r, &from);
    const region to = {from.n_params, from.n_insts, word_count(w), 0};
    put(&w->out, &to, sizeof to);
    put_words(w, from.params, from.n_params);
    put_words(w, from.insts, from.n_insts);
  }
}

static void put_program(writer *w) {
  const tc_kernel *k = w->k;
  program_head head = {.lanes = tc_k_lanes(k),
                       .n_params = tc_k_param_count(k),
                       .n_mems = tc_k_mem_count(k),
                       .n_insts = tc_k_inst_count(k),
                       .n_values = tc_k_value_count(k),
                       .n_regions = tc_k_region_count(k),
                       .body = tc_k_body(k)};
  put(&w->out, &head, sizeof head);
  put_memories(w);
  put_instructions(w);
  put_values_and_regions(w);
  for (int32_t i = 0; i < head.n_params; i++) {
    tc_kparam p;
    tc_k_param(k, i, &p);
    const parameter to = {p.is_scalar, p.index};
    put(&w->out, &to, sizeof to);
  }
  head.n_words = word_count(w), head.table_bytes = (int64_t)w->tables.size;
  put(&w->out, w->words.data, w->words.size);
  put(&w->out, w->tables.data, w->tables.size);
  if (w->out.data && !w->out.failed) memcpy(w->out.data, &head, sizeof head);
}

static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  (void)d, (void)optimize;
  int32_t code = TC_STATUS_OK;
  writer *writers = h->alloc(h->self, (uint64_t)(n + 1) * sizeof *writers);
  tc_bundle_kernel *rows = h->alloc(h->self, (uint64_t)(n + 1) * sizeof *rows);
  if (!writers || !rows) code = TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < n && code == TC_STATUS_OK; i++) {
    writer *w = &writers[i];
    if (tc_k_later_op(kernels[i]) >= 0) {
      code = tc_host_report(h, TC_STATUS_UNIMPLEMENTED, "the kernel has an opcode of a later version");
      break;
    }
    w->k = kernels[i];
    put_program(w);
    if (w->out.failed || w->words.failed || w->tables.failed) code = TC_STATUS_OUT_OF_MEMORY;
    rows[i] = (tc_bundle_kernel){.name = tc_k_name(w->k),
                                 .symbol = tc_k_name(w->k),
                                 .code = {w->out.data, w->out.size},
                                 .lanes = tc_k_lanes(w->k),
                                 .n_params = tc_k_param_count(w->k)};
    char line[200];
    int size =
        snprintf(line, sizeof line, "%.*s: %d instructions\n", (int)(rows[i].name.size < 150 ? rows[i].name.size : 150),
                 rows[i].name.data, tc_k_inst_count(w->k));
    if (text && code == TC_STATUS_OK) code = text->write(text->self, line, (uint64_t)size);
  }
  if (code == TC_STATUS_OK) code = tc_bundle_write(TEMPLATE_TARGET, n, rows, sink);
  for (int32_t i = 0; writers && i < n; i++) {
    tc_bytes_free(&writers[i].out);
    tc_bytes_free(&writers[i].words);
    tc_bytes_free(&writers[i].tables);
  }
  h->free(h->self, writers);
  h->free(h->self, rows);
  return code;
}

static int32_t key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  (void)h, (void)d;
  return sink->write(sink->self, TEMPLATE_TARGET, sizeof TEMPLATE_TARGET - 1);
}

const tc_codegen_table template_codegen = {.struct_size = sizeof template_codegen, .compile = compile, .key = key};

// ---- Reading ----
typedef struct module {
  int32_t n;
  char *bytes; // a copy of the bundle's programs and names, each at a multiple of 8
  function functions[];
} module;

static const void *skip(const char **at, int32_t n, size_t size) {
  const void *here = *at;
  *at += (size_t)n * size;
  return here;
}

// Bytes of a program as its head says.
static uint64_t size_of(const program_head *h) {
  return sizeof *h + (uint64_t)h->n_mems * sizeof(memory) + (uint64_t)h->n_insts * sizeof(inst) +
         (uint64_t)h->n_values * sizeof(value) + (uint64_t)h->n_regions * sizeof(region) +
         (uint64_t)h->n_params * sizeof(parameter) + (uint64_t)h->n_words * sizeof(int32_t) + (uint64_t)h->table_bytes;
}

static void read_program(const char *at, program *p) {
  memcpy(&p->head, at, sizeof p->head);
  at += sizeof p->head;
  p->mems = skip(&at, p->head.n_mems, sizeof *p->mems);
  p->insts = skip(&at, p->head.n_insts, sizeof *p->insts);
  p->values = skip(&at, p->head.n_values, sizeof *p->values);
  p->regions = skip(&at, p->head.n_regions, sizeof *p->regions);
  p->params = skip(&at, p->head.n_params, sizeof *p->params);
  p->words = skip(&at, p->head.n_words, sizeof *p->words);
  p->tables = at;
}

static uint64_t rounded(uint64_t size) { return (size + 7) / 8 * 8; }

static int32_t read_functions(tc_device_ *d, const void *blob, module *m) {
  tc_bundle_kernel k;
  uint64_t total = 0, at = 0;
  for (int32_t i = 0; i < m->n; i++) {
    tc_bundle_get(blob, i, &k);
    total += rounded(k.code.size) + rounded(k.name.size + 1);
  }
  m->bytes = template_take(d, total + 1);
  if (!m->bytes) return TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < m->n; i++) {
    function *f = &m->functions[i];
    program_head head = {0};
    tc_bundle_get(blob, i, &k);
    if (k.code.size >= sizeof head) memcpy(&head, k.code.data, sizeof head);
    if (k.code.size < sizeof head || size_of(&head) != k.code.size)
      return template_fail(d, TC_STATUS_DATA_LOSS, "a program has %llu bytes, and not what its head says",
                           (unsigned long long)k.code.size);
    memcpy(m->bytes + at, k.code.data, k.code.size);
    read_program(m->bytes + at, &f->p);
    at += rounded(k.code.size);
    memcpy(m->bytes + at, k.name.data, k.name.size); // what follows is zero
    f->name = m->bytes + at;
    at += rounded(k.name.size + 1);
  }
  return TC_STATUS_OK;
}

int32_t template_module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out) {
  const char *reason = "";
  int32_t n = 0, code = tc_bundle_check(blob, size, TEMPLATE_TARGET, &n, &reason);
  if (code != TC_STATUS_OK) return template_fail(d, code, "this is no code object of this device: %s", reason);
  module *m = template_take(d, sizeof *m + (uint64_t)n * sizeof(function));
  if (!m) return TC_STATUS_OUT_OF_MEMORY;
  m->n = n;
  code = read_functions(d, blob, m);
  if (code == TC_STATUS_OK) *out = (tc_handle)(uintptr_t)m;
  else template_module_unload(d, (tc_handle)(uintptr_t)m);
  return code;
}

void template_module_unload(tc_device_ *d, tc_handle handle) {
  module *m = (module *)(uintptr_t)handle;
  if (!m) return;
  template_give(d, m->bytes);
  template_give(d, m);
}

int32_t template_module_function(tc_device_ *d, tc_handle handle, tc_sv name, tc_handle *out) {
  module *m = (module *)(uintptr_t)handle;
  for (int32_t i = 0; i < m->n; i++) {
    size_t size = strlen(m->functions[i].name);
    if (name.size != size || memcmp(name.data, m->functions[i].name, size) != 0) continue;
    *out = (tc_handle)(uintptr_t)&m->functions[i];
    return TC_STATUS_OK;
  }
  return template_fail(d, TC_STATUS_NOT_FOUND, "the module has no kernel '%.*s'",
                       (int)(name.size < 200 ? name.size : 200), name.data);
}
