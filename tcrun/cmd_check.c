// tcrun check: conformance over archives.
//
// Every file is run in a worker process, of which there are --jobs; a worker that dies makes the case it was at a
// failure that names the signal, and a new one goes on behind it. So a crash, or a case that hangs, costs one case.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tcrun/check.h"
#include "tcrun/gradcheck.h"

enum { MOST_GROUPS = 25 };

// ---- Files ----
static tc_status add_file(check_run *r, tc_map *indices, tc_sv path) {
  tc_arena *arena = r->o->arena;
  check_file f = {.path = tc_sv_copy(arena, path)};
  tcrun_split_name(tc_path_base(f.path), &f.file, &f.name, &f.dialect);
  tc_sv folder = tc_path_dir(f.path),
        beside = tc_path_join(arena, folder.size ? folder : TC_SV("."),
                              tc_sv_printf(arena, TC_SV_FMT ".safetensors", TC_SV_ARG(f.file)));
  if (!tc_file_exists(tc_sv_z(arena, beside))) {
    beside = tc_path_join(arena, folder.size ? folder : TC_SV("."),
                          tc_sv_printf(arena, TC_SV_FMT ".safetensors", TC_SV_ARG(f.name)));
    if (!tc_file_exists(tc_sv_z(arena, beside))) beside = (tc_sv){0};
    else beside = tc_sv_copy(arena, beside);
  } else {
    // "a.core" itself may be the name of a model.
    beside = tc_sv_copy(arena, beside);
    f.name = f.file;
  }
  f.tensors = beside;
  bool fresh;
  tc_map_entry *e = tc_map_put(indices, folder, &fresh);
  if (fresh) {
    line_index *x;
    TC_TRY(tcrun_index_read(arena, folder, &x));
    e->value.ptr = x;
  }
  f.index = e->value.ptr;
  r->files = realloc(r->files, (size_t)(r->n_files + 1) * sizeof f);
  if (!r->files) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a list of files");
  r->files[r->n_files++] = f;
  return TC_OK;
}

static tc_status add_path(check_run *r, tc_map *indices, tc_sv path, int32_t depth) {
  tc_arena *arena = r->o->arena;
  const char *z = tc_sv_z(arena, path);
  if (tc_file_exists(z)) return add_file(r, indices, path);
  tc_sv *names;
  int32_t n;
  TC_TRY(tc_dir_list(arena, z, &names, &n));
  for (int32_t i = 0; i < n; i++) {
    tc_sv inner = tc_path_join(arena, path, names[i]);
    if (tc_sv_ends(names[i], ".pt2") || tc_sv_ends(names[i], ".tcx")) TC_TRY(add_file(r, indices, inner));
    else if (depth < 4 && tc_dir_exists(tc_sv_z(arena, inner))) TC_TRY(add_path(r, indices, inner, depth + 1));
  }
  return TC_OK;
}

// ---- The skip list ----
// Lines "PATTERN: reason" or "PATTERN on BACKEND, BACKEND…: reason"; the pattern is a glob over FILE or FILE/METHOD.
// Listed cases run, too: one that passes is to be taken off the list, and fails until then, but on "BACKEND?", where it
// depends on the machine. "tape" in a backend's place: where --tape runs op by op.
typedef struct skip {
  tc_sv pattern, backends, reason; // backends empty: any
} skip;
typedef TC_VEC(skip) skip_list;

static tc_status read_skips(run_options *o, skip_list *out) {
  tc_sv text;
  if (!o->skip_list.size) return TC_OK;
  TC_TRY(tc_file_read(o->arena, tc_sv_z(o->arena, o->skip_list), &text));
  for (int32_t number = 1; text.size; number++) {
    skip s;
    tc_sv line;
    text = tc_sv_cut(text, '\n', &line);
    line = tc_sv_trim(line);
    if (!line.size || line.data[0] == '#') continue;
    s.reason = tc_sv_trim(tc_sv_cut(line, ':', &s.pattern));
    s.pattern = tc_sv_trim(s.pattern);
    s.backends = tc_sv_trim(tc_sv_cut(s.pattern, ' ', &s.pattern));
    if (tc_sv_starts(s.backends, "on ")) s.backends = tc_sv_trim(tc_sv_sub(s.backends, 3, s.backends.size));
    if (!s.reason.size)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: 'PATTERN: reason' is expected",
                      TC_SV_ARG(o->skip_list), number);
    tc_vec_push(o->arena, out, s);
  }
  return TC_OK;
}

static bool is_on(tc_sv backends, tc_sv backend, bool tape, bool *out_depends) {
  *out_depends = false;
  if (!backends.size) return true;
  for (tc_sv one; backends.size;) {
    backends = tc_sv_cut(backends, ',', &one);
    one = tc_sv_trim(one);
    *out_depends = tc_sv_ends(one, "?");
    one = tc_sv_sub(one, 0, one.size - *out_depends);
    if (tc_sv_eq(one, backend) || (tape && tc_sv_is(one, "tape"))) return true;
  }
  return false;
}

static const skip *find_skip(const skip_list *l, const check_run *r, tc_sv file, tc_sv method, bool passed) {
  tc_arena *arena = r->o->arena;
  tc_sv whole = tc_sv_printf(arena, TC_SV_FMT "/" TC_SV_FMT, TC_SV_ARG(file), TC_SV_ARG(method));
  for (int32_t i = 0; i < l->count; i++) {
    bool depends;
    if (!is_on(l->data[i].backends, r->backend, r->o->tape, &depends) || (depends && passed)) continue;
    if (tc_sv_glob(file, l->data[i].pattern) || tc_sv_glob(whole, l->data[i].pattern)) return &l->data[i];
  }
  return NULL;
}

// ---- Adding up ----
typedef struct totals {
  check_run *r;
  skip_list skips;
  int32_t passed, failed, skipped;
  int32_t without;     // --grad: cases without stored gradients
  tc_map *groups;      // reason → count
  tc_map *derivatives; // gradcheck: ops whose derivatives have passed
  int32_t second;      // … cases that have passed in second order, too
  FILE *report;
  bool any; // in the report
} totals;

// What failures have in common: the first line without numbers; unknown ops by name.
static tc_sv group_of(tc_arena *arena, tc_sv reason) {
  tc_sv line, rest = tc_sv_cut(reason, '\n', &line);
  if (strstr(tc_sv_z(arena, line), "not known:")) {
    tc_sv op, unused = tc_sv_cut(tc_sv_trim(rest), ',', &op);
    (void)unused;
    return tc_sv_printf(arena, "unknown op " TC_SV_FMT, TC_SV_ARG(op));
  }
  tc_sb sb = tc_sb_make(arena);
  for (size_t i = 0; i < line.size && sb.size < 100; i++) {
    bool digit = line.data[i] >= '0' && line.data[i] <= '9';
    if (!digit) tc_sb_putc(&sb, line.data[i]);
    else if (!sb.size || sb.text[sb.size - 1] != '#') tc_sb_putc(&sb, '#');
  }
  return tc_sb_view(&sb);
}

static void count_skipped(totals *t, tc_sv file, tc_sv method, tc_sv reason, bool listed) {
  if (t->r->o->grad && !listed) t->without++;
  else t->skipped++;
  if (!t->r->o->quiet)
    printf("skip " TC_SV_FMT "%s" TC_SV_FMT ": " TC_SV_FMT "\n", TC_SV_ARG(file), method.size ? " " : "",
           TC_SV_ARG(method), TC_SV_ARG(reason));
}

static void count(totals *t, tc_sv file, tc_sv method, tc_sv status, tc_sv reason, tc_sv record) {
  tc_arena *arena = t->r->o->arena;
  tcrun_progress *progress = t->r->o->progress;
  tcrun_progress_hide(progress);
  bool passed = tc_sv_is(status, "pass"), skipped = tc_sv_is(status, "skip");
  const skip *s = find_skip(&t->skips, t->r, file, method, passed);
  if (s && passed) {
    passed = false;
    reason = tc_sv_printf(arena, "passes, but is on the skip list: " TC_SV_FMT, TC_SV_ARG(s->reason));
  } else if (s || skipped) {
    tc_sv line;
    tc_sv_cut(reason, '\n', &line);
    count_skipped(t, file, method, s ? s->reason : line, s != NULL);
  }
  if (!skipped && (!s || tc_sv_starts(reason, "passes, but"))) {
    t->passed += passed;
    t->failed += !passed;
    if (!passed) {
      tc_map_put(t->groups, group_of(arena, reason), NULL)->value.num++;
      tc_sv line, rest = tc_sv_cut(reason, '\n', &line);
      (void)rest;
      printf("FAIL " TC_SV_FMT "%s" TC_SV_FMT ": " TC_SV_FMT "\n", TC_SV_ARG(file), method.size ? " " : "",
             TC_SV_ARG(method), TC_SV_ARG(t->r->o->quiet ? line : reason));
    }
  }
  if (t->report) fprintf(t->report, "%s\n  " TC_SV_FMT, t->any ? "," : "", TC_SV_ARG(record));
  t->any = true;
  tcrun_progress_show(progress);
  tcrun_progress_say(progress, "checked %d cases, %d failed: " TC_SV_FMT,
                     t->passed + t->failed + t->skipped + t->without, t->failed, TC_SV_ARG(file));
}

// Of a case of gradcheck that has passed.
static void count_derivatives(totals *t, tc_json root) {
  tc_json_iter it = tc_json_begin(tc_json_get(root, "outputs"));
  int64_t order = 0;
  while (tc_json_next(&it)) {
    tc_json_iter ops = tc_json_begin(tc_json_get(it.value, "derivatives"));
    t->second += tc_json_int(tc_json_get(it.value, "order"), &order) && order > 1;
    tc_sv op;
    while (tc_json_next(&ops))
      if (tc_json_str(ops.value, &op)) tc_map_put(t->derivatives, tc_sv_copy(t->r->o->arena, op), NULL);
  }
}

static void count_record(totals *t, tc_sv line) {
  tc_json_doc *doc;
  tc_json root;
  tc_sv file = {0}, method = {0}, status = {0}, reason = {0};
  tc_status s = tc_json_parse(tc_system_allocator(), line, &doc, &root);
  if (s != TC_OK) {
    fprintf(stderr, "tcrun check: a worker wrote nonsense: %s\n", tc_status_text(s));
    tc_status_free(s);
    t->failed++;
    return;
  }
  tc_json_str(tc_json_get(root, "file"), &file);
  tc_json_str(tc_json_get(root, "method"), &method);
  tc_json_str(tc_json_get(root, "status"), &status);
  tc_json_str(tc_json_get(root, "reason"), &reason);
  count(t, file, method, status, tc_sv_copy(t->r->o->arena, reason), line);
  if (tc_sv_is(status, "pass")) count_derivatives(t, root);
  tc_json_free(doc);
}

static int by_count(const void *a, const void *b) {
  const tc_map_entry *x = *(const tc_map_entry *const *)a, *y = *(const tc_map_entry *const *)b;
  return x->value.num > y->value.num ? -1 : x->value.num < y->value.num;
}

static void print_groups(totals *t) {
  int32_t n = tc_map_count(t->groups);
  if (n < 2 && t->failed < 2) return;
  const tc_map_entry **sorted = TC_NEW_ARRAY(t->r->o->arena, const tc_map_entry *, n);
  for (int32_t i = 0; i < n; i++) sorted[i] = tc_map_at(t->groups, i);
  qsort(sorted, (size_t)n, sizeof *sorted, by_count);
  printf("\nfailures by reason:\n");
  for (int32_t i = 0; i < n && i < MOST_GROUPS; i++)
    printf("%6lld  " TC_SV_FMT "\n", (long long)sorted[i]->value.num, TC_SV_ARG(sorted[i]->key));
  if (n > MOST_GROUPS) printf("        and %d more\n", n - MOST_GROUPS);
}

// ---- Workers ----
typedef struct worker {
  pid_t pid;
  int from, to;            // pipes: answers, orders; -1: none
  int32_t file, next_case; // being done; file -1: idle
  bool in_case, killed;
  char label[200];
  double since; // the last sign of life
  char *buffer;
  size_t size, capacity;
} worker;

static void work(const check_run *r, int orders, int answers) {
  FILE *in = fdopen(orders, "r"), *out = fdopen(answers, "w");
  tc_context *c = NULL;
  int file, first;
  char line[64];
  while (in && out && fgets(line, sizeof line, in)) {
    char *end;
    file = (int)strtol(line, &end, 10);
    first = (int)strtol(end, NULL, 10);
    tc_status s = check_run_file(r, &c, file, first, out);
    if (s == TC_OK) continue;
    fprintf(out, "X %d ", tc_status_code(s));
    for (const char *z = tc_status_text(s); *z; z++) fputc(*z == '\n' ? ' ' : *z, out);
    fputc('\n', out);
    fflush(out);
    tc_status_free(s);
    if (!c) break;
  }
  if (c) tc_context_destroy(c);
}

static tc_status start_worker(const check_run *r, worker *w, worker *all, int32_t n) {
  int orders[2], answers[2];
  if (pipe(orders) != 0) return tc_fs_error(errno, "make", "a pipe");
  if (pipe(answers) != 0) {
    close(orders[0]), close(orders[1]);
    return tc_fs_error(errno, "make", "a pipe");
  }
  fflush(stdout), fflush(stderr);
  pid_t pid = fork();
  if (pid < 0) {
    close(orders[0]), close(orders[1]), close(answers[0]), close(answers[1]);
    return tc_fs_error(errno, "start", "a worker");
  }
  if (pid == 0) {
    close(orders[1]), close(answers[0]);
    for (int32_t i = 0; i < n; i++) { // the pipes of the others must end with the parent
      if (all[i].pid > 0) close(all[i].from), close(all[i].to);
    }
    work(r, orders[0], answers[1]);
    _exit(0);
  }
  close(orders[0]), close(answers[1]);
  char *buffer = w->buffer;
  size_t capacity = w->capacity;
  *w = (worker){.pid = pid,
                .from = answers[0],
                .to = orders[1],
                .file = -1,
                .buffer = buffer,
                .capacity = capacity,
                .since = tc_now_ms()};
  return TC_OK;
}

static void order(worker *w, int32_t file, int32_t first) {
  char line[64];
  int n = snprintf(line, sizeof line, "%d %d\n", file, first);
  w->file = file, w->next_case = first, w->in_case = false, w->since = tc_now_ms();
  if (write(w->to, line, (size_t)n) != n) w->since = 0; // a dead worker: its end is seen on the other pipe
}

// A line of a worker. *fatal: it could not even open the backend.
static void answer(totals *t, worker *w, tc_sv line, tc_status *fatal) {
  w->since = tc_now_ms();
  if (tc_sv_starts(line, "B ")) {
    w->next_case = (int32_t)strtol(line.data + 2, NULL, 10);
    tc_sv number, label = tc_sv_cut(tc_sv_sub(line, 2, line.size), ' ', &number);
    snprintf(w->label, sizeof w->label, TC_SV_FMT, TC_SV_ARG(label));
    w->in_case = true;
  } else if (tc_sv_starts(line, "R ")) {
    count_record(t, tc_sv_sub(line, 2, line.size));
    w->in_case = false;
    w->next_case++;
  } else if (tc_sv_starts(line, "E")) {
    w->file = -1;
  } else if (tc_sv_starts(line, "X ") && *fatal == TC_OK) {
    char *text;
    int32_t code = (int32_t)strtol(line.data + 2, &text, 10);
    *fatal = tc_error(code, "%.*s", (int)(line.data + line.size - text - 1), text + 1);
  }
}

static void died(totals *t, worker *w) {
  int status = 0;
  tc_arena *arena = t->r->o->arena;
  close(w->from), close(w->to);
  waitpid(w->pid, &status, 0);
  w->pid = 0;
  if (w->file < 0) return;
  const check_file *f = &t->r->files[w->file];
  tc_sv reason;
  if (w->killed) reason = tc_sv_printf(arena, "it took more than %lld seconds", (long long)t->r->o->limit);
  else if (WIFSIGNALED(status)) reason = tc_sv_printf(arena, "crashed: %s", strsignal(WTERMSIG(status)));
  else reason = tc_sv_printf(arena, "the worker ended with code %d", WEXITSTATUS(status));
  tc_sb sb = tc_sb_make(arena);
  tc_sb_putz(&sb, "{\"file\": ");
  tc_json_quote(&sb, f->file);
  tc_sb_putz(&sb, ", \"method\": ");
  tc_json_quote(&sb, tc_sv_of(w->label));
  tc_sb_printf(&sb, ", \"backend\": \"" TC_SV_FMT "\", \"mode\": \"" TC_SV_FMT "\", \"status\": \"fail\", \"reason\": ",
               TC_SV_ARG(t->r->backend), TC_SV_ARG(t->r->mode));
  tc_json_quote(&sb, reason);
  tc_sb_putz(&sb, ", \"outputs\": []}");
  count(t, f->file, tc_sv_of(w->label), TC_SV("fail"), reason, tc_sb_view(&sb));
  if (w->in_case) w->next_case++;
  else w->file = -1; // not in a case: the file itself does it, again and again
}

// Reads what there is; false when the worker is gone.
static bool listen_to(totals *t, worker *w, tc_status *fatal) {
  if (w->size + 65536 > w->capacity) {
    char *more = realloc(w->buffer, w->capacity + 131072);
    if (!more) return false;
    w->buffer = more;
    w->capacity += 131072;
  }
  ssize_t n = read(w->from, w->buffer + w->size, w->capacity - w->size);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  w->size += (size_t)n;
  size_t at = 0;
  for (char *end; (end = memchr(w->buffer + at, '\n', w->size - at)); at = (size_t)(end - w->buffer) + 1) {
    *end = 0;
    answer(t, w, (tc_sv){w->buffer + at, (size_t)(end - w->buffer) - at}, fatal);
  }
  memmove(w->buffer, w->buffer + at, w->size - at);
  w->size -= at;
  return true;
}

static tc_status give_work(totals *t, worker *workers, int32_t n, int32_t *next, int32_t *busy) {
  *busy = 0;
  for (int32_t i = 0; i < n; i++) {
    worker *w = &workers[i];
    if (w->pid > 0 && w->file >= 0) {
      (*busy)++;
      continue;
    }
    int32_t resume = w->pid == 0 && w->file >= 0 ? w->file : -1, first = w->next_case;
    if (resume < 0 && *next >= t->r->n_files) continue;
    if (w->pid == 0) TC_TRY(start_worker(t->r, w, workers, n));
    if (resume >= 0) order(w, resume, first);
    else order(w, (*next)++, 0);
    (*busy)++;
  }
  return TC_OK;
}

static tc_status run_workers(totals *t, worker *workers, int32_t n) {
  struct pollfd *fds = TC_NEW_ARRAY(t->r->o->arena, struct pollfd, n);
  int32_t next = 0, busy;
  tc_status fatal = TC_OK;
  for (;;) {
    TC_TRY(give_work(t, workers, n, &next, &busy));
    if (busy == 0 || fatal != TC_OK) return fatal;
    for (int32_t i = 0; i < n; i++)
      fds[i] = (struct pollfd){.fd = workers[i].pid > 0 ? workers[i].from : -1, .events = POLLIN};
    if (poll(fds, (nfds_t)n, 1000) < 0 && errno != EINTR) return tc_fs_error(errno, "wait for", "workers");
    for (int32_t i = 0; i < n; i++) {
      worker *w = &workers[i];
      if (w->pid <= 0) continue;
      if (fds[i].revents && !listen_to(t, w, &fatal)) {
        died(t, w);
      } else if (w->file >= 0 && tc_now_ms() - w->since > (double)t->r->o->limit * 1000 && !w->killed) {
        w->killed = true;
        kill(w->pid, SIGKILL);
      }
    }
  }
}

static void stop_workers(worker *workers, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    worker *w = &workers[i];
    if (w->pid > 0) {
      close(w->to);
      if (w->file >= 0) kill(w->pid, SIGKILL);
      close(w->from);
      waitpid(w->pid, NULL, 0);
    }
    free(w->buffer);
  }
}

// ---- The command ----
static tc_status run_all(totals *t) {
  run_options *o = t->r->o;
  int32_t n = o->jobs > 0 ? o->jobs : 1;
  if (n > t->r->n_files) n = t->r->n_files;
  if (o->report.size) {
    t->report = fopen(tc_sv_z(o->arena, o->report), "w");
    if (!t->report) return tc_fs_error(errno, "write", tc_sv_z(o->arena, o->report));
    fputc('[', t->report);
  }
  signal(SIGPIPE, SIG_IGN);
  worker *workers = TC_NEW_ARRAY(o->arena, worker, n);
  for (int32_t i = 0; i < n; i++) workers[i].file = -1;
  tc_status s = run_workers(t, workers, n);
  stop_workers(workers, n);
  if (t->report) {
    fputs("\n]\n", t->report);
    if (fclose(t->report) != 0 && s == TC_OK) s = tc_fs_error(errno, "write", tc_sv_z(o->arena, o->report));
  }
  return s;
}

tc_status cmd_check(run_options *o) {
  check_run r = {.o = o};
  totals t = {.r = &r, .groups = tc_map_create(o->arena), .derivatives = tc_map_create(o->arena)};
  if (!o->args.count) return tc_error(TC_STATUS_INVALID_ARGUMENT, "which archives? tcrun check PATH…");
  r.backend = tc_sv_copy(o->arena, tc_config_text(o->config, TC_OPT_ID_BACKEND));
  r.mode = tc_sv_copy(o->arena, tc_config_text(o->config, TC_OPT_ID_MODE));
  tc_map *indices = tc_map_create(o->arena);
  tc_status s = read_skips(o, &t.skips);
  for (int32_t i = 0; i < o->args.count && s == TC_OK; i++) s = add_path(&r, indices, o->args.data[i], 0);
  if (s == TC_OK && r.n_files == 0) s = tc_error(TC_STATUS_NOT_FOUND, "there are no archives");
  if (s == TC_OK) s = run_all(&t);
  free(r.files);
  tcrun_progress_stop(o->progress);
  if (s != TC_OK) return s;
  print_groups(&t);
  if (o->gradcheck) {
    TC_TRY(tcrun_gradcheck_coverage(o, t.derivatives));
    printf("%d cases hold in second order, too\n", t.second);
  }
  if (t.without) printf("%d cases have no stored gradients\n", t.without);
  printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
  if (o->round_trip && t.passed + t.failed == 0)
    return tc_error(TC_STATUS_MISMATCH, "none of the models could be run, so none was read as text");
  return t.failed ? tc_error(TC_STATUS_MISMATCH, "%d of %d cases failed", t.failed, t.passed + t.failed) : TC_OK;
}
