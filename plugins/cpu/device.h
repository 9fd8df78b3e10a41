// The device table and what the rest of libtc_cpu.so needs of an opened device.
#ifndef TC_PLUGINS_CPU_DEVICE_H_
#define TC_PLUGINS_CPU_DEVICE_H_

#include "cpu.h"

extern const tc_device_table tc_cpu_device;
const tc_cpu_target *tc_cpu_device_target(const tc_device_ *d);

#endif
