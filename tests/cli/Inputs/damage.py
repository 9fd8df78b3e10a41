"""damage.py FILE WHAT AT: `cut` the file to AT bytes (negative: from its end), or `flip` a bit of the byte at AT."""
import sys

path, what, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
data = bytearray(open(path, "rb").read())
if what == "cut":
    data = data[:at]
else:
    data[at] ^= 0x10
open(path, "wb").write(data)
