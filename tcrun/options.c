// The command line: options of tcrun itself in a table; everything else that has a key goes to the configuration.
#include <stdio.h>
#include <string.h>

#include "tcrun/tcrun.h"

enum { TEXT, FLAG, REAL, INT, LIST };
typedef struct option {
  const char *name;
  int type;
  size_t offset;
} option;
#define O(name, type, field) {name, type, offsetof(run_options, field)}
static const option own[] = {
    O("inputs", TEXT, inputs),       O("output", TEXT, output),
    O("expect", TEXT, expect),       O("stage", TEXT, stage),
    O("method", TEXT, method),       O("filter", TEXT, filter),
    O("report", TEXT, report),       O("skip-list", TEXT, skip_list),
    O("plugin", TEXT, plugin),       O("json", FLAG, json),
    O("quiet", FLAG, quiet),         O("wall", FLAG, wall),
    O("unchecked", FLAG, unchecked), O("replays", INT, replays),
    O("help", FLAG, help),           O("rtol", REAL, rtol),
    O("atol", REAL, atol),           O("runs", INT, runs),
    O("input", LIST, named_inputs),  O("grad", FLAG, grad),
    O("flops", FLAG, flops),         O("compile-only", FLAG, compile_only),
    O("weights", TEXT, weights),     O("round-trip", FLAG, round_trip),
    O("beside", FLAG, beside),       O("markdown", FLAG, markdown),
    O("tape", FLAG, tape),           O("sizes", LIST, sizes),
    O("limit", INT, limit),
};
// Options that are keys of the configuration under another spelling.
static const struct {
  const char *name, *key, *when_bare;
} keys[] = {{"backend", "backend", NULL},       {"mode", "mode", NULL},           {"device", "device", NULL},
            {"threads", "threads", NULL},       {"logs", "logs", NULL},           {"profile", "profile", NULL},
            {"kernels", "kernels", NULL},       {"debug-dir", "debug_dir", NULL}, {"strict", "strict", "true"},
            {"fullgraph", "fullgraph", "true"}, {"dynamic", "dynamic", "true"},   {"self-check", "self_check", "true"}};

static tc_status set_own(tc_arena *arena, run_options *o, const option *p, tc_sv value, bool given) {
  void *field = (char *)o + p->offset;
  if (p->type == FLAG) {
    *(bool *)field = true;
    return TC_OK;
  }
  if (!given) return tc_error(TC_STATUS_INVALID_ARGUMENT, "--%s needs a value", p->name);
  if (p->type == TEXT) *(tc_sv *)field = value;
  if (p->type == LIST) tc_vec_push(arena, (option_list *)field, value);
  if (p->type == REAL && !tc_sv_to_double(value, field))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "--%s=" TC_SV_FMT " is no number", p->name, TC_SV_ARG(value));
  if (p->type == INT && !tc_sv_to_int(value, field))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "--%s=" TC_SV_FMT " is no integer", p->name, TC_SV_ARG(value));
  return TC_OK;
}

static tc_status read_option(tc_arena *arena, run_options *o, tc_sv name, tc_sv value, bool given, const char *next,
                             int *used) {
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    if (tc_sv_is(name, own[i].name)) return set_own(arena, o, &own[i], value, given);
  }
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!tc_sv_is(name, keys[i].name)) continue;
    if (!given && !keys[i].when_bare) return tc_error(TC_STATUS_INVALID_ARGUMENT, "--%s needs a value", keys[i].name);
    if (tc_sv_is(name, "backend")) tc_vec_push(arena, &o->backends, value);
    const char *origin = tc_sv_printf(arena, "--%s", keys[i].name).data;
    return tc_config_set(o->config, tc_sv_of(keys[i].key), given ? value : tc_sv_of(keys[i].when_bare), origin);
  }
  if (tc_sv_is(name, "random")) {
    int64_t seed = 1;
    o->random = true;
    if (given && !tc_sv_to_int(value, &seed))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "--random=" TC_SV_FMT " is no seed", TC_SV_ARG(value));
    o->seed = (uint64_t)seed;
    return TC_OK;
  }
  if (tc_sv_is(name, "jobs")) {
    int64_t jobs;
    if (!tc_sv_to_int(value, &jobs) || jobs < 1 || jobs > 1024)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "--jobs takes a number from 1 to 1024");
    o->jobs = (int32_t)jobs;
    return TC_OK;
  }
  if (tc_sv_is(name, "config")) return tc_config_read_file(o->config, tc_sv_z(arena, value));
  if (tc_sv_is(name, "set")) {
    if (!given && !next) return tc_error(TC_STATUS_INVALID_ARGUMENT, "--set needs key=value");
    if (!given) *used = 1;
    return tc_config_set_pair(o->config, given ? value : tc_sv_of(next), "--set");
  }
  tc_sv names[64];
  int32_t n = 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) names[n++] = tc_sv_of(own[i].name);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) names[n++] = tc_sv_of(keys[i].name);
  tc_sv near = tc_sv_nearest(name, names, n);
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "unknown option --" TC_SV_FMT "%s" TC_SV_FMT "%s", TC_SV_ARG(name),
                  near.size ? "; did you mean --" : "", TC_SV_ARG(near), near.size ? "?" : "");
}

tc_status tcrun_parse(tc_arena *arena, int argc, char **argv, run_options *o) {
  *o = (run_options){.arena = arena, .argc = argc, .argv = argv, .rtol = -1, .atol = -1, .seed = 1, .limit = 300};
  TC_TRY(tc_config_create(tc_system_allocator(), &o->config));
  TC_TRY(tc_config_read_environment(o->config, NULL));
  for (int i = 0; i < argc; i++) {
    tc_sv a = tc_sv_of(argv[i]);
    if (tc_sv_is(a, "-o") && i + 1 < argc) {
      o->output = tc_sv_of(argv[++i]);
      continue;
    }
    if (!tc_sv_starts(a, "--")) {
      tc_vec_push(arena, &o->args, a);
      continue;
    }
    tc_sv name, value = tc_sv_cut(tc_sv_sub(a, 2, a.size), '=', &name);
    bool given = name.size + 2 < a.size;
    int used = 0;
    TC_TRY(read_option(arena, o, name, value, given, i + 1 < argc ? argv[i + 1] : NULL, &used));
    i += used;
  }
  return TC_OK;
}

static void write_log(void *self, int32_t artifact, tc_sv text) {
  tcrun_progress_hide(self);
  tc_log_to_stderr(NULL, artifact, text);
  tcrun_progress_show(self);
}

// What says which program it is: the plugins and kernels by hand that ops may come from, and mixed precision.
static tc_status copy_meaning(const run_options *o, tc_config *to) {
  static const int32_t ids[] = {TC_OPT_ID_PLUGINS_PATH, TC_OPT_ID_PLUGINS_PREFER, TC_OPT_ID_PLUGINS_DISABLED,
                                TC_OPT_ID_KERNELS,      TC_OPT_ID_AUTOCAST,       TC_OPT_ID_AUTOCAST_LISTS};
  static const char *const names[] = {"plugins.path", "plugins.prefer", "plugins.disabled",
                                      "kernels",      "autocast",       "autocast_lists"};
  run_options again;
  TC_TRY(tcrun_parse(o->arena, o->argc, o->argv, &again));
  tc_status s = TC_OK;
  for (size_t i = 0; i < sizeof ids / sizeof *ids && s == TC_OK; i++) {
    tc_sv value = tc_config_text(again.config, ids[i]);
    if (value.size) s = tc_config_set(to, tc_sv_of(names[i]), value, "the command line");
  }
  tc_config_destroy(again.config);
  return s;
}

tc_status tcrun_open_ref(const run_options *o, tc_context **out) {
  tc_config *config;
  TC_TRY(tc_config_create(tc_system_allocator(), &config));
  tc_status s = copy_meaning(o, config);
  if (s == TC_OK) s = tc_config_set(config, TC_SV("backend"), TC_SV("ref"), "the references");
  if (s == TC_OK) s = tc_config_set(config, TC_SV("cache.enabled"), TC_SV("false"), "the references");
  // They run in one thread; a process without others can be forked.
  if (s == TC_OK) s = tc_config_set(config, TC_SV("threads"), TC_SV("1"), "the references");
  if (s != TC_OK) {
    tc_config_destroy(config);
    return s;
  }
  TC_TRY(tc_context_create(tc_system_allocator(), config, tc_logger_silent, out));
  s = tc_context_open_backend(*out);
  if (s != TC_OK) tc_context_destroy(*out);
  return s;
}

tc_status tcrun_open(run_options *o, tc_context **out) {
  tc_config *config = o->config;
  if (!config) return tc_error(TC_STATUS_INTERNAL, "the context was opened before");
  tc_sv kind = {0};
  if (tc_sv_is(tc_config_text(config, TC_OPT_ID_BACKEND), "auto")) TC_TRY(tcrun_artifact_backend(o, &kind));
  if (kind.size) TC_TRY(tc_config_set(config, TC_SV("backend"), kind, "the artifact"));
  TC_TRY(tc_config_apply_mode(config));
  tcrun_progress_say(o->progress, "opening " TC_SV_FMT, TC_SV_ARG(tc_config_text(config, TC_OPT_ID_BACKEND)));
  o->config = NULL; // the context's from here on
  TC_TRY(tc_context_create(tc_system_allocator(), config, (tc_logger){.write = write_log, .self = o->progress}, out));
  tc_status s = tc_context_open_backend(*out);
  if (s != TC_OK) tc_context_destroy(*out);
  return s;
}
