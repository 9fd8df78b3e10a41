// Shared by functionalize.c (which value stands for what) and functionalize_views.c (views forwards and backwards).
#ifndef TC_CORE_PASSES_FUNCTIONALIZE_H_
#define TC_CORE_PASSES_FUNCTIONALIZE_H_

#include "core/passes/passes.h"

// The same view of a new base: result `i` of the view node, made of `base` instead of its own argument.
TC_NODISCARD tc_status tc_view_again(const tc_build *b, const tc_node *view, int32_t i, tc_value *base, tc_value **out);
// An offset in args that counts from the beginning of the storage `was` lies in, counted from that of `now`.
TC_NODISCARD tc_status tc_view_count_from(const tc_build *b, const tc_node *view, const tc_tensor_type *was,
                                          const tc_tensor_type *now, tc_arg *args);
// The base after `part` was written through the view: result `i` of `view`, whose base is now `base`. `root` is the
// value of the whole storage, `root_type` and `t` the declared types of it and of the view: for views that only strides
// describe, *out_of_root is set and the result is a new root.
TC_NODISCARD tc_status tc_view_write(const tc_build *b, const tc_node *view, int32_t i, tc_value *base, tc_value *root,
                                     const tc_tensor_type *root_type, const tc_tensor_type *t, tc_value *part,
                                     bool *out_of_root, tc_value **out);

#endif
