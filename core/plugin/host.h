// The core's own functions as tables that plugins are lent (tc/tables.h). Constants.
#ifndef TC_CORE_PLUGIN_HOST_H_
#define TC_CORE_PLUGIN_HOST_H_

#include "core/plugin/plugin.h"

extern const tc_kernel_read_table tc_host_kernel_read;
extern const tc_kernel_build_table tc_host_kernel_build;
extern const tc_op_table tc_host_op;
extern const tc_expand_table tc_host_expand;
extern const tc_lower_table tc_host_lower;
extern const tc_stage_table tc_host_stage;

#endif
