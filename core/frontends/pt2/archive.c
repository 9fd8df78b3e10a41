// The members of an archive: which layout it has, which programs it holds.
//
//   torch ≥ 2.8   everything under one root folder with ROOT/archive_format "pt2"; programs in ROOT/models/NAME.json
//   torch ≤ 2.7   no root folder; one program in serialized_exported_program.json
// Source: the archive description of PyTorch's export package and real archives of torch 2.8 and 2.15.
#include <string.h>

#include "core/frontends/pt2/import.h"

static const uint64_t json_limit = (uint64_t)1 << 30, small_limit = (uint64_t)1 << 16;

const tc_zip_entry *pt2_member(tc_pt2 *p, tc_arena *scratch, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_sb sb = tc_sb_make(scratch);
  tc_sb_put(&sb, p->root);
  tc_sb_vprintf(&sb, fmt, args);
  va_end(args);
  return tc_zip_find(&p->zip, tc_sb_view(&sb));
}

static void free_document(void *arg) {
  tc_json_doc **holder = arg;
  tc_json_free(*holder);
}

// Programs unpack to some ten times their size; what unpacks to so much more is made to exhaust whoever reads it.
static tc_status check_ratio(const tc_zip_entry *e) {
  enum { LARGE = 32 << 20, RATIO = 200 };
  if (e->size <= LARGE || e->size / RATIO <= e->stored_size) return TC_OK;
  return tc_error(TC_STATUS_DATA_LOSS,
                  "zip: '" TC_SV_FMT "' would unpack to %llu bytes from %llu: no program does that", TC_SV_ARG(e->name),
                  (unsigned long long)e->size, (unsigned long long)e->stored_size);
}

tc_status pt2_json(tc_pt2 *p, tc_arena *scratch, const tc_zip_entry *e, tc_sv *out_text, tc_json *out) {
  tc_sv text;
  TC_TRY(check_ratio(e));
  TC_TRY(tc_zip_read(scratch, &p->zip, e, json_limit, &text), "while reading '" TC_SV_FMT "'", TC_SV_ARG(e->name));
  tc_json_doc **holder = TC_NEW(scratch, tc_json_doc *);
  tc_arena_on_destroy(scratch, free_document, holder);
  TC_TRY(tc_json_parse(p->allocator, text, holder, out), "while parsing '" TC_SV_FMT "'", TC_SV_ARG(e->name));
  if (out_text) *out_text = text;
  return TC_OK;
}

// The text of a small member without its trailing newline; "" if absent.
static tc_status small_text(tc_pt2 *p, const char *name, tc_sv *out) {
  *out = (tc_sv){"", 0};
  const tc_zip_entry *e = pt2_member(p, p->arena, "%s", name);
  if (e == NULL) return TC_OK;
  TC_TRY(tc_zip_read(p->arena, &p->zip, e, small_limit, out), "while reading '%s'", name);
  *out = tc_sv_trim(*out);
  return TC_OK;
}

// A member directly in `folder`, with `suffix`: its name between them, else "".
static tc_sv name_between(tc_sv member, tc_sv root, const char *folder, const char *suffix) {
  size_t f = root.size + strlen(folder), s = strlen(suffix);
  if (member.size <= f + s || !tc_sv_ends(member, suffix)) return (tc_sv){"", 0};
  if (!tc_sv_eq(tc_sv_sub(member, 0, root.size), root)) return (tc_sv){"", 0};
  if (!tc_sv_is(tc_sv_sub(member, root.size, f), folder)) return (tc_sv){"", 0};
  return tc_sv_sub(member, f, member.size - s);
}

static tc_status find_root(tc_pt2 *p) {
  const tc_zip_entry *flat = NULL;
  bool compiled = false;
  for (int32_t i = 0; i < p->zip.count; i++) {
    tc_sv name = p->zip.entries[i].name, root;
    tc_sv rest = tc_sv_cut(name, '/', &root);
    if (tc_sv_is(rest, "archive_format")) {
      if (p->root.size)
        return tc_error(TC_STATUS_DATA_LOSS, "two root folders, '" TC_SV_FMT "' and '" TC_SV_FMT "/'",
                        TC_SV_ARG(p->root), TC_SV_ARG(root));
      p->root = tc_sv_sub(name, 0, root.size + 1);
    }
    if (tc_sv_is(name, "serialized_exported_program.json")) flat = &p->zip.entries[i];
    compiled |= tc_sv_starts(rest, "data/aotinductor/");
  }
  if (p->root.size == 0 && flat != NULL) {
    p->flat = true;
    pt2_entry e = {TC_SV("model"), flat};
    tc_vec_push(p->arena, &p->programs, e);
    return TC_OK;
  }
  if (p->root.size == 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "not a .pt2 archive: it has no member ROOT/archive_format");
  for (int32_t i = 0; i < p->zip.count; i++) {
    const tc_zip_entry *e = &p->zip.entries[i];
    tc_sv name = name_between(e->name, p->root, "models/", ".json");
    if (name.size == 0) continue;
    if (memchr(name.data, '/', name.size))
      return tc_error(TC_STATUS_DATA_LOSS, "program '" TC_SV_FMT "' lies in a sub-folder", TC_SV_ARG(e->name));
    pt2_entry entry = {name, e};
    tc_vec_push(p->arena, &p->programs, entry);
  }
  if (p->programs.count) return TC_OK;
  if (compiled)
    return tc_error(
        TC_STATUS_INVALID_ARGUMENT,
        "the archive holds only code compiled by AOTInductor, no exported program: save it with torch.export.save");
  return tc_error(TC_STATUS_DATA_LOSS, "the archive holds no program (models/NAME.json)");
}

static tc_status read_directory(void *arg) {
  tc_pt2 *p = arg;
  TC_TRY(tc_zip_open(p->arena, p->bytes->data, p->bytes->size, &p->zip));
  TC_TRY(find_root(p));
  if (p->flat) return TC_OK; // these have no byteorder; every writer of the time was little-endian
  tc_sv format, version, order;
  TC_TRY(small_text(p, "archive_format", &format));
  TC_TRY(small_text(p, "archive_version", &version));
  TC_TRY(small_text(p, "byteorder", &order));
  if (!tc_sv_is(format, "pt2"))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "archive_format is '" TC_SV_FMT "', not 'pt2'", TC_SV_ARG(format));
  if (version.size && !tc_sv_is(version, "0"))
    return tc_error(TC_STATUS_UNIMPLEMENTED, "archive_version is '" TC_SV_FMT "'; this reader knows version 0",
                    TC_SV_ARG(version));
  p->big_endian = tc_sv_is(order, "big");
  if (order.size && !p->big_endian && !tc_sv_is(order, "little"))
    return tc_error(TC_STATUS_DATA_LOSS, "byteorder is '" TC_SV_FMT "'", TC_SV_ARG(order));
  return TC_OK;
}

tc_status tc_pt2_open_storage(tc_storage *bytes, const tc_op_registry *ops, const tc_pt2_options *options,
                              tc_pt2 **out) {
  *out = NULL;
  tc_pt2_options o = options ? *options : (tc_pt2_options){0};
  if (o.allocator == NULL) o.allocator = tc_system_allocator();
  tc_pt2 *p = tc_alloc(o.allocator, sizeof *p);
  if (p == NULL) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory while opening an archive");
  *p = (tc_pt2){.allocator = o.allocator, .ops = ops, .options = o, .bytes = bytes};
  tc_storage_ref(bytes);
  tc_status status;
  TC_TRY_GOTO(status, fail, tc_arena_create(o.allocator, &p->arena));
  TC_TRY_GOTO(status, fail, tc_arena_guard(p->arena, read_directory, p));
  *out = p;
  return TC_OK;
fail:
  tc_pt2_close(p);
  return status;
}

tc_status tc_pt2_open(const char *path, const tc_op_registry *ops, const tc_pt2_options *options, tc_pt2 **out) {
  *out = NULL;
  const tc_allocator *a = options && options->allocator ? options->allocator : tc_system_allocator();
  tc_storage *bytes;
  TC_TRY(tc_storage_map(a, path, &bytes), "while opening '%s'", path);
  tc_status status = tc_pt2_open_storage(bytes, ops, options, out);
  tc_storage_unref(bytes);
  return status == TC_OK ? TC_OK : tc_status_note(status, "while opening '%s'", path);
}

void tc_pt2_close(tc_pt2 *p) {
  if (p == NULL) return;
  const tc_allocator *a = p->allocator;
  tc_arena_destroy(p->arena);
  tc_storage_unref(p->bytes);
  tc_free(a, p);
}

int32_t tc_pt2_count(const tc_pt2 *p) { return p->programs.count; }
tc_sv tc_pt2_name(const tc_pt2 *p, int32_t i) { return p->programs.data[i].name; }

int32_t tc_pt2_find(const tc_pt2 *p, tc_sv name) {
  for (int32_t i = 0; i < p->programs.count; i++)
    if (tc_sv_eq(p->programs.data[i].name, name)) return i;
  return -1;
}
