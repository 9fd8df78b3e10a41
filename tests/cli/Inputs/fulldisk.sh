# fulldisk.sh COMMAND…: runs the command where no file can grow, its messages on the standard output, and shows how it ended.
trap '' XFSZ
{
  (
    ulimit -f 0
    "$@" 2>&1
    echo "ended with $?"
  )
} | cat
