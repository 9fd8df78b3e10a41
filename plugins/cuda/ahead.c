// What takes long and can go on beside something else, on threads of its own: opening NVRTC and cuBLASLt beside the
// driver's making of a context, and cuBLASLt's answer to a first question beside the copying of inputs (75 and 110 ms
// of a process that is over after 0.6 s, on an H100). Nothing is decided here: who opens or asks afterwards waits for
// what is under way, and gets the same answer.
//
// cuBLASLt is opened so early only where an earlier process has used it, which a note in the host's cache says.
#include "ahead.h"

#include <stddef.h>
#include <string.h>

#include "cuda.h"
#include "library.h"

static const char note[] = "cuBLASLt is used here";

static int32_t skip(void *self, const void *data, uint64_t size) {
  (void)self, (void)data, (void)size;
  return TC_STATUS_OK;
}

static int32_t is_noted(const tc_host *h) {
  return cuda_has_cache(h) &&
         h->cache_get(h->self, (tc_sv){note, sizeof note - 1}, &(tc_sink){NULL, skip}) == TC_STATUS_OK;
}

void cuda_begin(cuda_ahead *a, void *(*work)(void *), void *arg) {
  pthread_mutex_lock(&a->lock);
  if (!a->going) a->going = pthread_create(&a->thread, NULL, work, arg) == 0;
  pthread_mutex_unlock(&a->lock);
}

void cuda_wait(cuda_ahead *a) {
  pthread_mutex_lock(&a->lock);
  if (a->going) pthread_join(a->thread, NULL);
  a->going = 0;
  pthread_mutex_unlock(&a->lock);
}

// Opened once more where they are used, which finds them there.
static void *open_libraries(void *arg) {
  tc_device_ *d = arg;
  cuda_library_preload(d->host, &cuda_nvrtc_source);
  if (d->blas_noted) cuda_library_preload(d->host, &cuda_blas_source);
  return NULL;
}

void cuda_open_ahead(tc_device_ *d) {
  d->blas_noted = is_noted(d->host);
  cuda_begin(&d->opening, open_libraries, d);
}

void cuda_note_blas(tc_device_ *d) {
  if (!d->blas_noted && cuda_has_cache(d->host))
    d->host->cache_put(d->host->self, (tc_sv){note, sizeof note - 1}, "1", 1);
}
