// tcrun conform: runs the cases of the kit on one plugin and reports.
//
// Cases run in a process of their own, which writes a line before and after each; when it dies the case that it was in
// has failed, and another process goes on behind it. So nothing that a plugin does ends the report.
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tcrun/conform.h"

enum { PASS = 0, FAIL, UNSUPPORTED, EXPECTED, STATES };
static const char *const state_names[STATES] = {"pass", "FAIL", "unsupported", "expected failure"};
static const kit_cases *const groups[] = {&kit_abi_cases, &kit_device_cases, &kit_kernel_cases,
                                          &kit_op_cases,  &kit_check_cases,  &kit_run_cases};
enum { N_GROUPS = sizeof groups / sizeof *groups };

static int32_t case_count(void) {
  int32_t n = 0;
  for (int32_t g = 0; g < N_GROUPS; g++) n += groups[g]->n;
  return n;
}
static const kit_case *case_at(int32_t i) {
  for (int32_t g = 0;; g++) {
    if (i < groups[g]->n) return &groups[g]->cases[i];
    i -= groups[g]->n;
  }
}

// ---- In the process ----
typedef struct running {
  kit *k;
  const kit_case *c;
} running;
static tc_status run_case(void *arg) {
  running *r = arg;
  return r->c->run(r->k);
}

static void work(kit *k, int32_t first, const bool *chosen, FILE *to) {
  for (int32_t i = first; i < case_count(); i++) {
    running r = {k, case_at(i)};
    if (!chosen[i]) continue;
    fprintf(to, "B %d\n", i);
    fflush(to);
    k->unsupported[0] = k->note[0] = 0;
    tc_status s = tc_arena_create(tc_system_allocator(), &k->arena);
    if (s == TC_OK) s = tc_arena_guard(k->arena, run_case, &r);
    kit_close(k); // what an error left open
    fprintf(to, "R %d %d ", i, s != TC_OK ? FAIL : k->unsupported[0] ? UNSUPPORTED : PASS);
    for (const char *z = s != TC_OK ? tc_status_text(s) : k->unsupported[0] ? k->unsupported : k->note; *z; z++)
      fputc(*z == '\n' ? '\1' : *z, to);
    fputc('\n', to);
    fflush(to);
    bool loads = s == TC_OK || r.c != kit_abi_cases.cases;
    tc_status_free(s);
    tc_arena_destroy(k->arena);
    if (!loads) break; // the first case: without it there is nothing to look at
  }
  fprintf(to, "E\n");
  fflush(to);
}

// ---- Reading its lines ----
typedef struct result {
  int32_t state; // -1: not run
  const char *text;
} result;
typedef struct reading {
  kit *k;
  result *results;
  int32_t in_case; // -1: between cases
  bool ended;
} reading;

static void read_line(reading *r, char *line) {
  char *at;
  if (line[0] == 'E') r->ended = true;
  if (line[0] == 'B') r->in_case = (int32_t)strtol(line + 1, NULL, 10);
  if (line[0] != 'R') return;
  int32_t i = (int32_t)strtol(line + 1, &at, 10), state = (int32_t)strtol(at, &at, 10);
  for (char *z = at; *z; z++) {
    if (*z == '\1') *z = '\n';
  }
  tc_sv text = tc_sv_trim(tc_sv_of(at));
  r->results[i] = (result){state, tc_sv_copy(r->k->o->arena, text).data};
  r->in_case = -1;
}

// Until the process closes its end, or is silent for too long.
static void read_lines(reading *r, int from, pid_t pid, bool *killed) {
  char *buffer = NULL;
  size_t size = 0;
  const int64_t limit = r->k->o->limit;
  for (;;) {
    struct pollfd p = {.fd = from, .events = POLLIN};
    int ready = poll(&p, 1, limit > INT_MAX / 1000 ? -1 : (int)(limit * 1000));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      *killed = true;
      kill(pid, SIGKILL);
      break;
    }
    char *more = realloc(buffer, size + 4097);
    if (!more) break;
    buffer = more;
    ssize_t n = read(from, buffer + size, 4096);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += (size_t)n;
    buffer[size] = 0;
    for (char *end; (end = memchr(buffer, '\n', size));) {
      *end = 0;
      read_line(r, buffer);
      size_t used = (size_t)(end + 1 - buffer);
      memmove(buffer, end + 1, size - used);
      size -= used;
      buffer[size] = 0;
    }
  }
  free(buffer);
}

// Runs cases from `first` on in a process; *next: where to go on, or the number of cases.
static tc_status run_process(reading *r, int32_t first, const bool *chosen, int32_t *next) {
  int ends[2], status = 0;
  bool killed = false;
  if (pipe(ends) != 0) return tc_fs_error(errno, "make", "a pipe");
  fflush(stdout), fflush(stderr);
  pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]), close(ends[1]);
    return tc_fs_error(errno, "start", "a process");
  }
  if (pid == 0) {
    close(ends[0]);
    FILE *to = fdopen(ends[1], "w");
    if (to) work(r->k, first, chosen, to);
    _exit(0);
  }
  close(ends[1]);
  r->in_case = -1, r->ended = false;
  read_lines(r, ends[0], pid, &killed);
  close(ends[0]);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  *next = case_count();
  if (r->ended) return TC_OK;
  if (r->in_case < 0) return tc_error(TC_STATUS_PLUGIN, "the kit's process ended between cases");
  tc_arena *a = r->k->o->arena;
  const char *text = killed ? tc_sv_printf(a, "it took more than %lld seconds", (long long)r->k->o->limit).data
                     : WIFSIGNALED(status)
                         ? tc_sv_printf(a, "the process crashed: %s", strsignal(WTERMSIG(status))).data
                         : tc_sv_printf(a, "the process ended with code %d", WEXITSTATUS(status)).data;
  r->results[r->in_case] = (result){FAIL, text};
  *next = r->in_case + 1;
  return TC_OK;
}

// ---- Expected failures ----
// --skip-list=FILE: lines "group.name  # reason" of cases that fail for a known reason. One that passes is a failure:
// the list would else outlive its reasons.
static tc_status expect_failures(kit *k, result *results) {
  tc_sv text;
  if (!k->o->skip_list.size) return TC_OK;
  TC_TRY(tc_file_read(k->o->arena, tc_sv_z(k->o->arena, k->o->skip_list), &text));
  while (text.size) {
    tc_sv line, name;
    bool found = false;
    text = tc_sv_cut(text, '\n', &line);
    tc_sv reason = tc_sv_trim(tc_sv_cut(line, '#', &name));
    name = tc_sv_trim(name);
    if (!name.size) continue;
    for (int32_t i = 0; i < case_count(); i++) {
      const kit_case *c = case_at(i);
      if (!tc_sv_eq(name, tc_sv_printf(k->o->arena, "%s.%s", c->group, c->name))) continue;
      found = true;
      if (results[i].state == FAIL) results[i] = (result){EXPECTED, tc_sv_copy(k->o->arena, reason).data};
      else if (results[i].state == PASS)
        results[i] = (result){FAIL, "it is listed as an expected failure, and passes: take it from the list"};
    }
    if (!found)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "there is no case '" TC_SV_FMT "' to be expected to fail",
                      TC_SV_ARG(name));
  }
  return TC_OK;
}

// ---- The report ----
static void print_text(const kit *k, const result *results) {
  for (int32_t i = 0; i < case_count(); i++) {
    const kit_case *c = case_at(i);
    const result *r = &results[i];
    if (r->state < 0 || (k->o->quiet && r->state != FAIL)) continue;
    printf("%-16s %s.%s", state_names[r->state], c->group, c->name);
    if (r->state == FAIL) printf("\n  the rule: %s\n  %s\n", c->rule, r->text);
    else printf("%s%s\n", r->text[0] ? ": " : "", r->text);
  }
}

static tc_status write_json(const kit *k, const result *results, const int32_t *count, uint64_t seed) {
  tc_sb sb = tc_sb_make(k->o->arena);
  tc_sb_putz(&sb, "{\"plugin\": ");
  tc_json_quote(&sb, k->about.name);
  tc_sb_putz(&sb, ", \"version\": ");
  tc_json_quote(&sb, k->about.version);
  tc_sb_printf(&sb, ", \"abi\": \"%d.%d\", \"seed\": %llu", TC_ABI_MAJOR, TC_ABI_MINOR, (unsigned long long)seed);
  tc_sb_printf(&sb, ", \"passed\": %d, \"failed\": %d, \"unsupported\": %d, \"expected_failures\": %d, \"cases\": [",
               count[PASS], count[FAIL], count[UNSUPPORTED], count[EXPECTED]);
  bool any = false;
  for (int32_t i = 0; i < case_count(); i++) {
    const kit_case *c = case_at(i);
    if (results[i].state < 0) continue;
    tc_sb_printf(&sb, "%s\n  {\"group\": \"%s\", \"name\": \"%s\", \"status\": \"%s\", \"rule\": ", any ? "," : "",
                 c->group, c->name, results[i].state == FAIL ? "fail" : state_names[results[i].state]);
    tc_json_quote(&sb, tc_sv_of(c->rule));
    tc_sb_putz(&sb, ", \"detail\": ");
    tc_json_quote(&sb, tc_sv_of(results[i].text));
    tc_sb_putc(&sb, '}');
    any = true;
  }
  tc_sb_putz(&sb, "\n]}\n");
  if (k->o->json) fputs(sb.text, stdout);
  if (!k->o->report.size) return TC_OK;
  return tc_file_write(tc_sv_z(k->o->arena, k->o->report), sb.text, sb.size);
}

// ---- The command ----
// What the manifest says, without running anything of the plugin.
static tc_status read_manifest(kit *k) {
  tc_plugins *ps;
  tc_plugin *p;
  tc_plugins_options o = {.allocator = tc_system_allocator()};
  tc_sv folder = tc_path_dir(tc_sv_of(k->file));
  o.folders = &folder, o.n_folders = 1;
  TC_TRY(tc_plugins_create(&o, &ps));
  tc_status s = tc_plugins_add_file(ps, k->file, &p);
  if (s == TC_OK) {
    tc_arena *a = k->o->arena;
    k->about = *p;
    k->about.name = tc_sv_copy(a, p->name), k->about.version = tc_sv_copy(a, p->version);
    tc_sv *kinds = TC_NEW_ARRAY(a, tc_sv, p->n_devices);
    for (int32_t i = 0; i < p->n_devices; i++) kinds[i] = tc_sv_copy(a, p->devices[i]);
    k->about.devices = kinds;
    if (p->state == TC_PLUGIN_REFUSED)
      s = tc_error(TC_STATUS_PLUGIN, "the plugin is refused: " TC_SV_FMT, TC_SV_ARG(p->reason));
  }
  tc_plugins_destroy(ps);
  return s;
}

static tc_status no_such_case(run_options *o) {
  tc_sb sb = tc_sb_make(o->arena);
  for (int32_t i = 0; i < case_count(); i++) {
    const char *group = case_at(i)->group;
    if (i && strcmp(group, case_at(i - 1)->group) == 0) continue;
    tc_sb_printf(&sb, "%s%s", i ? ", " : "", group);
  }
  return tc_error(TC_STATUS_INVALID_ARGUMENT,
                  "no case is called '" TC_SV_FMT "'; a case is GROUP.NAME, --filter='device.*' takes a group: %s",
                  TC_SV_ARG(o->filter), sb.text);
}

tc_status cmd_conform(run_options *o) {
  kit k = {.o = o, .config = o->config};
  tc_sv real;
  if (o->args.count + (o->plugin.size > 0) != 1)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "one plugin (a .so file) is expected");
  TC_TRY(tc_path_real(o->arena, tc_sv_z(o->arena, o->plugin.size ? o->plugin : o->args.data[0]), &real));
  k.file = real.data;
  TC_TRY(read_manifest(&k));
  uint64_t seed = o->random ? o->seed : (uint64_t)(tc_now_ms() * 1000);
  k.seed = seed;
  int32_t n = case_count(), count[STATES] = {0};
  bool *chosen = TC_NEW_ARRAY(o->arena, bool, n);
  result *results = TC_NEW_ARRAY(o->arena, result, n);
  for (int32_t i = 0; i < n; i++) {
    const kit_case *c = case_at(i);
    tc_sv name = tc_sv_printf(o->arena, "%s.%s", c->group, c->name);
    chosen[i] = !o->filter.size || tc_sv_glob(name, o->filter);
    results[i] = (result){-1, ""};
  }
  bool any = false;
  for (int32_t i = 0; i < n; i++) any |= chosen[i];
  if (!any) return no_such_case(o);
  reading r = {.k = &k, .results = results};
  for (int32_t first = 0; first < n;) TC_TRY(run_process(&r, first, chosen, &first));
  TC_TRY(expect_failures(&k, results));
  for (int32_t i = 0; i < n; i++) {
    if (results[i].state >= 0) count[results[i].state]++;
  }
  if (!o->json) {
    print_text(&k, results);
    printf("plugin " TC_SV_FMT "%s" TC_SV_FMT ", seed %llu (--random=%llu repeats it), %d unsupported, %d expected\n",
           TC_SV_ARG(k.about.name), k.about.version.size ? " " : "", TC_SV_ARG(k.about.version),
           (unsigned long long)seed, (unsigned long long)seed, count[UNSUPPORTED], count[EXPECTED]);
    printf("%d passed, %d failed, %d skipped\n", count[PASS], count[FAIL], count[UNSUPPORTED] + count[EXPECTED]);
  }
  TC_TRY(write_json(&k, results, count, seed));
  if (count[FAIL]) return tc_error(TC_STATUS_MISMATCH, "%d cases of the kit failed", count[FAIL]);
  return TC_OK;
}
