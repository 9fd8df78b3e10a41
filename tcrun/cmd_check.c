// tcrun check.
#include "tcrun/tcrun.h"

tc_status cmd_check(run_options *o) {
  (void)o;
  return tc_error(TC_STATUS_UNIMPLEMENTED, "check");
}
