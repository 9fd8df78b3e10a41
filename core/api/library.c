// libtc.so is tc_api whole; a shared library wants one source of its own.
#include "tc/tc.h"

// The version of the library that is loaded, "MAJOR.MINOR.PATCH".
const char *tc_version(void) { return "0.1.0"; }
