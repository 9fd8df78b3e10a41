// Work on a thread of its own, which others wait for before they need it (ahead.c).
#ifndef TC_PLUGINS_CUDA_AHEAD_H_
#define TC_PLUGINS_CUDA_AHEAD_H_

#include <pthread.h>
#include <stdint.h>

typedef struct cuda_ahead {
  pthread_mutex_t lock;
  pthread_t thread; // under the lock
  int32_t going;    // too
} cuda_ahead;

// Begins the work, unless some is under way; without a thread it is not done.
void cuda_begin(cuda_ahead *a, void *(*work)(void *), void *arg);
// Returns when nothing is under way. Any thread may call it but the one that works.
void cuda_wait(cuda_ahead *a);

#endif
