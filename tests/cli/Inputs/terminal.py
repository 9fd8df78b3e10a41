"""terminal.py FIFO WANTED COMMAND…: runs the command, which writes to FIFO, with a terminal for its standard error. FIFO is
read once WANTED has appeared on the terminal; until then the command stands. What was on the terminal when it has ended
is printed, with control characters spelt out, in front of its standard output."""
import os
import pty
import subprocess
import sys
import threading

fifo, wanted, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
os.mkfifo(fifo)
outer, inner = pty.openpty()
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner)
os.close(inner)
seen = bytearray()
appeared = threading.Event()


def watch():
    while True:
        try:
            piece = os.read(outer, 4096)
        except OSError:  # nobody has the other end
            piece = b""
        seen.extend(piece)
        if not piece or wanted in seen:
            appeared.set()
        if not piece:
            return


def drain():
    if process.poll() is None:
        with open(fifo, "rb") as source:
            source.read()


watcher = threading.Thread(target=watch)
watcher.start()
appeared.wait()
reader = threading.Thread(target=drain, daemon=True)
reader.start()
output = process.communicate()[0].decode()
watcher.join()
text = seen.decode()
for control, name in (("\r", "<CR>"), ("\033[K", "<ERASE>"), ("\n", "<LF>")):
    text = text.replace(control, name)
print("terminal: " + text)
print(output, end="")
sys.exit(process.returncode)
