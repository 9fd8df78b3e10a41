// The handshake: a plugin's own description, checked and copied.
//
// The description and every table start with their size on the plugin's side. The host works on copies of its own size:
// what both know is copied, what the plugin does not know is zero, then each function slot that is NULL is either the
// reason of a refusal (a capability needs it) or becomes a stub that returns UNIMPLEMENTED. Slots, their needs and the
// stubs come from sdk/abi/abi.def.
#include <string.h>

#include "core/plugin/internal.h"

// ---- Slots ----
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" // parameter names come with the list
#define TC_ABI_SLOT(strct, since, offset, need, ret, name, params, doc) \
  static ret stub_##strct##_##name params { return TC_STATUS_UNIMPLEMENTED; }
#define TC_ABI_SLOT_PROC(strct, since, offset, need, name, params, doc) \
  static void stub_##strct##_##name params {}
#define TC_ABI_WANT_ALL
#include "sdk/abi/abi.def"
#pragma GCC diagnostic pop

typedef void (*any_fn)(void);
typedef struct slot {
  const char *strct, *name;
  size_t offset;
  uint64_t need;
  any_fn stub;
} slot;
static const slot slots[] = {
#define TC_ABI_SLOT(strct, since, offset, need, ret, name, params, doc) \
  {#strct, #name, offset, need, (any_fn)stub_##strct##_##name},
#define TC_ABI_SLOT_PROC(strct, since, offset, need, name, params, doc) \
  {#strct, #name, offset, need, (any_fn)stub_##strct##_##name},
#define TC_ABI_WANT_ALL
#include "sdk/abi/abi.def"
};

enum { MAX_ITEMS = 65536, MAX_SIZE = 65536 };

// Copies a table (its first member is its size) and completes its slots.
static tc_status copy_table(tc_arena *arena, const char *strct, const void *from, size_t size, uint64_t caps,
                            const void **out) {
  uint64_t theirs;
  memcpy(&theirs, from, sizeof theirs);
  if (theirs < sizeof theirs || theirs > MAX_SIZE)
    return tc_error(TC_STATUS_PLUGIN, "%s.struct_size is %llu; it is the table's size, sizeof(%s)", strct,
                    (unsigned long long)theirs, strct);
  char *t = tc_arena_alloc(arena, size);
  memcpy(t, from, theirs < size ? theirs : size);
  uint64_t mine = size;
  memcpy(t, &mine, sizeof mine);
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
    const slot *s = &slots[i];
    any_fn fn;
    if (strcmp(s->strct, strct) != 0) continue;
    memcpy(&fn, t + s->offset, sizeof fn);
    if (fn) continue;
    if (s->need && (s->need & caps) == s->need) {
      tc_sb sb = tc_sb_make(arena), ends = tc_sb_make(arena);
      bool several = (s->need & (s->need - 1)) != 0;
      tc_capabilities_print(&sb, s->need);
      if (s->offset + sizeof fn > theirs)
        tc_sb_printf(&ends, " (struct_size, %llu, ends before it)", (unsigned long long)theirs);
      return tc_error(TC_STATUS_PLUGIN, "%s.%s is missing%s; the %s '%s' %s it", strct, s->name,
                      ends.size ? ends.text : "", several ? "capabilities" : "capability", sb.text,
                      several ? "together need" : "needs");
    }
    memcpy(t + s->offset, &s->stub, sizeof s->stub);
  }
  *out = t;
  return TC_OK;
}

static tc_status copy_text(tc_arena *arena, const char *what, tc_sv from, tc_sv *out) {
  if (from.size > 1000 || (from.size && !from.data))
    return tc_error(TC_STATUS_PLUGIN, "the description's '%s' is not a text", what);
  *out = from.size ? tc_sv_copy(arena, from) : (tc_sv){"", 0};
  return TC_OK;
}

static tc_status check_count(const char *what, const void *array, int32_t n) {
  if (n < 0 || n > MAX_ITEMS || (n > 0 && !array))
    return tc_error(TC_STATUS_PLUGIN, "the description has %d %s%s", n, what, array ? "" : ", and no array of them");
  return TC_OK;
}

// ---- The description ----
// Only the prefix is trusted here: magic, versions, size, refusal.
static tc_status negotiate(const tc_plugin_entry *e, int32_t code, const tc_plugin_desc *d) {
  if (d->magic != TC_ABI_MAGIC)
    return code == TC_STATUS_OK ? tc_error(TC_STATUS_PLUGIN, "the description does not start with the magic number")
                                : tc_plugin_status(&e->pub, code, "while " TC_QUERY_SYMBOL " was called");
  if (d->abi_major != TC_ABI_MAJOR || d->abi_minor_low > TC_ABI_MINOR)
    return tc_error(TC_STATUS_PLUGIN,
                    "the plugin speaks version %u.%u of the plugin interface, this program %d.%d: %s is too old",
                    d->abi_major, d->abi_minor_low, TC_ABI_MAJOR, TC_ABI_MINOR,
                    d->abi_major < TC_ABI_MAJOR ? "the plugin" : "the program");
  if (d->refusal[0])
    return tc_error(TC_STATUS_PLUGIN, "the plugin refuses: %.*s", (int)sizeof d->refusal - 1, d->refusal);
  if (code != TC_STATUS_OK) return tc_plugin_status(&e->pub, code, "while " TC_QUERY_SYMBOL " was called");
  if (d->abi_minor_high < d->abi_minor_low || d->struct_size > MAX_SIZE)
    return tc_error(TC_STATUS_PLUGIN, "the description's versions or size make no sense");
  // 1.0 ends with reserved1; later minors append.
  if (d->struct_size < offsetof(tc_plugin_desc, reserved1) + sizeof d->reserved1)
    return tc_error(TC_STATUS_PLUGIN, "the description has %llu bytes, version 1.0 has %zu",
                    (unsigned long long)d->struct_size, offsetof(tc_plugin_desc, reserved1) + sizeof d->reserved1);
  return TC_OK;
}

static tc_status check_identity(tc_plugin *p, tc_arena *arena, const tc_plugin_desc *d) {
  tc_sv name, sanitizers, vendor, version;
  TC_TRY(copy_text(arena, "name", d->name, &name));
  TC_TRY(copy_text(arena, "sanitizers", d->sanitizers, &sanitizers));
  TC_TRY(copy_text(arena, "build_id", d->build_id, &p->build_id));
  TC_TRY(copy_text(arena, "vendor", d->vendor, &vendor));
  TC_TRY(copy_text(arena, "version", d->version, &version));
  if (vendor.size) p->vendor = vendor;
  if (version.size) p->version = version;
  if (!name.size)
    return tc_error(
        TC_STATUS_PLUGIN, TC_QUERY_SYMBOL
        " gave no name: it fills the description, mostly by tc_sdk_answer, and says what the manifest does");
  if (!tc_sv_eq(name, p->name))
    return tc_error(TC_STATUS_PLUGIN, "the plugin calls itself '" TC_SV_FMT "', its manifest says '" TC_SV_FMT "'",
                    TC_SV_ARG(name), TC_SV_ARG(p->name));
  if (sanitizers.size && !tc_sv_is(sanitizers, tc_own_sanitizers()))
    return tc_error(TC_STATUS_PLUGIN, "the plugin was built with the " TC_SV_FMT " sanitizer, this program was not",
                    TC_SV_ARG(sanitizers));
  uint64_t missing = p->capabilities & ~d->capabilities;
  if (missing) {
    tc_sb sb = tc_sb_make(arena);
    tc_capabilities_print(&sb, missing);
    return tc_error(TC_STATUS_PLUGIN, "the manifest promises '%s', the plugin does not offer it", sb.text);
  }
  return TC_OK;
}

// Levels 2 and 3 are promised to whoever was built for a version that has the promise.
static tc_status check_hash(const tc_plugin_desc *d, const char *what) {
  if (d->abi_minor_high >= TC_ABI_KERNELS_LOCKED || d->kernel_abi_hash == TC_KERNEL_ABI_HASH) return TC_OK;
  return tc_error(
      TC_STATUS_PLUGIN,
      "%s of a plugin for version %d.%u of the plugin interface needs the very kernel headers of this program "
      "(hash %016llx, the plugin has %016llx): rebuild it",
      what, TC_ABI_MAJOR, d->abi_minor_high, (unsigned long long)TC_KERNEL_ABI_HASH,
      (unsigned long long)d->kernel_abi_hash);
}

static tc_status copy_ops(tc_plugin *p, tc_arena *arena, const tc_plugin_desc *d) {
  TC_TRY(check_count("ops", d->ops, d->n_ops));
  tc_op_def *rows = TC_NEW_ARRAY(arena, tc_op_def, d->n_ops);
  // Rows lie at the plugin's distance, which the first row states.
  uint64_t step = d->n_ops ? d->ops->struct_size : 0;
  if (d->n_ops && (step < offsetof(tc_op_def, meta) || step > MAX_SIZE || step % sizeof(void *)))
    return tc_error(TC_STATUS_PLUGIN, "tc_op_def.struct_size is %llu; it is the row's size, sizeof(tc_op_def)",
                    (unsigned long long)step);
  for (int32_t i = 0; i < d->n_ops; i++) {
    const tc_op_def *from = (const tc_op_def *)(const void *)((const char *)d->ops + (uint64_t)i * step);
    if (from->struct_size != step)
      return tc_error(TC_STATUS_PLUGIN, "op row %d has another struct_size than the first", i);
    memcpy(&rows[i], from, step < sizeof rows[i] ? step : sizeof rows[i]);
    rows[i].struct_size = sizeof rows[i];
    if (!rows[i].schema) return tc_error(TC_STATUS_PLUGIN, "op row %d has no schema", i);
    if (rows[i].lower) TC_TRY(check_hash(d, rows[i].schema));
  }
  p->ops = rows;
  p->n_ops = d->n_ops;
  return TC_OK;
}

static tc_status copy_calls(tc_plugin *p, tc_arena *arena, const tc_plugin_desc *d) {
  TC_TRY(check_count("call tables", d->calls, d->n_calls));
  const tc_call_table **tables = TC_NEW_ARRAY(arena, const tc_call_table *, d->n_calls);
  for (int32_t i = 0; i < d->n_calls; i++) {
    const void *t;
    if (!d->calls[i]) return tc_error(TC_STATUS_PLUGIN, "call table %d is NULL", i);
    TC_TRY(copy_table(arena, "tc_call_table", d->calls[i], sizeof(tc_call_table), p->capabilities, &t));
    tables[i] = t;
    if (!tables[i]->name.size || !tables[i]->name.data)
      return tc_error(TC_STATUS_PLUGIN, "call table %d has no name", i);
  }
  p->calls = tables;
  p->n_calls = d->n_calls;
  return TC_OK;
}

static tc_status copy_templates(tc_plugin *p, tc_arena *arena, const tc_plugin_desc *d) {
  TC_TRY(check_count("template tables", d->templates, d->n_templates));
  const struct tc_template_table **tables = TC_NEW_ARRAY(arena, const struct tc_template_table *, d->n_templates);
  for (int32_t i = 0; i < d->n_templates; i++) {
    const void *t;
    if (!d->templates[i]) return tc_error(TC_STATUS_PLUGIN, "template table %d is NULL", i);
    TC_TRY(copy_table(arena, "tc_template_table", d->templates[i], sizeof(tc_template_table), p->capabilities, &t));
    tables[i] = t;
    if (!tables[i]->name.size || !tables[i]->name.data)
      return tc_error(TC_STATUS_PLUGIN, "template table %d has no name", i);
  }
  p->templates = tables;
  p->n_templates = d->n_templates;
  return TC_OK;
}

// ---- Extensions ----
static tc_status check_extensions(tc_plugin *p, const tc_plugin_desc *d) {
  enum { MOST = 64 };
  int32_t n = 0;
  for (const tc_extension *x = d->extensions; x; x = x->next) {
    if (x->struct_size < sizeof *x || x->struct_size > MAX_SIZE)
      return tc_error(TC_STATUS_PLUGIN, "tc_extension.struct_size is %llu", (unsigned long long)x->struct_size);
    if (++n > MOST)
      return tc_error(TC_STATUS_PLUGIN, "the plugin has more than %d extensions, or their list is a ring", MOST);
  }
  p->extensions = d->extensions;
  return TC_OK;
}

const tc_extension *tc_plugin_extension(const tc_plugin *p, uint64_t id, uint64_t least_size) {
  for (const tc_extension *x = p->extensions; x; x = x->next) {
    if (x->id != id || x->struct_size < least_size) continue;
    if (!(id & TC_EXT_EXPERIMENTAL) || x->header_hash == TC_KERNEL_ABI_HASH) return x;
  }
  return NULL;
}

static tc_status copy_delegate(tc_plugin *p, tc_arena *arena) {
  const void *t;
  const tc_extension *x = tc_plugin_extension(p, TC_EXT_DELEGATE, sizeof(tc_delegate_extension));
  const tc_delegate_extension *d = (const void *)x;
  if (!d || !d->table)
    return tc_error(TC_STATUS_PLUGIN, "the capability 'delegate' has no extension TC_EXT_DELEGATE with a table");
  TC_TRY(copy_table(arena, "tc_delegate_table", d->table, sizeof(tc_delegate_table), p->capabilities, &t));
  p->delegate = t;
  return TC_OK;
}

// What the manifest does not promise is left alone: nobody would ask for it.
static tc_status copy_parts(tc_plugin *p, tc_arena *arena, const tc_plugin_desc *d) {
  const void *t;
  if (p->capabilities & TC_CAP_DEVICE) {
    if (!d->device) return tc_error(TC_STATUS_PLUGIN, "the capability 'device' has no table");
    TC_TRY(copy_table(arena, "tc_device_table", d->device, sizeof(tc_device_table), p->capabilities, &t));
    p->device = t;
  }
  if (p->capabilities & TC_CAP_CODEGEN) {
    if (!d->codegen) return tc_error(TC_STATUS_PLUGIN, "the capability 'codegen' has no table");
    TC_TRY(check_hash(d, "the capability 'codegen'"));
    TC_TRY(copy_table(arena, "tc_codegen_table", d->codegen, sizeof(tc_codegen_table), p->capabilities, &t));
    p->codegen = t;
  }
  if (p->capabilities & TC_CAP_DELEGATE) TC_TRY(copy_delegate(p, arena));
  if (p->capabilities & TC_CAP_CALLS) TC_TRY(copy_calls(p, arena, d));
  if (p->capabilities & TC_CAP_OPS) TC_TRY(copy_ops(p, arena, d));
  if (p->capabilities & TC_CAP_TEMPLATES) {
    TC_TRY(check_hash(d, "the capability 'templates'"));
    TC_TRY(copy_templates(p, arena, d));
  }
  return TC_OK;
}

tc_status tc_plugin_accept(tc_plugin_entry *e, tc_arena *arena, tc_plugin_query_fn query) {
  // A plugin that knows a longer description must not write more of it than there is room for: the bytes behind tell.
  struct {
    tc_plugin_desc d;
    unsigned char behind[256];
  } *answer = tc_arena_alloc(arena, sizeof *answer);
  memset(answer->behind, 0xa5, sizeof answer->behind);
  tc_plugin_desc *d = &answer->d;
  d->magic = TC_ABI_MAGIC;
  d->abi_major = TC_ABI_MAJOR;
  d->abi_minor_low = 0;
  d->abi_minor_high = TC_ABI_MINOR;
  d->struct_size = sizeof *d;
  int32_t code = query(&e->host, d);
  for (size_t i = 0; i < sizeof answer->behind; i++)
    if (answer->behind[i] != 0xa5)
      return tc_error(TC_STATUS_PLUGIN, "the plugin wrote behind the description's end: it ignores struct_size");
  d->refusal[sizeof d->refusal - 1] = 0;
  TC_TRY(negotiate(e, code, d));
  if (d->struct_size < sizeof *d) memset((char *)d + d->struct_size, 0, sizeof *d - d->struct_size);
  TC_TRY(check_identity(&e->pub, arena, d));
  TC_TRY(check_extensions(&e->pub, d));
  return copy_parts(&e->pub, arena, d);
}
