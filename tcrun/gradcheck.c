// tcrun gradcheck: see gradcheck.h.
#include "tcrun/gradcheck.h"

#include <stdio.h>

tc_status cmd_gradcheck(run_options *o) {
  o->gradcheck = true;
  return cmd_check(o);
}

tc_status tcrun_gradcheck_coverage(run_options *o, const tc_map *checked) {
  tc_context *c;
  TC_TRY(tcrun_open_ref(o, &c));
  int32_t declared = 0, missing = 0;
  tc_sb sb = tc_sb_make(o->arena);
  for (int32_t i = 0; i < tc_op_registry_count(c->ops); i++) {
    const tc_op *op = tc_op_registry_at(c->ops, i);
    if (!op->grad.n_results) continue;
    declared++;
    if (tc_map_find(checked, op->full_name)) continue;
    tc_sb_printf(&sb, "%s" TC_SV_FMT, missing++ ? ", " : "", TC_SV_ARG(op->full_name));
  }
  if (missing && !o->quiet) printf("derivatives without a case: %s\n", sb.text);
  printf("%d of %d derivatives declared had a case\n", declared - missing, declared);
  tc_context_destroy(c);
  return TC_OK;
}
