// tcrun gradcheck: the numerical gradient check of models.
#ifndef TC_TCRUN_GRADCHECK_H_
#define TC_TCRUN_GRADCHECK_H_

#include "core/autograd/differences.h"
#include "tcrun/tcrun.h"

// tcrun gradcheck: the check command's files, cases and report, with this check in the place of stored results.
tc_status cmd_gradcheck(run_options *o);
// Of `checked` (full names of ops): prints which of the derivatives that are declared had no case.
TC_NODISCARD tc_status tcrun_gradcheck_coverage(run_options *o, const tc_map *checked);

#endif
