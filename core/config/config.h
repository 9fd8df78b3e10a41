// The configuration of a context: options (options.h), sections of plugins, and where each value came from.
//
// Order, weakest first: built-in < mode < config file < environment < command line. Reading may be done in any order;
// the mode is applied when all sources are read, because any of them may choose it:
//
//   tc_config_create(…);  tc_config_read_file(…);  tc_config_read_environment(…);  tc_config_set(…) …
//   tc_config_apply_mode(c);                   // reads configs/MODE.toml
//   … plugins are scanned …
//   tc_config_check_sections(c, names, n);     // [dev] is a plugin's section, [cach] a mistake
//
// Files are TOML. Keys may be written in tables or with dots. `extends = "NAME"` takes over another mode's values
// first; `description` is for people. A table whose name is no group of options is the section of the plugin of that
// name, which gives its keys their meaning; values are passed on as text. Environment: TC_ and the key in capitals,
// dots as underscores: TC_CACHE_DIR. Sections: TC_DEV_ISA for dev.isa.
//
// Errors name the place ("my.toml:3"), the key, and the nearest one that exists. A failed read leaves what it had set
// so far; the config is then good for messages only. Thread-safety: one thread while reading; immutable and shared
// afterwards. All strings live as long as the config.
#ifndef TC_CORE_CONFIG_CONFIG_H_
#define TC_CORE_CONFIG_CONFIG_H_

#include "core/config/options.h"

enum { TC_FROM_BUILTIN, TC_FROM_MODE, TC_FROM_FILE, TC_FROM_ENVIRONMENT, TC_FROM_COMMAND, TC_FROM_COUNT };

typedef struct tc_config tc_config;
TC_NODISCARD tc_status tc_config_create(const tc_allocator *allocator, tc_config **out);
void tc_config_destroy(tc_config *c);

// ---- Reading ----
TC_NODISCARD tc_status tc_config_read_file(tc_config *c, const char *path);
TC_NODISCARD tc_status tc_config_read_text(tc_config *c, tc_sv name, tc_sv text); // as a config file of that name
// "NAME=value" entries that start with TC_; NULL: the process's own, unless it runs with another's rights (setuid).
// Unknown names are errors only if they are nearly a key: other programs use TC_ too.
TC_NODISCARD tc_status tc_config_read_environment(tc_config *c, const char *const *environment);
// A value from the command line; `origin` is for people: "--backend", "--set".
TC_NODISCARD tc_status tc_config_set(tc_config *c, tc_sv key, tc_sv value, const char *origin);
TC_NODISCARD tc_status tc_config_set_pair(tc_config *c, tc_sv key_is_value, const char *origin); // "key=value"
// Finds and reads the mode's file, in configs.path, then ../configs and ../share/tc/configs beside the program. An
// unknown mode names the nearest one.
TC_NODISCARD tc_status tc_config_apply_mode(tc_config *c);
// Sections other than these plugins' are errors; environment names of sections get their meaning.
TC_NODISCARD tc_status tc_config_check_sections(tc_config *c, const tc_sv *plugins, int32_t n);
// The plugin of that name is added by its file later: its section is no mistake.
TC_NODISCARD tc_status tc_config_expect_plugin(tc_config *c, tc_sv name);

// ---- Values; `id` is a TC_OPT_ID_* of the fitting type ----
bool tc_config_bool(const tc_config *c, int32_t id);
int64_t tc_config_int(const tc_config *c, int32_t id); // INT, SIZE
double tc_config_real(const tc_config *c, int32_t id);
tc_sv tc_config_text(const tc_config *c, int32_t id);                      // any type, as one would write it
int32_t tc_config_choice(const tc_config *c, int32_t id);                  // CHOICE: its number in `choices`
int32_t tc_config_list(const tc_config *c, int32_t id, const tc_sv **out); // LIST, PATHS: the count
int32_t tc_config_level(const tc_config *c, int32_t id);                   // TC_FROM_*
tc_sv tc_config_origin(const tc_config *c, int32_t id); // "built-in", "my.toml:3", "environment TC_THREADS", …
// A value of a plugin's section as text, "" if unset. The signature is that of tc_plugins_options.config.
tc_sv tc_config_section(void *config, tc_sv section, tc_sv key);

// ---- Showing ----
// One line per option and section value that is set: `key = value  # origin`. It reads back as a config file.
TC_NODISCARD tc_status tc_config_print(const tc_config *c, tc_sb *sb);
// What of the configuration may change compiled code, as one line: part of cache keys.
TC_NODISCARD tc_status tc_config_code_key(const tc_config *c, tc_sb *sb);

typedef struct tc_mode_info {
  tc_sv name, description, path;
} tc_mode_info;
// The modes there are, by name; files that cannot be read have the error as description.
TC_NODISCARD tc_status tc_config_modes(tc_config *c, const tc_mode_info **out, int32_t *out_count);

#endif
