// Numbers of the zip format (APPNOTE 6.3.9) that the reader and the writer share. Private.
#ifndef TC_CORE_TENSOR_ZIP_FORMAT_H_
#define TC_CORE_TENSOR_ZIP_FORMAT_H_

#include "core/tensor/files.h"

enum {
  LOCAL_SIZE = 30,
  CENTRAL_SIZE = 46,
  END_SIZE = 22,
  LOCATOR_SIZE = 20,
  END64_SIZE = 56,
  MAX_ENTRIES = 1 << 20,
  MAX_NAME = 4096,
  PAYLOAD_ALIGN = 64,
  ID_ZIP64 = 0x0001,
  ID_PADDING = 0x4246, // what PyTorch's writer pads with
  FLAG_ENCRYPTED = 1,
  FLAG_UTF8 = 0x800,
  SIG_LOCAL = 0x04034b50,
  SIG_CENTRAL = 0x02014b50,
  SIG_END = 0x06054b50,
  SIG_END64 = 0x06064b50,
  SIG_LOCATOR = 0x07064b50
};

uint32_t tc_zip_crc(const uint8_t *data, uint64_t size); // CRC-32
tc_status tc_zip_check_name(tc_sv name);

#endif
