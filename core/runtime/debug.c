// Files of a compilation. What stands in the folder is complete when this returns; the report is written last.
#include "core/runtime/debug.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/runtime/report.h"
#include "core/runtime/session_internal.h"

enum {
  F_GRAPH,
  F_FUNCTIONAL,
  F_LOOP,
  F_SCHEDULE,
  F_KERNEL,
  F_PLAN,
  F_CODE,
  F_GUARDS,
  F_CONFIG,
  F_TIMES,
  F_BENCH,
  F_COUNT
};
static const tc_report_file kinds[F_COUNT] = {
    {"graph.tc", "", TC_STAGE_GRAPH, 0},
    {"functional.tc", "", TC_STAGE_FUNCTIONAL, 0},
    {"loop.tc", "", TC_STAGE_LOOP, 0},
    {"schedule.tc", "", TC_STAGE_SCHEDULE, 0},
    {"kernel.tc", "", TC_STAGE_KERNEL, 0},
    {"plan.tc", "", TC_STAGE_PLAN, 0},
    {"code.txt", "", TC_STAGE_CODE, 0},
    {"guards.txt", "what its inputs must be", -1, 0},
    {"config.toml", "the options in force, and where each comes from", -1, 0},
    {"times.json", "milliseconds of each stage, and what was found in the cache", -1, 0},
    {"bench.sh", "times the plan with random inputs", -1, 0},
};

// "fft/block 2" → "fft_block_2"
static tc_sv file_name(tc_arena *arena, tc_sv name) {
  char *text = tc_arena_copy(arena, name.size ? name.data : "graph", name.size ? name.size : 5);
  size_t n = name.size ? name.size : 5;
  for (size_t i = 0; i < n; i++) {
    char c = text[i];
    bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || (c == '.' && i);
    if (!plain) text[i] = '_';
  }
  return (tc_sv){text, n > 100 ? 100 : n};
}

static tc_status make_folder(const tc_session *s, const char **out) {
  tc_sv base = tc_config_text(s->context->config, TC_OPT_ID_DEBUG_DIR);
  tc_arena *arena = s->arena;
  if (!base.size) base = TC_SV("tc_compile_debug");
  TC_TRY(tc_dir_make(tc_sv_z(arena, base)));
  tc_sv name = file_name(arena, s->name);
  for (int32_t i = 0;; i++) {
    tc_sv path = tc_path_join(arena, base, tc_sv_printf(arena, TC_SV_FMT ".%d", TC_SV_ARG(name), i));
    *out = path.data;
    if (mkdir(path.data, 0755) == 0) return TC_OK;
    if (errno != EEXIST) return tc_fs_error(errno, "make", path.data);
  }
}

static tc_status write_file(const tc_session *s, const char *folder, tc_report_file *f, const tc_sb *text) {
  const char *path = tc_path_join(s->arena, tc_sv_of(folder), tc_sv_of(f->name)).data;
  for (size_t i = 0; i < text->size; i++) f->lines += text->text[i] == '\n';
  TC_TRY(tc_file_write(path, text->text ? text->text : "", text->size));
  if (f->name[0] == 'b' && chmod(path, 0755) != 0) return tc_fs_error(errno, "make runnable", path);
  return TC_OK;
}

// ---- What is in them ----
static void put_times(const tc_session *s, tc_sb *sb) {
  const tc_session_stats *q = &s->stats;
  tc_sb_putz(sb, "{\n  \"name\": ");
  tc_json_quote(sb, s->name);
  for (int32_t i = 0; i < TC_STAGE_COUNT; i++)
    tc_sb_printf(sb, "%s\"%s\": %.3f", i ? ", " : ",\n  \"ms\": {", tc_stage_name(i), q->ms[i]);
  tc_sb_printf(sb, "},\n  \"kernels\": %d,\n  \"from_cache\": %d,\n  \"segments\": %d,\n  \"fallbacks\": %d\n}\n",
               q->compile.kernels, q->compile.hits, q->segments, q->fallbacks);
}

// The program by its path if it is this one, else by name.
static void put_bench(const tc_session *s, tc_sb *sb) {
  tc_sv self = {0};
  tc_status found = tc_self_file(s->arena, &self);
  bool here = found == TC_OK && tc_sv_is(tc_path_base(self), "tcrun");
  tc_status_free(found);
  tc_sb_printf(sb,
               "#!/bin/sh\n# Times the plan beside this file with random inputs; TCRUN names the program.\n"
               "exec \"${TCRUN:-" TC_SV_FMT
               "}\" bench \"$(dirname \"$0\")/kernel.tc\" --random --unchecked --backend=" TC_SV_FMT " \"$@\"\n",
               TC_SV_ARG(here ? self : TC_SV("tcrun")), TC_SV_ARG(s->context->backend));
}

static tc_status put_file(const tc_session *s, int32_t k, tc_sv imported, const tc_source *source, tc_sb *sb) {
  int32_t stage = kinds[k].stage;
  switch (k) {
  case F_GUARDS: tc_session_guards(s, sb); return TC_OK;
  case F_CONFIG: return tc_config_print(s->context->config, sb);
  case F_TIMES: put_times(s, sb); return TC_OK;
  case F_BENCH: put_bench(s, sb); return TC_OK;
  default: break;
  }
  if (stage < TC_STAGE_CODE) tc_source_print_weights(sb, source);
  if (k == F_GRAPH) return tc_sb_put(sb, imported), TC_OK;
  return tc_session_text(s, stage, sb);
}

// The references have no stage behind the functional graph.
static bool is_there(const tc_session *s, int32_t k) {
  bool whole = s->whole && s->n_steps == 1;
  if (k == F_BENCH) return !s->context->is_ref && whole;
  return !s->context->is_ref || kinds[k].stage <= TC_STAGE_FUNCTIONAL;
}

static tc_status write_report(const tc_session *s, const char *folder, tc_report *r) {
  tc_sb sb = tc_sb_make(s->arena);
  TC_TRY(tc_report_print(r, &sb));
  return tc_file_write(tc_path_join(s->arena, tc_sv_of(folder), TC_SV("report.html")).data, sb.text, sb.size);
}

tc_status tc_debug_write(tc_session *s, tc_sv imported, const tc_source *source, const char **out_folder) {
  s->code_texts = tc_map_create(s->arena);
  tc_report_file *files = TC_NEW_ARRAY(s->arena, tc_report_file, F_COUNT);
  tc_report r = {.session = s, .name = s->name, .files = files};
  TC_TRY(make_folder(s, out_folder));
  for (int32_t k = 0; k < F_COUNT; k++) {
    if (!is_there(s, k)) continue;
    tc_sb sb = tc_sb_make(s->arena);
    files[r.n_files] = kinds[k];
    TC_TRY(put_file(s, k, imported, source, &sb));
    TC_TRY(write_file(s, *out_folder, &files[r.n_files++], &sb));
  }
  return write_report(s, *out_folder, &r);
}

// ---- Behind a run ----
typedef struct rewriting {
  const tc_session *s;
  const char *folder;
  tc_report r;
} rewriting;
static tc_status rewrite(void *arg) {
  rewriting *w = arg;
  tc_report_file *files = TC_NEW_ARRAY(w->s->arena, tc_report_file, F_COUNT);
  for (int32_t k = 0; k < F_COUNT; k++) {
    if (!is_there(w->s, k)) continue;
    tc_report_file *f = &files[w->r.n_files++];
    tc_sv text;
    *f = kinds[k];
    TC_TRY(tc_file_read(w->s->arena, tc_path_join(w->s->arena, tc_sv_of(w->folder), tc_sv_of(f->name)).data, &text));
    for (size_t i = 0; i < text.size; i++) f->lines += text.data[i] == '\n';
  }
  w->r.files = files;
  return write_report(w->s, w->folder, &w->r);
}

tc_status tc_debug_note_run(const tc_session *s, const char *folder, const tc_launch_record *launches,
                            int32_t n_launches, double ms) {
  rewriting w = {
      s, folder, {.session = s, .name = s->name, .launches = launches, .n_launches = n_launches, .run_ms = ms}};
  return tc_arena_guard(s->arena, rewrite, &w);
}
