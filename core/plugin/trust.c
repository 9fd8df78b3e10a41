// Which files are loaded at all: absolute real paths that nobody but their owner can change. A plugin runs with all the
// rights of the program, so whoever can write to the file, or replace it in its folder, owns the program.
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/plugin/internal.h"

tc_status tc_trusted_path(tc_arena *arena, const char *path, bool folder, tc_sv *out_real) {
  char real[PATH_MAX];
  struct stat st;
  if (!realpath(path, real) || stat(real, &st) != 0) return tc_fs_error(errno, "open", path);
  if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'%s' is not a %s", real, folder ? "folder" : "regular file");
  if (st.st_mode & (S_IWGRP | S_IWOTH))
    return tc_error(TC_STATUS_PLUGIN, "'%s' can be written by %s (mode %04o): run chmod go-w on it", real,
                    st.st_mode & S_IWOTH ? "everyone" : "its group", (unsigned)(st.st_mode & 07777));
  *out_real = tc_sv_copy(arena, tc_sv_of(real));
  return TC_OK;
}
