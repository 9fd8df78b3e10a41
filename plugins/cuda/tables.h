// Tables of a kernel, in the object that was made of it.
#ifndef TC_PLUGINS_CUDA_TABLES_H_
#define TC_PLUGINS_CUDA_TABLES_H_

#include "tc/cprint.h"
#include "tc/plugin.h"

// Makes a dialect print the kernel with blank tables, by their own names among the object's symbols (tc/cprint.h).
void cuda_leave_tables_blank(const tc_kernel *k, tc_cdialect *d);

// Puts the kernel's tables into the object (an ELF file of `size` bytes) made of such a text. False: it has no place
// for one of them.
int32_t cuda_fill_tables(const tc_kernel *k, void *object, size_t size);

#endif
