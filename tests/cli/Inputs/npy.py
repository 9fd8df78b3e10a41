# npy.py FILE SHAPE: f32 numbers of that shape ("1x16x64"), the same ones each time.
import math
import struct
import sys

path, shape = sys.argv[1], [int(n) for n in sys.argv[2].split("x")]
count = math.prod(shape)
head = repr({"descr": "<f4", "fortran_order": False, "shape": tuple(shape)})
head += " " * ((54 - len(head)) % 64 - 1) + "\n"
with open(path, "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    f.write(struct.pack(f"<{count}f", *(math.sin(i * 0.37) for i in range(count))))
