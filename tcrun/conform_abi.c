// tcrun conform, group abi: the handshake and the tables.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcrun/conform.h"

// ---- The file ----
static tc_status loads(kit *k) { return kit_load(k); }

static tc_status agrees_with_manifest(kit *k) {
  TC_TRY(kit_load(k));
  const tc_plugin *p = k->plugin;
  KIT_CHECK(p->vendor.size > 0 && p->version.size > 0, "vendor and version are to be stated");
  KIT_CHECK(p->build_id.size > 0, "build_id is empty: it must change with every build, it is part of cache keys");
  KIT_CHECK(!(p->capabilities & TC_CAP_DEVICE) || p->n_devices > 0,
            "the manifest has the capability 'device' and names no kind of device");
  KIT_CHECK(!(p->capabilities & TC_CAP_OPS) || p->n_op_globs > 0,
            "the manifest has the capability 'ops' and names no ops: nobody would look for them here");
  return TC_OK;
}

// ---- The query ----
// Room for a description with bytes behind that must stay as they are.
enum { BEHIND = 256, MARK = 0xa5 };
typedef union answer {
  tc_plugin_desc desc;
  unsigned char bytes[sizeof(tc_plugin_desc) + BEHIND];
} answer;

static int32_t ask(kit *k, kit_host *h, uint64_t size, answer *a) {
  memset(a->bytes, MARK, sizeof a->bytes);
  memset(a->bytes, 0, size < sizeof a->bytes ? size : sizeof a->bytes);
  a->desc.magic = TC_ABI_MAGIC;
  a->desc.abi_major = TC_ABI_MAJOR;
  a->desc.abi_minor_high = TC_ABI_MINOR;
  a->desc.struct_size = size;
  return k->query(&h->host, &a->desc);
}

static bool kept(const answer *a, size_t from) {
  for (size_t i = from; i < sizeof a->bytes; i++)
    if (a->bytes[i] != MARK) return false;
  return true;
}

static tc_status begin(kit *k, kit_host *h) {
  TC_TRY(kit_find_query(k));
  kit_host_init(&k->services, k);
  kit_host_init(h, k);
  return TC_OK;
}

static tc_status repeatable(kit *k) {
  kit_host h;
  answer a, b;
  TC_TRY(begin(k, &h));
  KIT_OK(k, ask(k, &h, sizeof(tc_plugin_desc), &a));
  KIT_OK(k, ask(k, &h, sizeof(tc_plugin_desc), &b));
  const tc_plugin_desc *x = &a.desc, *y = &b.desc;
  KIT_CHECK(x->capabilities == y->capabilities && x->device == y->device && x->codegen == y->codegen &&
                x->n_calls == y->n_calls && x->n_ops == y->n_ops && x->n_templates == y->n_templates &&
                tc_sv_eq(x->name, y->name) && tc_sv_eq(x->build_id, y->build_id),
            "two queries give different descriptions: tc_plugin_query must be pure");
  return kit_host_balanced(&h, "after two queries");
}

static tc_status two_hosts(kit *k) {
  kit_host h, other;
  answer a;
  TC_TRY(begin(k, &h));
  kit_host_init(&other, k);
  for (int32_t i = 0; i < 4; i++) KIT_OK(k, ask(k, i % 2 ? &other : &h, sizeof(tc_plugin_desc), &a));
  return TC_OK;
}

typedef struct caller {
  kit *k;
  int32_t code;
} caller;
static void *ask_often(void *arg) {
  caller *c = arg;
  kit_host h;
  kit_host_init(&h, c->k);
  for (int32_t i = 0; i < 100 && c->code == TC_STATUS_OK; i++) {
    answer a;
    c->code = ask(c->k, &h, sizeof(tc_plugin_desc), &a);
  }
  return NULL;
}
static tc_status from_threads(kit *k) {
  kit_host h;
  pthread_t threads[4];
  caller callers[4];
  TC_TRY(begin(k, &h));
  for (int32_t i = 0; i < 4; i++) {
    callers[i] = (caller){.k = k};
    KIT_CHECK(pthread_create(&threads[i], NULL, ask_often, &callers[i]) == 0, "the kit could not start a thread");
  }
  for (int32_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int32_t i = 0; i < 4; i++)
    KIT_CHECK(callers[i].code == TC_STATUS_OK, "a query fails with %d when several threads ask", callers[i].code);
  return TC_OK;
}

static tc_status wrong_magic(kit *k) {
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  h.host.magic ^= 1;
  KIT_CHECK(ask(k, &h, sizeof(tc_plugin_desc), &a) != TC_STATUS_OK, "a host without the magic number must be refused");
  h.host.magic ^= 1;
  memset(&a, 0, sizeof a);
  a.desc.struct_size = sizeof a.desc;
  KIT_CHECK(k->query(&h.host, &a.desc) != TC_STATUS_OK, "a description without the magic number must be refused");
  return TC_OK;
}

static tc_status other_major(kit *k) {
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  h.host.abi_major = TC_ABI_MAJOR + 1;
  KIT_CHECK(ask(k, &h, sizeof(tc_plugin_desc), &a) != TC_STATUS_OK, "a host of another major version must be refused");
  a.desc.refusal[sizeof a.desc.refusal - 1] = 0;
  KIT_CHECK(a.desc.refusal[0] || h.n_diags, "the refusal of another major version gives no reason");
  return TC_OK;
}

// A host of version 1.0 has a shorter description; what lies behind it is the host's own.
static tc_status short_description(kit *k) {
  static const size_t sizes[] = {offsetof(tc_plugin_desc, name), offsetof(tc_plugin_desc, device),
                                 offsetof(tc_plugin_desc, extensions)};
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int32_t code = ask(k, &h, sizes[i], &a);
    KIT_CHECK(kept(&a, sizes[i]), "the query writes behind the %zu bytes that struct_size gives it", sizes[i]);
    KIT_CHECK(i < 2 || code == TC_STATUS_OK, "a host of version 1.0 is refused (%d): %s", code, a.desc.refusal);
  }
  return TC_OK;
}

static tc_status long_description(kit *k) {
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  h.host.abi_minor = 999;
  h.host.struct_size = sizeof(tc_host) + 512;
  struct {
    tc_host host;
    uint64_t later[64];
  } longer = {.host = h.host};
  memset(a.bytes, 0, sizeof a.bytes);
  a.desc.magic = TC_ABI_MAGIC;
  a.desc.abi_major = TC_ABI_MAJOR;
  a.desc.abi_minor_high = 999;
  a.desc.struct_size = sizeof a.bytes;
  KIT_OK(k, k->query(&longer.host, &a.desc));
  KIT_CHECK(a.desc.abi_minor_low <= TC_ABI_MINOR, "the plugin needs minor %u, this program has %d",
            a.desc.abi_minor_low, TC_ABI_MINOR);
  return TC_OK;
}

// A host of version 1.0 ends before what came later, and lends shorter tables.
static tc_status old_host(kit *k) {
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  tc_host old;
  memset(&old, MARK, sizeof old); // reading behind struct_size finds nonsense
  memcpy(&old, &h.host, offsetof(tc_host, expand));
  old.struct_size = offsetof(tc_host, expand);
  old.abi_minor = 0;
  memset(&a, 0, sizeof a);
  a.desc.magic = TC_ABI_MAGIC;
  a.desc.abi_major = TC_ABI_MAJOR;
  a.desc.struct_size = offsetof(tc_plugin_desc, extensions);
  int32_t code = k->query(&old, &a.desc);
  KIT_CHECK(code == TC_STATUS_OK || a.desc.refusal[0] || h.n_diags,
            "a host of version 1.0 is refused with %d, without a reason", code);
  return kit_find_query(k);
}

// Whatever was asked for above, the plugin still answers an ordinary host.
static tc_status recovers(kit *k) {
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  ask(k, &h, offsetof(tc_plugin_desc, name), &a);
  KIT_OK(k, ask(k, &h, sizeof(tc_plugin_desc), &a));
  return TC_OK;
}

static tc_status tables(kit *k) {
  kit_host h;
  answer a;
  TC_TRY(begin(k, &h));
  KIT_OK(k, ask(k, &h, sizeof(tc_plugin_desc), &a));
  const tc_plugin_desc *d = &a.desc;
  KIT_CHECK((k->about.capabilities & ~d->capabilities) == 0, "the manifest promises what the description does not");
  KIT_CHECK((d->capabilities & ~k->about.capabilities) == 0,
            "the description offers what the manifest does not say: nobody would look for it here");
  if (d->capabilities & TC_CAP_DEVICE)
    KIT_CHECK(d->device && d->device->struct_size >= offsetof(tc_device_table, module_load),
              "tc_device_table.struct_size ends before `fill`");
  for (int32_t i = 0; i < d->n_calls; i++)
    KIT_CHECK(d->calls[i] && d->calls[i]->struct_size >= offsetof(tc_call_table, thread_safe),
              "call table %d has a struct_size that ends before `destroy`", i);
  const struct {
    uint64_t capability;
    int32_t count;
    const char *what;
  } lists[] = {{TC_CAP_CALLS, d->n_calls, "calls', and n_calls is 0"},
               {TC_CAP_TEMPLATES, d->n_templates, "templates', and n_templates is 0"}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    KIT_CHECK(!(d->capabilities & lists[i].capability) || lists[i].count > 0,
              "the plugin has the capability '%s: nothing of it would ever be asked", lists[i].what);
  return TC_OK;
}

static const kit_case cases[] = {
    {"abi", "loads", "the manifest names the file, which exports one symbol and is accepted", loads},
    {"abi", "manifest", "manifest and description say who made what", agrees_with_manifest},
    {"abi", "tables", "tables are as long as their capabilities need", tables},
    {"abi", "repeatable", "tc_plugin_query is pure", repeatable},
    {"abi", "two_hosts", "two programs' hosts may ask in turns", two_hosts},
    {"abi", "threads", "several threads may ask at once", from_threads},
    {"abi", "wrong_magic", "what is no host is refused", wrong_magic},
    {"abi", "other_major", "another major version is refused, with the reason", other_major},
    {"abi", "short_description", "nothing is written behind struct_size", short_description},
    {"abi", "newer_host", "longer structs of a later minor are fine", long_description},
    {"abi", "older_host", "a host of version 1.0 is answered", old_host},
    {"abi", "recovers", "a refusal leaves nothing behind", recovers},
};
const kit_cases kit_abi_cases = {cases, sizeof cases / sizeof *cases};
