// Zip archives: what is written is read back, and nothing malformed gets through.
#include <sys/mman.h>
#include <zlib.h>

#include "core/tensor/files.h"
#include "tests/unit/unit.h"

// Local headers as streaming writers leave them: no sizes, a descriptor behind. One record per row.
typedef struct row {
  const char *name, *text;
  bool deflate, descriptor;
} row;

typedef struct builder {
  uint8_t data[1 << 16];
  size_t size;
} builder;

static void put(builder *b, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) b->data[b->size++] = (uint8_t)(v >> 8 * i);
}
static void put_bytes(builder *b, const void *p, size_t n) {
  memcpy(b->data + b->size, p, n);
  b->size += n;
}

static size_t raw_deflate(const char *text, uint8_t *out, size_t room) {
  z_stream s = {0};
  assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
  s.next_in = (Bytef *)(uintptr_t)text, s.avail_in = (uInt)strlen(text);
  s.next_out = out, s.avail_out = (uInt)room;
  assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
  deflateEnd(&s);
  return room - s.avail_out;
}

// Writes an archive; returns where the central directory begins.
static size_t build(builder *b, const row *rows, int n, bool zip64) {
  size_t locals[64], sizes[64], packed[64];
  uint32_t crcs[64];
  b->size = 0;
  for (int i = 0; i < n; i++) {
    uint8_t buffer[4096];
    sizes[i] = strlen(rows[i].text);
    packed[i] = rows[i].deflate ? raw_deflate(rows[i].text, buffer, sizeof buffer) : sizes[i];
    crcs[i] = (uint32_t)crc32(0, (const Bytef *)rows[i].text, (uInt)sizes[i]);
    locals[i] = b->size;
    put(b, 0x04034b50, 4), put(b, 20, 2), put(b, rows[i].descriptor ? 8 : 0, 2), put(b, rows[i].deflate ? 8 : 0, 2),
        put(b, 0, 4);
    put(b, rows[i].descriptor ? 0 : crcs[i], 4);
    put(b, rows[i].descriptor ? 0 : packed[i], 4), put(b, rows[i].descriptor ? 0 : sizes[i], 4);
    put(b, strlen(rows[i].name), 2), put(b, 5, 2);
    put_bytes(b, rows[i].name, strlen(rows[i].name));
    put(b, 0x4246, 2), put(b, 1, 2), put(b, 'Z', 1);
    put_bytes(b, rows[i].deflate ? (const char *)buffer : rows[i].text, packed[i]);
    if (rows[i].descriptor) put(b, 0x08074b50, 4), put(b, crcs[i], 4), put(b, packed[i], 4), put(b, sizes[i], 4);
  }
  const size_t central = b->size;
  for (int i = 0; i < n; i++) {
    put(b, 0x02014b50, 4), put(b, 20, 2), put(b, 20, 2), put(b, rows[i].descriptor ? 8 : 0, 2),
        put(b, rows[i].deflate ? 8 : 0, 2);
    put(b, 0, 4), put(b, crcs[i], 4);
    put(b, zip64 ? UINT32_MAX : packed[i], 4), put(b, zip64 ? UINT32_MAX : sizes[i], 4);
    put(b, strlen(rows[i].name), 2), put(b, zip64 ? 28 : 0, 2), put(b, 0, 2), put(b, 0, 8);
    put(b, zip64 ? UINT32_MAX : locals[i], 4);
    put_bytes(b, rows[i].name, strlen(rows[i].name));
    if (zip64) put(b, 1, 2), put(b, 24, 2), put(b, sizes[i], 8), put(b, packed[i], 8), put(b, locals[i], 8);
  }
  const size_t size = b->size - central;
  if (zip64) {
    const size_t end64 = b->size;
    put(b, 0x06064b50, 4), put(b, 44, 8), put(b, 45, 2), put(b, 45, 2), put(b, 0, 8), put(b, (uint64_t)n, 8),
        put(b, (uint64_t)n, 8);
    put(b, size, 8), put(b, central, 8);
    put(b, 0x07064b50, 4), put(b, 0, 4), put(b, end64, 8), put(b, 1, 4);
  }
  put(b, 0x06054b50, 4), put(b, 0, 4), put(b, zip64 ? 0xffff : (uint64_t)n, 2), put(b, zip64 ? 0xffff : (uint64_t)n, 2);
  put(b, zip64 ? UINT32_MAX : size, 4), put(b, zip64 ? UINT32_MAX : central, 4), put(b, 0, 2);
  return central;
}

static const row four[] = {{"r/a", "first", false, false},
                           {"r/data/b", "second second second second second second", true, true},
                           {"r/empty", "", false, true},
                           {"r/c", "third", false, true}};

static void check_four(tc_arena *arena, const builder *b) {
  tc_zip z;
  assert_ok(tc_zip_open(arena, b->data, b->size, &z));
  assert_int_equal(z.count, 4);
  for (int i = 0; i < 4; i++) {
    tc_sv text;
    const tc_zip_entry *e = tc_zip_find(&z, tc_sv_of(four[i].name));
    assert_ptr_equal(e, &z.entries[i]);
    assert_ok(tc_zip_read(arena, &z, e, 1000, &text));
    assert_sv(text, four[i].text);
    if (!four[i].deflate) assert_ptr_equal(text.data, b->data + e->offset);
    char copy[64];
    assert_ok(tc_zip_read_into(tc_arena_allocator(arena), &z, e, copy));
    assert_memory_equal(copy, four[i].text, e->size);
  }
  assert_null(tc_zip_find(&z, TC_SV("r/d")));
  assert_null(tc_zip_find(&z, TC_SV("")));
}

TC_TEST(reads_stored_and_deflated) {
  static builder b;
  for (int zip64 = 0; zip64 < 2; zip64++) {
    build(&b, four, 4, zip64);
    check_four(arena, &b);
    const size_t size = b.size; // a comment behind, which even looks like an end record
    b.data[b.size - 2] = 30;
    memset(b.data + b.size, 0, 30);
    memcpy(b.data + b.size, "PK\5\6", 4);
    b.size += 30;
    check_four(arena, &b);
    b.size = size;
  }
  return TC_OK;
}

TC_TEST(every_truncation_is_an_error) {
  static builder b;
  for (int zip64 = 0; zip64 < 2; zip64++) {
    build(&b, four, 4, zip64);
    for (size_t n = 0; n < b.size; n++) {
      tc_zip z;
      uint8_t *exact = malloc(n ? n : 1); // so that a sanitizer sees the end
      memcpy(exact, b.data, n);
      assert_error(tc_zip_open(arena, exact, n, &z), TC_STATUS_DATA_LOSS, "zip");
      free(exact);
    }
  }
  return TC_OK;
}

// Any byte changed: an error, or the same contents (dates, versions and attributes carry no meaning here).
TC_TEST(every_damaged_byte_is_seen) {
  static builder b;
  int harmless = 0;
  for (int zip64 = 0; zip64 < 2; zip64++) {
    build(&b, four, 4, zip64);
    for (size_t at = 0; at < b.size; at++) {
      for (int bit = 0; bit < 8; bit++) {
        tc_zip z;
        b.data[at] ^= (uint8_t)(1 << bit);
        tc_status s = tc_zip_open(arena, b.data, b.size, &z);
        for (int i = 0; s == TC_OK && i < z.count; i++) {
          tc_sv text;
          s = tc_zip_read(arena, &z, &z.entries[i], 1000, &text);
          if (s == TC_OK && z.count == 4 && !tc_sv_is(text, four[i].text))
            fail_msg("byte %d bit %d changes entry %d", (int)at, bit, i);
        }
        if (s == TC_OK && z.count != 4) fail_msg("byte %d bit %d changes the count to %d", (int)at, bit, (int)z.count);
        harmless += s == TC_OK;
        tc_status_free(s);
        b.data[at] ^= (uint8_t)(1 << bit);
      }
    }
  }
  print_message("%d harmless changes\n", harmless);
  return TC_OK;
}

typedef struct patch {
  const char *what;
  size_t at; // from the central record of entry 1 unless `from_end`
  bool from_end;
  uint64_t value;
  int bytes, code;
  const char *message;
} patch;

TC_TEST(hostile_numbers_are_refused) {
  static builder b;
  static const patch patches[] = {
      {"encrypted", 8, false, 1, 2, TC_STATUS_DATA_LOSS, "encrypted"},
      {"local offset of entry 0", 42, false, 0, 4, TC_STATUS_DATA_LOSS, "another name"},
      {"local offset beyond", 42, false, 0xfffffff0, 4, TC_STATUS_DATA_LOSS, "no local header"},
      {"huge stored size", 20, false, 0xfffffff0, 4, TC_STATUS_DATA_LOSS, "beyond"},
      {"name length", 28, false, 0xffff, 2, TC_STATUS_DATA_LOSS, "cut short"},
      {"empty name", 28, false, 0, 2, TC_STATUS_DATA_LOSS, "0 bytes"},
      {"huge count", 10, true, 0xfffe, 2, TC_STATUS_DATA_LOSS, "several parts"},
      {"disk", 4, true, 1, 2, TC_STATUS_DATA_LOSS, "several parts"},
      {"directory offset", 16, true, 0xfffffff0, 4, TC_STATUS_DATA_LOSS, "outside"},
      {"directory size", 12, true, 0xfffffff0, 4, TC_STATUS_DATA_LOSS, "outside"},
  };
  for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
    const patch *p = &patches[i];
    const size_t central = build(&b, four, 4, false), end = b.size;
    b.size = p->from_end ? end - 22 + p->at : central + 46 + strlen(four[0].name) + p->at;
    put(&b, p->value, p->bytes);
    b.size = end;
    tc_zip z;
    assert_error(tc_zip_open(arena, b.data, b.size, &z), p->code, p->message);
  }
  const size_t central = build(&b, four, 4, false); // both counts
  memcpy(b.data + b.size - 14, "\xfe\xff\xfe\xff", 4);
  tc_zip z;
  assert_error(tc_zip_open(arena, b.data, b.size, &z), TC_STATUS_DATA_LOSS, "do not fit");
  // An unpacked size that deflate cannot reach is refused before memory is taken; an unknown method when read.
  const size_t second = central + 46 + strlen(four[0].name);
  build(&b, four, 4, false);
  memcpy(b.data + second + 24, "\xff\xff\xff\x7f", 4);
  TC_TRY(tc_zip_open(arena, b.data, b.size, &z));
  tc_sv text;
  assert_error(tc_zip_read(arena, &z, &z.entries[1], UINT64_MAX, &text), TC_STATUS_DATA_LOSS, "claims to unpack");
  build(&b, four, 4, false);
  b.data[second + 10] = 12;
  TC_TRY(tc_zip_open(arena, b.data, b.size, &z));
  assert_error(tc_zip_read(arena, &z, &z.entries[1], UINT64_MAX, &text), TC_STATUS_UNIMPLEMENTED, "method 12");
  for (int delta = -1; delta <= 1; delta += 2) { // one byte more or less than is there
    build(&b, four, 4, false);
    b.data[second + 24] = (uint8_t)(b.data[second + 24] + delta);
    TC_TRY(tc_zip_open(arena, b.data, b.size, &z));
    assert_error(tc_zip_read(arena, &z, &z.entries[1], 1000, &text), TC_STATUS_DATA_LOSS, "stated size");
  }
  build(&b, four, 4, false);
  TC_TRY(tc_zip_open(arena, b.data, b.size, &z));
  assert_error(tc_zip_read(arena, &z, &z.entries[1], 10, &text), TC_STATUS_RESOURCE_EXHAUSTED, "limit of 10");
  b.data[z.entries[0].offset] ^= 1;
  assert_error(tc_zip_read(arena, &z, &z.entries[0], 10, &text), TC_STATUS_DATA_LOSS, "CRC-32");
  return TC_OK;
}

TC_TEST(hostile_names_are_refused) {
  static builder b;
  static const char *const names[] = {"/a", "../a", "a/../b", "a/..", "..", "a\\b"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const row one = {names[i], "text", false, false};
    build(&b, &one, 1, false);
    tc_zip z;
    assert_error(tc_zip_open(arena, b.data, b.size, &z), TC_STATUS_DATA_LOSS, "'");
  }
  const row fine = {"..a/b../...", "text", false, false},
            twice[] = {{"same", "1", false, false}, {"same", "2", false, false}};
  tc_zip z;
  build(&b, &fine, 1, false);
  TC_TRY(tc_zip_open(arena, b.data, b.size, &z));
  build(&b, twice, 2, false);
  assert_error(tc_zip_open(arena, b.data, b.size, &z), TC_STATUS_DATA_LOSS, "two entries are named 'same'");
  return TC_OK;
}

TC_TEST(overlapping_entries_are_refused) {
  // Entry "b" hides inside the payload of "a": its local header is real, and both extents are in the file.
  static builder inner, b;
  const row hidden = {"b", "hidden", false, false};
  const size_t n = build(&inner, &hidden, 1, false);
  char text[200];
  for (size_t i = 0; i < n; i++) text[i] = (char)(inner.data[i] ? inner.data[i] : 1); // strings hold no NUL; set below
  text[n] = 0;
  const row rows[] = {{"a", text, false, false}, {"b", "x", false, false}};
  const size_t central = build(&b, rows, 2, false);
  const size_t payload = 30 + 1 + 5, second = central + 46 + 1;
  memcpy(b.data + payload, inner.data, n);
  const uint32_t local = (uint32_t)payload;
  memcpy(b.data + second + 42, &local, 4);
  tc_zip z;
  assert_error(tc_zip_open(arena, b.data, b.size, &z), TC_STATUS_DATA_LOSS, "overlap");
  return TC_OK;
}

TC_TEST_TORTURED(opening_survives_short_memory) {
  static builder b;
  build(&b, four, 4, true);
  tc_zip z;
  TC_TRY(tc_zip_open(arena, b.data, b.size, &z));
  tc_sv text;
  TC_TRY(tc_zip_read(arena, &z, &z.entries[1], 1000, &text));
  assert_sv(text, four[1].text);
  return TC_OK;
}

TC_TEST(what_is_written_is_read) {
  uint64_t seed = tc_test_seed();
  for (int round = 0; round < 50; round++) {
    const int32_t n = (int32_t)(tc_test_random(&seed) % 9);
    tc_zip_item items[8];
    for (int32_t i = 0; i < n; i++) {
      const uint64_t length = tc_test_random(&seed) % 90;
      items[i] = (tc_zip_item){
          .name = tc_sv_printf(
              arena, "%d/%.*s", (int)i, (int)length,
              "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"),
          .size = tc_test_random(&seed) % 3 ? tc_test_random(&seed) % 1000 : 0};
    }
    size_t total;
    TC_TRY(tc_zip_layout(items, n, &total));
    uint8_t *file = malloc(total);
    for (size_t i = 0; i < total; i++) file[i] = (uint8_t)tc_test_random(&seed);
    uint8_t *before = tc_arena_copy(arena, file, total);
    tc_zip_finish(file, items, n);
    tc_zip z;
    TC_TRY(tc_zip_open(arena, file, total, &z));
    assert_int_equal(z.count, n);
    for (int32_t i = 0; i < n; i++) {
      tc_sv got;
      assert_true(tc_sv_eq(z.entries[i].name, items[i].name));
      assert_int_equal(z.entries[i].offset % 64, 0);
      TC_TRY(tc_zip_read(arena, &z, &z.entries[i], 0, &got));
      assert_int_equal(got.size, items[i].size);
      assert_memory_equal(got.data, before + items[i].offset, got.size);
    }
    free(file);
  }
  return TC_OK;
}

TC_TEST(layouts_beyond_four_gigabytes_use_zip64) {
  tc_zip_item items[] = {{TC_SV("big"), UINT64_C(5) << 30, 0}, {TC_SV("small"), 7, 0}, {TC_SV("limit"), UINT32_MAX, 0}};
  size_t total;
  TC_TRY(tc_zip_layout(items, 3, &total));
  assert_true(items[0].offset == 64 && items[1].offset > UINT64_C(5) << 30 && items[2].offset % 64 == 0);
  assert_true(total > items[2].offset + UINT32_MAX + 56 + 20 + 22);
  tc_zip_item endless[] = {{TC_SV("a"), INT64_MAX, 0}, {TC_SV("b"), UINT64_MAX, 0}};
  assert_error(tc_zip_layout(endless, 1, &total), TC_STATUS_OUT_OF_RANGE, "too large");
  assert_error(tc_zip_layout(endless + 1, 1, &total), TC_STATUS_OUT_OF_RANGE, "too large");
  tc_zip_item bad = {TC_SV("../x"), 1, 0};
  assert_error(tc_zip_layout(&bad, 1, &total), TC_STATUS_DATA_LOSS, "leaves");
  return TC_OK;
}

TC_TEST(many_entries_use_zip64) {
  enum { N = 70000 };
  tc_zip_item *items = TC_NEW_ARRAY(arena, tc_zip_item, N);
  for (int i = 0; i < N; i++) items[i] = (tc_zip_item){.name = tc_sv_printf(arena, "%d", i)};
  size_t total;
  TC_TRY(tc_zip_layout(items, N, &total));
  uint8_t *file = malloc(total);
  tc_zip_finish(file, items, N);
  tc_zip z;
  TC_TRY(tc_zip_open(arena, file, total, &z));
  assert_int_equal(z.count, N);
  assert_ptr_equal(tc_zip_find(&z, TC_SV("69999")), &z.entries[69999]);
  free(file);
  return TC_OK;
}

// Four gigabytes of untouched zero pages: cheap in memory, seconds in time.
static tc_status write_big_members(tc_arena *arena) {
  tc_zip_item items[] = {{TC_SV("first"), 5, 0}, {TC_SV("big"), (UINT64_C(1) << 32) + 3, 0}, {TC_SV("last"), 4, 0}};
  size_t total;
  TC_TRY(tc_zip_layout(items, 3, &total));
  uint8_t *file = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(file, MAP_FAILED);
  memcpy(file + items[2].offset, "last", 4);
  tc_zip_finish(file, items, 3);
  tc_zip z;
  TC_TRY(tc_zip_open(arena, file, total, &z));
  tc_sv text;
  TC_TRY(tc_zip_read(arena, &z, tc_zip_find(&z, TC_SV("last")), 0, &text));
  assert_sv(text, "last");
  TC_TRY(tc_zip_read(arena, &z, tc_zip_find(&z, TC_SV("big")), 0, &text));
  assert_int_equal(text.size, items[1].size);
  munmap(file, total);
  return TC_OK;
}

static void big_members_are_read_back(void **state) {
  (void)state;
  if (!tc_env("TC_SLOW_TESTS")) skip();
  tc_test_run(write_big_members);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_stored_and_deflated),
      cmocka_unit_test(every_truncation_is_an_error),
      cmocka_unit_test(every_damaged_byte_is_seen),
      cmocka_unit_test(hostile_numbers_are_refused),
      cmocka_unit_test(hostile_names_are_refused),
      cmocka_unit_test(overlapping_entries_are_refused),
      cmocka_unit_test(opening_survives_short_memory),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(layouts_beyond_four_gigabytes_use_zip64),
      cmocka_unit_test(many_entries_use_zip64),
      cmocka_unit_test(big_members_are_read_back),
  };
  return TC_RUN(tests);
}
