// Looks into a shared object before it is opened, because opening runs its initialisers: 64-bit ELF of this machine,
// its dynamic symbols (System V ABI, "Object files"; SHT_DYNSYM). One exported function is the whole interface of a
// plugin; anything else that it exports could bind to the program's own symbols, or other plugins' to it.
#include <elf.h>
#include <string.h>

#include "core/plugin/internal.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#elif defined(__riscv)
#define OWN_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define OWN_MACHINE EM_PPC64
#elif defined(__s390x__)
#define OWN_MACHINE EM_S390
#elif defined(__loongarch__)
#define OWN_MACHINE EM_LOONGARCH
#endif

#if defined(__SANITIZE_ADDRESS__)
#define OWN_SANITIZERS "address"
#elif defined(__SANITIZE_THREAD__)
#define OWN_SANITIZERS "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OWN_SANITIZERS "address"
#elif __has_feature(thread_sanitizer)
#define OWN_SANITIZERS "thread"
#endif
#endif
#ifndef OWN_SANITIZERS
#define OWN_SANITIZERS ""
#endif

const char *tc_own_sanitizers(void) { return OWN_SANITIZERS; }

// Marks that linkers of some age put into every shared object.
static bool is_linkers_own(const char *name) {
  static const char *const names[] = {"_init", "_fini", "_edata", "_end", "__bss_start"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static bool inside(tc_mapping m, uint64_t offset, uint64_t size) { return offset <= m.size && size <= m.size - offset; }

static tc_status malformed(const char *path) {
  return tc_error(TC_STATUS_DATA_LOSS, "'%s' is not a shared object: its tables lie outside the file", path);
}

static tc_status check_symbol(const char *path, const Elf64_Sym *s, const char *name, bool *found) {
  unsigned bind = ELF64_ST_BIND(s->st_info), visibility = ELF64_ST_VISIBILITY(s->st_other);
  if (s->st_shndx == SHN_UNDEF) {
    const char *needs = strcmp(name, "__asan_init") == 0   ? "address"
                        : strcmp(name, "__tsan_init") == 0 ? "thread"
                                                           : NULL;
    if (needs && strcmp(needs, OWN_SANITIZERS) != 0)
      return tc_error(TC_STATUS_PLUGIN, "'%s' was built with the %s sanitizer, this program was not", path, needs);
    return TC_OK;
  }
  bool exported = bind != STB_LOCAL && (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
  if (!exported || s->st_shndx == SHN_ABS || is_linkers_own(name)) return TC_OK; // SHN_ABS: names of symbol versions
  if (strcmp(name, TC_QUERY_SYMBOL) == 0) {
    *found = true;
    return TC_OK;
  }
  return tc_error(TC_STATUS_PLUGIN,
                  "'%s' exports the symbol '%s'; a plugin exports " TC_QUERY_SYMBOL
                  " alone: build with hidden visibility and a version script",
                  path, name);
}

// The dynamic symbols and their names, inside the file; `names` ends with a NUL.
typedef struct symbols {
  const Elf64_Sym *at;
  uint64_t n, names_size;
  const char *names;
} symbols;

static tc_status find_symbols(const char *path, tc_mapping m, symbols *out) {
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)m.data;
  if (m.size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
    return tc_error(TC_STATUS_DATA_LOSS, "'%s' is not an ELF file", path);
  if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_type != ET_DYN)
    return tc_error(TC_STATUS_PLUGIN, "'%s' is not a 64-bit shared object", path);
#ifdef OWN_MACHINE
  if (h->e_machine != OWN_MACHINE)
    return tc_error(TC_STATUS_PLUGIN, "'%s' is for another machine (ELF number %d, this one is %d)", path, h->e_machine,
                    OWN_MACHINE);
#endif
  if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % _Alignof(Elf64_Shdr) != 0 ||
      !inside(m, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
    return malformed(path);
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(m.data + h->e_shoff);
  const Elf64_Shdr *table = NULL;
  for (int i = 0; i < h->e_shnum && !table; i++)
    if (sections[i].sh_type == SHT_DYNSYM) table = &sections[i];
  if (!table)
    return tc_error(TC_STATUS_PLUGIN, "'%s' has no table of dynamic symbols (are its section headers stripped?)", path);
  if (table->sh_link >= h->e_shnum || table->sh_offset % _Alignof(Elf64_Sym) != 0 ||
      !inside(m, table->sh_offset, table->sh_size))
    return malformed(path);
  const Elf64_Shdr *strings = &sections[table->sh_link];
  if (!inside(m, strings->sh_offset, strings->sh_size) || strings->sh_size == 0 ||
      m.data[strings->sh_offset + strings->sh_size - 1] != 0)
    return malformed(path);
  *out = (symbols){(const Elf64_Sym *)(m.data + table->sh_offset), table->sh_size / sizeof(Elf64_Sym), strings->sh_size,
                   (const char *)m.data + strings->sh_offset};
  for (uint64_t i = 1; i < out->n; i++)
    if (out->at[i].st_name >= out->names_size) return malformed(path);
  return TC_OK;
}

tc_status tc_elf_check_bytes(const char *path, tc_mapping m) {
  symbols s;
  bool found = false;
  TC_TRY(find_symbols(path, m, &s));
  for (uint64_t i = 1; i < s.n; i++) TC_TRY(check_symbol(path, &s.at[i], s.names + s.at[i].st_name, &found));
  if (!found) return tc_error(TC_STATUS_PLUGIN, "'%s' does not export " TC_QUERY_SYMBOL, path);
  return TC_OK;
}

tc_status tc_elf_check(const char *path) {
  tc_mapping m;
  TC_TRY(tc_file_map(path, &m));
  tc_status s = tc_elf_check_bytes(path, m);
  tc_file_unmap(&m);
  return s;
}

bool tc_elf_is_plugin(const char *path) {
  tc_mapping m;
  symbols s;
  bool found = false;
  tc_status status = tc_file_map(path, &m);
  if (status == TC_OK) {
    status = find_symbols(path, m, &s);
    for (uint64_t i = 1; status == TC_OK && i < s.n && !found; i++)
      found = s.at[i].st_shndx != SHN_UNDEF && strcmp(s.names + s.at[i].st_name, TC_QUERY_SYMBOL) == 0;
    tc_file_unmap(&m);
  }
  tc_status_free(status);
  return found;
}
