// Tables of a kernel, in the object that was made of it.
//
// Declared with a first number, they have data in the object, which is filled here: the driver copies it when it loads
// the object. Format: System V ABI, "Object Files"; the value of a symbol of data is its place in its section.
#include "tables.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_NAME = 256 };

// Loads of what nobody writes, which the declaration cannot say: the compiler would take what is printed for the
// numbers.
static const char loads[] =
    "template <typename T> __device__ __forceinline__ T tc_table_element(const T *p) { return __ldg(p); }\n"
    "__device__ __forceinline__ bool tc_table_element(const bool *p) { return *p; }\n"
    "template <typename T, int W> struct tc_table {\n"
    "  static __device__ __forceinline__ tc_vector<T, W> load(const T *p) {\n"
    "    tc_vector<T, W> r;\n"
    "    for (int i = 0; i < W; i++) r.v[i] = tc_table_element(p + i);\n"
    "    return r;\n"
    "  }\n"
    "};\n"
    "template <> struct tc_table<float, 2> {\n"
    "  static __device__ __forceinline__ tc_vector<float, 2> load(const float *p) {\n"
    "    const float2 r = __ldg((const float2 *)p);\n"
    "    return {{r.x, r.y}};\n"
    "  }\n"
    "};\n"
    "template <> struct tc_table<float, 4> {\n"
    "  static __device__ __forceinline__ tc_vector<float, 4> load(const float *p) {\n"
    "    const float4 r = __ldg((const float4 *)p);\n"
    "    return {{r.x, r.y, r.z, r.w}};\n"
    "  }\n"
    "};\n"
    "template <> struct tc_table<double, 2> {\n"
    "  static __device__ __forceinline__ tc_vector<double, 2> load(const double *p) {\n"
    "    const double2 r = __ldg((const double2 *)p);\n"
    "    return {{r.x, r.y}};\n"
    "  }\n"
    "};\n";

static bool has_table(const tc_kernel *k) {
  tc_kmem_info info = {0};
  for (tc_kmem m = 0; m < tc_k_mem_count(k) && info.space != TC_SPACE_TABLE; m++) tc_k_mem(k, m, &info);
  return info.space == TC_SPACE_TABLE;
}

void cuda_leave_tables_blank(const tc_kernel *k, tc_cdialect *d) {
  size_t i = 0;
  if (!has_table(k)) return;
  while (d->more[i]) i++;
  d->more[i] = loads;
  d->table = "extern \"C\" __device__";
  d->table_load = "tc_table_element($p)";
  d->table_vector_load = "const tc_vector<$t, $w> $n = tc_table<$t, $w>::load($p)";
}

typedef struct object {
  char *data;
  uint64_t size;
} object;

static bool inside(const object *o, uint64_t at, uint64_t size) { return at <= o->size && size <= o->size - at; }

// The section header's number i.
static bool get_section(const object *o, uint32_t i, Elf64_Shdr *out) {
  Elf64_Ehdr h;
  if (!inside(o, 0, sizeof h)) return false;
  memcpy(&h, o->data, sizeof h);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 || i >= h.e_shnum) return false;
  uint64_t at = h.e_shoff + (uint64_t)i * sizeof *out;
  if (h.e_shentsize != sizeof *out || !inside(o, h.e_shoff, 0) || !inside(o, at, sizeof *out)) return false;
  memcpy(out, o->data + at, sizeof *out);
  return out->sh_type == SHT_NOBITS || inside(o, out->sh_offset, out->sh_size);
}

static bool is_named(const object *o, const Elf64_Shdr *names, uint32_t at, const char *name) {
  size_t size = strlen(name) + 1;
  return at <= names->sh_size && size <= names->sh_size - at && !memcmp(o->data + names->sh_offset + at, name, size);
}

// Where the object has `size` bytes of data by this name; NULL: nowhere.
static char *find_data(const object *o, const char *name, uint64_t size) {
  Elf64_Shdr symbols, names, data;
  for (uint32_t i = 0; get_section(o, i, &symbols); i++) {
    if (symbols.sh_type != SHT_SYMTAB || !get_section(o, symbols.sh_link, &names)) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym y;
      memcpy(&y, o->data + symbols.sh_offset + at, sizeof y);
      if (y.st_size != size || !is_named(o, &names, y.st_name, name)) continue;
      bool there = get_section(o, y.st_shndx, &data) && data.sh_type == SHT_PROGBITS && y.st_value <= data.sh_size &&
                   size <= data.sh_size - y.st_value;
      return there ? o->data + data.sh_offset + y.st_value : NULL;
    }
  }
  return NULL;
}

typedef struct text {
  char data[MOST_NAME];
  size_t size;
} text;

static void add(void *self, const char *data, size_t size) {
  text *t = self;
  if (size < sizeof t->data - t->size) memcpy(t->data + t->size, data, size);
  t->size += size < sizeof t->data - t->size ? size : 0;
}

int32_t cuda_fill_tables(const tc_kernel *k, void *data, size_t size) {
  object o = {data, size};
  for (tc_kmem m = 0; m < tc_k_mem_count(k); m++) {
    tc_kmem_info info;
    text name = {0};
    tc_k_mem(k, m, &info);
    if (info.space != TC_SPACE_TABLE) continue;
    uint64_t bytes = (uint64_t)tc_cprint_memory(k, m, add, &name);
    char *at = find_data(&o, name.data, bytes);
    if (!at) return 0;
    memcpy(at, info.data, bytes);
  }
  return 1;
}
