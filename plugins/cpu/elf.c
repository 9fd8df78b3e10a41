// Loads relocatable x86-64 ELF objects (System V gABI and psABI) that need nothing from outside: sections that occupy
// memory are laid out in one mapping, relocations are applied while it is writable, then code becomes executable and
// everything read-only. The same objects are what the compiler writes and what caches hold.
//
// The file is untrusted: every offset and count is checked before use. Undefined symbols are refused, except those
// of AddressSanitizer, which are looked up in the process and reached through stubs that hold their addresses, since
// the mapping may be too far from them for 32-bit displacements.
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu.h"

enum { MAX_SECTIONS = 4096, STUB_BYTES = 16, STUB_ADDRESS = 6, MAX_STUBS = 256 };
#define MAX_IMAGE (1ull << 30)

typedef struct section {
  const Elf64_Shdr *h;
  uint64_t at; // offset in the image, if it is loaded
  int32_t loaded;
} section;

struct tc_cpu_module {
  uint8_t *image;
  uint64_t image_size;
  Elf64_Sym *symbols; // st_value: address
  char *names;
  uint64_t names_size;
  uint32_t n_symbols;
};

typedef struct loader {
  const uint8_t *file;
  uint64_t size;
  section *sections;
  uint32_t n_sections, symtab;
  tc_cpu_module *m;
  uint64_t stubs; // offset of the jump stubs in the image
  uint32_t n_stubs;
  char *why;
  size_t why_size;
} loader;

static int32_t bad(loader *l, const char *what) {
  snprintf(l->why, l->why_size, "the kernel object is damaged: %s", what);
  return TC_STATUS_DATA_LOSS;
}

static int32_t in_file(const loader *l, uint64_t offset, uint64_t size) {
  return offset <= l->size && size <= l->size - offset;
}

static int32_t read_header(loader *l) {
  Elf64_Ehdr e;
  if (l->size < sizeof e) return bad(l, "it is too short");
  memcpy(&e, l->file, sizeof e);
  if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_ident[EI_DATA] != ELFDATA2LSB)
    return bad(l, "it is not a 64-bit ELF file");
  if (e.e_type != ET_REL || e.e_machine != EM_X86_64) return bad(l, "it is not a relocatable object for x86-64");
  if (e.e_shentsize != sizeof(Elf64_Shdr) || e.e_shnum == 0 || e.e_shnum > MAX_SECTIONS || e.e_shoff % 8 ||
      !in_file(l, e.e_shoff, (uint64_t)e.e_shnum * sizeof(Elf64_Shdr)))
    return bad(l, "its section table lies outside the file");
  l->n_sections = e.e_shnum;
  l->sections = calloc(e.e_shnum, sizeof *l->sections);
  if (!l->sections) return TC_STATUS_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < l->n_sections; i++) {
    section *s = &l->sections[i];
    s->h = (const Elf64_Shdr *)(const void *)(l->file + e.e_shoff) + i;
    if (s->h->sh_type != SHT_NOBITS && !in_file(l, s->h->sh_offset, s->h->sh_size))
      return bad(l, "a section lies outside the file");
    if (s->h->sh_type == SHT_SYMTAB) l->symtab = i;
  }
  return l->symtab ? TC_STATUS_OK : bad(l, "it has no symbols");
}

static int32_t place(loader *l, uint64_t *end, int32_t code) {
  for (uint32_t i = 0; i < l->n_sections; i++) {
    section *s = &l->sections[i];
    const Elf64_Shdr *h = s->h;
    int32_t executable = (h->sh_flags & SHF_EXECINSTR) != 0;
    if (!(h->sh_flags & SHF_ALLOC) || executable != code) continue;
    uint64_t align = h->sh_addralign ? h->sh_addralign : 1;
    if (align & (align - 1) || align > 4096 || h->sh_size > MAX_IMAGE)
      return bad(l, "a section has an impossible size or alignment");
    if (h->sh_flags & SHF_TLS) return bad(l, "it has thread-local data");
    *end = (*end + align - 1) & ~(align - 1);
    s->at = *end, s->loaded = 1;
    *end += h->sh_size;
    if (*end > MAX_IMAGE) return bad(l, "it is too large");
  }
  return TC_STATUS_OK;
}

static int32_t load_image(loader *l, uint64_t *code_end) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = 0;
  int32_t s = place(l, &end, 1);
  if (s != TC_STATUS_OK) return s;
  l->stubs = (end + 15) & ~15ull;
  end = l->stubs + MAX_STUBS * STUB_BYTES;
  end = (end + page - 1) & ~(page - 1);
  *code_end = end;
  s = place(l, &end, 0);
  if (s != TC_STATUS_OK) return s;
  l->m->image_size = (end + page - 1) & ~(page - 1);
  void *p = mmap(NULL, l->m->image_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return TC_STATUS_OUT_OF_MEMORY;
  l->m->image = p;
  for (uint32_t i = 0; i < l->n_sections; i++) {
    const section *c = &l->sections[i];
    if (c->loaded && c->h->sh_type != SHT_NOBITS && c->h->sh_size)
      memcpy(l->m->image + c->at, l->file + c->h->sh_offset, c->h->sh_size);
  }
  return TC_STATUS_OK;
}

// A stub that jumps to a function far away: jmp *[rip+0]; address.
static int32_t far_function(loader *l, const char *name, uint64_t *out) {
  if (strncmp(name, "__asan_", 7) != 0) {
    snprintf(l->why, l->why_size, "the kernel object needs '%.100s' from outside, which is not allowed", name);
    return TC_STATUS_NOT_FOUND;
  }
  void *target = dlsym(RTLD_DEFAULT, name);
  if (!target) {
    snprintf(l->why, l->why_size,
             "'%.100s' is missing: kernels compiled with the address sanitizer need a program built with it", name);
    return TC_STATUS_NOT_FOUND;
  }
  if (l->n_stubs == MAX_STUBS) return bad(l, "it calls too many functions");
  uint8_t *stub = l->m->image + l->stubs + (uint64_t)l->n_stubs++ * STUB_BYTES;
  static const uint8_t jump[STUB_ADDRESS] = {0xff, 0x25, 0, 0, 0, 0};
  memcpy(stub, jump, STUB_ADDRESS);
  memcpy(stub + STUB_ADDRESS, &target, 8);
  *out = (uint64_t)(uintptr_t)stub;
  return TC_STATUS_OK;
}

static int32_t read_symbols(loader *l) {
  const Elf64_Shdr *t = l->sections[l->symtab].h;
  if (t->sh_entsize != sizeof(Elf64_Sym) || t->sh_link == 0 || t->sh_link >= l->n_sections)
    return bad(l, "its symbol table is malformed");
  const Elf64_Shdr *n = l->sections[t->sh_link].h;
  if (n->sh_type != SHT_STRTAB || n->sh_size == 0 || l->file[n->sh_offset + n->sh_size - 1] != 0)
    return bad(l, "its symbol names are malformed");
  tc_cpu_module *m = l->m;
  m->n_symbols = (uint32_t)(t->sh_size / sizeof(Elf64_Sym));
  m->names_size = n->sh_size;
  m->symbols = malloc((size_t)m->n_symbols * sizeof(Elf64_Sym) + 1);
  m->names = malloc(n->sh_size);
  if (!m->symbols || !m->names) return TC_STATUS_OUT_OF_MEMORY;
  memcpy(m->symbols, l->file + t->sh_offset, (size_t)m->n_symbols * sizeof(Elf64_Sym));
  memcpy(m->names, l->file + n->sh_offset, n->sh_size);
  for (uint32_t i = 0; i < m->n_symbols; i++) {
    Elf64_Sym *s = &m->symbols[i];
    if (s->st_name >= m->names_size) return bad(l, "a symbol's name lies outside its table");
    if (s->st_shndx == SHN_UNDEF) {
      if (i == 0 || m->names[s->st_name] == 0) continue;
      int32_t code = far_function(l, m->names + s->st_name, &s->st_value);
      if (code != TC_STATUS_OK) return code;
      s->st_size = 0;
    } else if (s->st_shndx < SHN_LORESERVE) {
      if (s->st_shndx >= l->n_sections) return bad(l, "a symbol lies in no section");
      const section *c = &l->sections[s->st_shndx];
      if (!c->loaded) {
        s->st_shndx = SHN_UNDEF;
        continue;
      }
      if (s->st_value > c->h->sh_size || s->st_size > c->h->sh_size - s->st_value)
        return bad(l, "a symbol lies outside its section");
      s->st_value += (uint64_t)(uintptr_t)(l->m->image + c->at);
    } else if (s->st_shndx != SHN_ABS || ELF64_ST_TYPE(s->st_info) != STT_FILE)
      return bad(l, "a symbol is of a kind that kernels do not have");
  }
  return TC_STATUS_OK;
}

static int32_t relocate_one(loader *l, const section *to, const Elf64_Rela *r) {
  uint64_t type = ELF64_R_TYPE(r->r_info), number = ELF64_R_SYM(r->r_info), width = 4;
  if (type == R_X86_64_NONE) return TC_STATUS_OK;
  if (type == R_X86_64_64 || type == R_X86_64_PC64) width = 8;
  if (number >= l->m->n_symbols) return bad(l, "a relocation names no symbol");
  const Elf64_Sym *s = &l->m->symbols[number];
  if (s->st_value == 0) return bad(l, "a relocation needs a symbol that is not there");
  if (r->r_offset > to->h->sh_size || width > to->h->sh_size - r->r_offset)
    return bad(l, "a relocation lies outside its section");
  uint8_t *at = l->m->image + to->at + r->r_offset;
  uint64_t place_ = (uint64_t)(uintptr_t)at, target = s->st_value + (uint64_t)r->r_addend;
  int64_t value;
  switch (type) {
  case R_X86_64_64: value = (int64_t)target; break;
  case R_X86_64_PC64:
  case R_X86_64_PC32:
  case R_X86_64_PLT32: value = (int64_t)(target - place_); break;
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX: // the address in a stub is as good as one in a table of addresses
    if (s->st_shndx != SHN_UNDEF) return bad(l, "a relocation is of a kind that kernels do not have");
    value = (int64_t)(target + STUB_ADDRESS - place_);
    break;
  default: return bad(l, "a relocation is of a kind that kernels do not have");
  }
  if (width == 4 && value != (int32_t)value) return bad(l, "a relocation does not reach");
  memcpy(at, &value, width); // little-endian
  return TC_STATUS_OK;
}

static int32_t relocate(loader *l) {
  for (uint32_t i = 0; i < l->n_sections; i++) {
    const Elf64_Shdr *h = l->sections[i].h;
    if (h->sh_type == SHT_REL) return bad(l, "it has relocations without addends");
    if (h->sh_type != SHT_RELA) continue;
    if (h->sh_info >= l->n_sections || h->sh_entsize != sizeof(Elf64_Rela) || h->sh_link != l->symtab)
      return bad(l, "its relocations are malformed");
    const section *to = &l->sections[h->sh_info];
    if (!to->loaded) continue;
    for (uint64_t j = 0; j < h->sh_size / sizeof(Elf64_Rela); j++) {
      Elf64_Rela r;
      memcpy(&r, l->file + h->sh_offset + j * sizeof r, sizeof r);
      int32_t s = relocate_one(l, to, &r);
      if (s != TC_STATUS_OK) return s;
    }
  }
  return TC_STATUS_OK;
}

static int32_t check_target(loader *l, const tc_cpu_target *host) {
  uint64_t size;
  uint32_t words[TC_CPU_TARGET_WORDS];
  const void *p = tc_cpu_module_symbol(l->m, (tc_sv){"tc_cpu_target_words", 19}, &size);
  if (!p || size != sizeof words) return bad(l, "it does not say which processor it is for");
  memcpy(words, p, sizeof words);
  if (tc_cpu_target_runs(words, host)) return TC_STATUS_OK;
  snprintf(l->why, l->why_size,
           "the kernel object was compiled for a processor with features that this one lacks; compile it again");
  return TC_STATUS_MISMATCH;
}

int32_t tc_cpu_module_load(const void *blob, uint64_t size, const tc_cpu_target *host, tc_cpu_module **out, char *why,
                           size_t why_size) {
  void *aligned = NULL;
  why[0] = 0;
  *out = NULL;
  loader l = {.file = blob, .size = size, .why = why, .why_size = why_size};
  if ((uintptr_t)blob % 8) { // section headers are read in place
    aligned = malloc(size + 1);
    if (!aligned) return TC_STATUS_OUT_OF_MEMORY;
    l.file = memcpy(aligned, blob, size);
  }
  uint64_t code_end = 0;
  l.m = calloc(1, sizeof *l.m);
  int32_t s = l.m ? read_header(&l) : TC_STATUS_OUT_OF_MEMORY;
  if (s == TC_STATUS_OK) s = load_image(&l, &code_end);
  if (s == TC_STATUS_OK) s = read_symbols(&l);
  if (s == TC_STATUS_OK) s = relocate(&l);
  if (s == TC_STATUS_OK) s = check_target(&l, host);
  if (s == TC_STATUS_OK &&
      (mprotect(l.m->image, code_end, PROT_READ | PROT_EXEC) != 0 ||
       (l.m->image_size > code_end && mprotect(l.m->image + code_end, l.m->image_size - code_end, PROT_READ) != 0))) {
    snprintf(why, why_size, "the system does not let generated code become executable");
    s = TC_STATUS_DEVICE;
  }
  free(l.sections);
  free(aligned);
  if (s == TC_STATUS_OK) *out = l.m;
  else tc_cpu_module_unload(l.m);
  if (s == TC_STATUS_OUT_OF_MEMORY)
    snprintf(why, why_size, "no memory for a kernel object of %llu bytes", (unsigned long long)size);
  return s;
}

void tc_cpu_module_unload(tc_cpu_module *m) {
  if (!m) return;
  if (m->image) munmap(m->image, m->image_size);
  free(m->symbols);
  free(m->names);
  free(m);
}

const void *tc_cpu_module_symbol(const tc_cpu_module *m, tc_sv name, uint64_t *size) {
  for (uint32_t i = 1; i < m->n_symbols; i++) {
    const Elf64_Sym *s = &m->symbols[i];
    const char *text = m->names + s->st_name;
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= SHN_LORESERVE || ELF64_ST_BIND(s->st_info) != STB_GLOBAL) continue;
    if (strlen(text) != name.size || memcmp(text, name.data, name.size) != 0) continue;
    if (size) *size = s->st_size;
    return (const void *)(uintptr_t)s->st_value;
  }
  return NULL;
}
