// Tuning records: which candidate was fastest on a device, kept in memory and on disk.
//
// A record belongs to a *site* (a template, or the calls of an op), is found by a hash of what the choice depends on
// (the site's own text: dtypes, sizes, strides, arguments), and says in words which candidate won. A record is advice:
// who asks looks the words up among the candidates that there are, and falls back to its estimate.
//
// On disk: FOLDER/DEVICE/SITE, a text of lines "HASH NANOSECONDS WINNER", newest last, written whole and renamed;
// processes that write at the same time may lose each other's newest lines, never the file. Lines that do not read are
// left out.
// Thread-safe.
#ifndef TC_CORE_RUNTIME_TUNING_H_
#define TC_CORE_RUNTIME_TUNING_H_

#include "core/base/log.h"
#include "core/base/vec.h"

typedef struct tc_tuning tc_tuning;

// `folder` NULL: nothing on disk. `device` names the device with all that makes times differ.
TC_NODISCARD tc_status tc_tuning_open(const tc_allocator *a, const char *folder, tc_sv device, const tc_logger *logger,
                                      tc_tuning **out);
void tc_tuning_close(tc_tuning *t); // NULL is ignored
// The winner's words, in the arena. False: not known, or `t` is NULL.
bool tc_tuning_find(tc_tuning *t, tc_arena *arena, tc_sv site, tc_sv key, tc_sv *out_winner);
// Keeps a winner, in memory and on disk; what fails is a log line. Line breaks in `winner` are not allowed.
void tc_tuning_keep(tc_tuning *t, tc_sv site, tc_sv key, tc_sv winner, double ns);

#endif
