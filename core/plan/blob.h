// The executable blob: a plan, the machine code of its kernels, texts and tensors as one run of bytes. The cache of
// plans on disk holds such blobs, and a `.tcx` file is one.
//
// A blob is a list of entries, each with a kind, a name that is unique among its kind, and contents. Contents begin at
// multiples of 64 bytes from the start of the blob, so that one that is mapped can be used where it lies. What entries
// there must be is settled by whoever writes and reads: a cache entry is one plan without objects, an artifact has
// objects, tensors, and texts that say what it is for.
//
// Bytes (little-endian; all positions from the start):
//   header, 64   magic "tc blob\n" · u32 format · u32 n entries · u64 size of all · u64 size of header, table and names
//                · u64 hash of what lies between the header and the first contents · zeros
//   table, n×64  u32 kind · u32 0 · u64 name's position, size · u64 contents' position, size · u64 hash · zeros
//   names, contents
// PLAN     u32 n · u32 0 · n × 16 bytes: keys of its code, in the order of the plan's numbers · the text
// CODE     (by key: 32 hexadecimal digits) u32 size of the function's name · u32 n parameters · the name · a byte for
//          each parameter: 1 a number, 0 memory · zeros up to a multiple of 64 · the object, or nothing. A TEXT of the
//          same name is the kernel's, whose code is then made when it is wanted
// TENSOR   i32 dtype · i32 rank · i64 sizes · strides · offset · i64 bits (1 conj, 2 neg) · i64 data: the DATA entry
// "N" DATA     bytes of a tensor; tensors that shared them share them again TEXT     anything: a signature, a device's
// features, an index of the others
//
// Hashes find damage, not malice: whoever loads code trusts where it is from. Text forms of symbols and conditions are
// part of a plan's text: reading a plan puts them into the module.
#ifndef TC_CORE_PLAN_BLOB_H_
#define TC_CORE_PLAN_BLOB_H_

#include "core/plan/plan.h"

enum { TC_BLOB_TEXT, TC_BLOB_PLAN, TC_BLOB_CODE, TC_BLOB_TENSOR, TC_BLOB_DATA, TC_BLOB_KINDS };
enum { TC_BLOB_FORMAT = 1, TC_BLOB_ALIGN = 64 };

// ---- writing: everything is in the arena; contents are borrowed until the blob is written ----
typedef struct tc_blob_writer tc_blob_writer;
tc_blob_writer *tc_blob_begin(tc_arena *arena);
// INVALID_ARGUMENT: there is an entry of that kind and name.
TC_NODISCARD tc_status tc_blob_add(tc_blob_writer *w, int32_t kind, tc_sv name, tc_sv contents);
// Host memory only; what the tensor spans is written.
TC_NODISCARD tc_status tc_blob_add_tensor(tc_blob_writer *w, tc_sv name, const tc_tensor *t);
// The plan and its code, where that is not yet there. `code` is by the numbers of tc_plan_print_coded, which gave
// `text`.
TC_NODISCARD tc_status tc_blob_add_plan(tc_blob_writer *w, tc_sv name, tc_sv text, int32_t n_code,
                                        const tc_plan_code *code);
// How many bytes, and the bytes in order, in pieces: `put` returns an error to stop.
uint64_t tc_blob_size(tc_blob_writer *w);
typedef tc_status (*tc_blob_put)(void *self, const void *data, size_t size);
TC_NODISCARD tc_status tc_blob_write(tc_blob_writer *w, tc_blob_put put, void *self);
tc_sv tc_blob_bytes(tc_blob_writer *w);         // all of it, in the arena
uint64_t tc_blob_mark_to_be(tc_blob_writer *w); // what tc_blob_mark will say

// ---- reading: bytes are borrowed, and whatever is found lies in them ----
typedef struct tc_blob tc_blob;
typedef struct tc_blob_entry {
  int32_t kind;
  tc_sv name, contents;
  uint64_t hash; // of the contents
} tc_blob_entry;
// Checks header, table and names. INVALID_ARGUMENT: not a blob, or of another format; DATA_LOSS: damaged or cut.
// Tensors of the blob need `bytes.data` at a multiple of 64.
TC_NODISCARD tc_status tc_blob_open(tc_arena *arena, tc_sv bytes, tc_blob **out);
uint64_t tc_blob_mark(const tc_blob *b); // the hash of its table, and so of all that is in it
int32_t tc_blob_count(const tc_blob *b);
const tc_blob_entry *tc_blob_at(const tc_blob *b, int32_t i);                  // in the order in which they were added
const tc_blob_entry *tc_blob_find(const tc_blob *b, int32_t kind, tc_sv name); // NULL: there is none
// The contents, compared with their hash. NOT_FOUND, DATA_LOSS.
TC_NODISCARD tc_status tc_blob_get(const tc_blob *b, int32_t kind, tc_sv name, tc_sv *out);
// A tensor in the blob's own memory: `bytes` is a storage of the very bytes that were opened; the tensor holds it, and
// must not be written. `check`: compare the data with their hash (as fast as memory is).
TC_NODISCARD tc_status tc_blob_get_tensor(const tc_blob *b, tc_storage *bytes, tc_sv name, bool check, tc_tensor *out);
// Reads a plan into the module, with its code, which stays in the bytes; the plan is verified. The module must know the
// ops of its calls.
TC_NODISCARD tc_status tc_blob_get_plan(const tc_blob *b, tc_sv name, tc_module *m, tc_plan **out);

#endif
