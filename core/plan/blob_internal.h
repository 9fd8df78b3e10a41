// Shared by the files of executable blobs.
#ifndef TC_CORE_PLAN_BLOB_INTERNAL_H_
#define TC_CORE_PLAN_BLOB_INTERNAL_H_

#include "core/plan/blob.h"

struct tc_blob_writer {
  tc_arena *arena;
  TC_VEC(tc_blob_entry) entries;
  tc_map *by_name;
  tc_map *spans; // of tensors: address and size → name of the DATA entry
};
bool blob_has(const tc_blob_writer *w, int32_t kind, tc_sv name);

#endif
