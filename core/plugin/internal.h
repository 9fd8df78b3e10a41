// What the files of this folder share.
#ifndef TC_CORE_PLUGIN_INTERNAL_H_
#define TC_CORE_PLUGIN_INTERNAL_H_

#include <pthread.h>

#include "core/base/fs.h"
#include "core/base/vec.h"
#include "core/plugin/plugin.h"

#define TC_MANIFEST_SUFFIX ".tc-plugin.toml"
#define TC_QUERY_SYMBOL "tc_plugin_query"

// Messages that plugins reported and nobody took yet; the oldest give way.
#define TC_DIAG_SLOTS 16
#define TC_DIAG_TEXT 1000
typedef struct tc_diag {
  pthread_t thread;
  uint64_t order; // 0: free
  int32_t code;
  uint32_t size;
  char text[TC_DIAG_TEXT];
} tc_diag;

// A plugin with what the host keeps for it. `pub` is the first member: a tc_plugin * is a tc_plugin_entry *.
typedef struct tc_plugin_entry {
  tc_plugin pub;
  tc_plugins *owner;
  tc_host host;
  pthread_mutex_t diag_lock;
  uint64_t diag_order;
  tc_diag diags[TC_DIAG_SLOTS];
} tc_plugin_entry;

struct tc_plugins {
  tc_plugins_options options; // strings copied; executor and logger never NULL
  tc_executor executor;
  tc_logger logger;
  tc_arena *arena; // under `lock`
  pthread_mutex_t lock;
  TC_VEC(tc_plugin_entry *) entries; // under `lock`
  TC_VEC(tc_sv) folders;             // real paths that were scanned
  tc_sv passed_over;                 // a folder of the program's own that is there and was not scanned, or empty
};

// ---- manifest.c ----
// Reads a manifest (absolute path) into `p`, whose strings are set as far as reading got.
TC_NODISCARD tc_status tc_manifest_read(tc_arena *arena, tc_sv path, tc_plugin *p);
TC_NODISCARD tc_status tc_manifest_parse(tc_arena *arena, tc_sv path, tc_sv text, tc_plugin *p);
// "device|codegen": names of capability bits.
void tc_capabilities_print(tc_sb *sb, uint64_t capabilities);

// ---- trust.c ----
// The real path of a file or folder that neither group nor others may write to.
TC_NODISCARD tc_status tc_trusted_path(tc_arena *arena, const char *path, bool folder, tc_sv *out_real);

// ---- elf.c ----
// Checks a shared object without running anything of it: right machine, exports tc_plugin_query and nothing else, no
// sanitizer that this program lacks.
TC_NODISCARD tc_status tc_elf_check(const char *path);
TC_NODISCARD tc_status tc_elf_check_bytes(const char *path, tc_mapping m); // 8-byte aligned; `path` for messages
// Does the file define tc_plugin_query? False for what is no shared object.
bool tc_elf_is_plugin(const char *path);
// "", "address" or "thread": what this program was built with.
const char *tc_own_sanitizers(void);

// ---- accept.c ----
// Asks the plugin and copies its tables into the arena, as large as this program's. The error is the reason of refusal.
TC_NODISCARD tc_status tc_plugin_accept(tc_plugin_entry *e, tc_arena *arena, tc_plugin_query_fn query);

// ---- services.c ----
// The host struct through which the plugin reaches this program.
void tc_services_init(tc_plugin_entry *e);

#endif
