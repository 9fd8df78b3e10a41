"""tamper.py FILE.safetensors NAME…: adds 1 to the first f32 or f64 element of each tensor named."""

import json
import struct
import sys

path = sys.argv[1]
data = bytearray(open(path, "rb").read())
(size,) = struct.unpack_from("<Q", data)
header = json.loads(data[8 : 8 + size])
for name in sys.argv[2:]:
    form = {"F32": "<f", "F64": "<d"}[header[name]["dtype"]]
    at = 8 + size + header[name]["data_offsets"][0]
    struct.pack_into(form, data, at, struct.unpack_from(form, data, at)[0] + 1)
open(path, "wb").write(data)
