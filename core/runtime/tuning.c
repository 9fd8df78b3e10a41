// Tuning records. See tuning.h.
#include "core/runtime/tuning.h"

#include <pthread.h>

#include "core/base/fs.h"

#define FORMAT "tc tuning 1"
enum { MOST_RECORDS = 20000, HASH_DIGITS = 32, MOST_NAME = 48 };

typedef struct record {
  tc_sv winner;
  double ns;
} record;

struct tc_tuning {
  const tc_allocator *allocator;
  const tc_logger *logger;
  pthread_mutex_t lock;
  tc_arena *arena; // the rest, under the lock
  tc_sv folder;    // of the device's files; empty: none
  tc_map *sites;   // name → tc_map * of hash → record *
};

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
}

// A name as one part of a path: what is no plain word gets its hash behind it.
static tc_sv file_name(tc_arena *arena, tc_sv name) {
  tc_sb sb = tc_sb_make(arena);
  bool plain = name.size > 0 && name.size <= MOST_NAME && name.data[0] != '.';
  for (size_t i = 0; i < name.size && i < MOST_NAME; i++) {
    bool good = is_plain(name.data[i]) && (i || name.data[i] != '.');
    tc_sb_putc(&sb, good ? name.data[i] : '-');
    plain &= good;
  }
  if (!plain) tc_sb_printf(&sb, "-%016llx", (unsigned long long)tc_hash(name.data, name.size));
  return tc_sb_view(&sb);
}

static tc_sv hash_of(tc_arena *arena, tc_sv key) {
  tc_hash128 h = tc_hash_long(key.data, key.size);
  return tc_sv_printf(arena, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

// ---- Reading ----
static void put(tc_tuning *t, tc_map *site, tc_sv hash, tc_sv winner, double ns) {
  record *r = TC_NEW(t->arena, record);
  *r = (record){tc_sv_copy(t->arena, winner), ns};
  tc_map_put(site, hash, NULL)->value.ptr = r;
}

static void read_lines(tc_tuning *t, tc_sv text, tc_map *site) {
  tc_sv line, hash, number;
  text = tc_sv_cut(text, '\n', &line);
  if (!tc_sv_is(line, FORMAT)) return;
  while (text.size && tc_map_count(site) < MOST_RECORDS) {
    double ns;
    text = tc_sv_cut(text, '\n', &line);
    tc_sv rest = tc_sv_cut(line, ' ', &hash), winner = tc_sv_cut(rest, ' ', &number);
    if (hash.size == HASH_DIGITS && winner.size && tc_sv_to_double(number, &ns)) put(t, site, hash, winner, ns);
  }
}

static tc_sv path_of(const tc_tuning *t, tc_sv site) {
  return tc_path_join(t->arena, t->folder, file_name(t->arena, site));
}

// The site's records in memory, with those of its file the first time or, to write them back, again.
static tc_map *records_of(tc_tuning *t, tc_sv site, bool again) {
  bool fresh;
  tc_map_entry *e = tc_map_put(t->sites, site, &fresh);
  if (fresh) e->value.ptr = tc_map_create(t->arena);
  if (!t->folder.size || (!fresh && !again)) return e->value.ptr;
  tc_sv path = path_of(t, site), text;
  if (!tc_file_exists(path.data)) return e->value.ptr;
  tc_status s = tc_file_read(t->arena, path.data, &text);
  if (s == TC_OK) read_lines(t, text, e->value.ptr);
  else tc_log(t->logger, TC_LOG_AUTOTUNING, "%s", tc_status_text(s));
  tc_status_free(s);
  return e->value.ptr;
}

typedef struct request {
  tc_tuning *t;
  tc_sv site, key, winner, device;
  double ns;
  const char *folder;
  bool found;
} request;

static tc_status find(void *arg) {
  request *q = arg;
  tc_map *records = records_of(q->t, q->site, false);
  const tc_map_entry *e = tc_map_find(records, hash_of(q->t->arena, q->key));
  q->found = e != NULL;
  if (e) q->winner = ((const record *)e->value.ptr)->winner;
  return TC_OK;
}

bool tc_tuning_find(tc_tuning *t, tc_arena *arena, tc_sv site, tc_sv key, tc_sv *out_winner) {
  if (!t) return false;
  request q = {.t = t, .site = site, .key = key};
  char words[400];
  pthread_mutex_lock(&t->lock);
  tc_status s = tc_arena_guard(t->arena, find, &q);
  bool found = s == TC_OK && q.found && q.winner.size < sizeof words;
  if (found) memcpy(words, q.winner.data, q.winner.size);
  pthread_mutex_unlock(&t->lock);
  tc_status_free(s);
  if (found) *out_winner = tc_sv_copy(arena, (tc_sv){words, q.winner.size}); // may unwind: not under the lock
  return found;
}

// ---- Writing ----
static tc_status write_site(tc_tuning *t, tc_sv site, const tc_map *records) {
  tc_sb sb = tc_sb_make(t->arena);
  tc_sb_putz(&sb, FORMAT "\n");
  int32_t n = tc_map_count(records);
  for (int32_t i = n > MOST_RECORDS ? n - MOST_RECORDS : 0; i < n; i++) {
    const tc_map_entry *e = tc_map_at(records, i);
    const record *r = e->value.ptr;
    tc_sb_printf(&sb, TC_SV_FMT " %.0f " TC_SV_FMT "\n", TC_SV_ARG(e->key), r->ns, TC_SV_ARG(r->winner));
  }
  TC_TRY(tc_dir_make(tc_sv_z(t->arena, t->folder)));
  return tc_file_write(path_of(t, site).data, sb.text, sb.size);
}

static tc_status keep(void *arg) {
  request *q = arg;
  tc_tuning *t = q->t;
  tc_map *records = records_of(t, q->site, true); // with what other processes have found since
  put(t, records, hash_of(t->arena, q->key), q->winner, q->ns);
  return t->folder.size ? write_site(t, q->site, records) : TC_OK;
}

void tc_tuning_keep(tc_tuning *t, tc_sv site, tc_sv key, tc_sv winner, double ns) {
  if (!t || !winner.size || memchr(winner.data, '\n', winner.size)) return;
  request q = {.t = t, .site = site, .key = key, .winner = winner, .ns = ns};
  pthread_mutex_lock(&t->lock);
  tc_status s = tc_arena_guard(t->arena, keep, &q);
  pthread_mutex_unlock(&t->lock);
  if (s != TC_OK) tc_log(t->logger, TC_LOG_AUTOTUNING, "a winner is not kept: %s", tc_status_text(s));
  tc_status_free(s);
}

// ---- Opening ----
static tc_status set_up(void *arg) {
  request *q = arg;
  tc_tuning *t = q->t;
  t->sites = tc_map_create(t->arena);
  if (q->folder) t->folder = tc_path_join(t->arena, tc_sv_of(q->folder), file_name(t->arena, q->device));
  return TC_OK;
}

tc_status tc_tuning_open(const tc_allocator *a, const char *folder, tc_sv device, const tc_logger *logger,
                         tc_tuning **out) {
  tc_tuning *t = tc_alloc(a, sizeof *t);
  if (!t) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for tuning records");
  t->allocator = a;
  t->logger = logger;
  pthread_mutex_init(&t->lock, NULL);
  request q = {.t = t, .folder = folder, .device = device};
  tc_status s = tc_arena_create(a, &t->arena);
  if (s == TC_OK) s = tc_arena_guard(t->arena, set_up, &q);
  if (s != TC_OK) {
    tc_tuning_close(t);
    return s;
  }
  *out = t;
  return TC_OK;
}

void tc_tuning_close(tc_tuning *t) {
  if (!t) return;
  tc_arena_destroy(t->arena);
  pthread_mutex_destroy(&t->lock);
  tc_free(t->allocator, t);
}
