// Times of device work. See stopwatch.h.
#include "core/runtime/stopwatch.h"

static const int64_t FLUSH_BYTES = 256 << 20; // or what the device gives at once

static const tc_device_table *table(const tc_stopwatch *w) { return w->d->plugin->device; }

tc_status tc_stopwatch_open(tc_device *d, tc_stopwatch *out) {
  *out = (tc_stopwatch){.d = d};
  if (d->props.host_memory) return TC_OK;
  for (; out->n_events < 2 * TC_STOPWATCH_SLOTS; out->n_events++)
    if (table(out)->event_create(d->handle, &out->events[out->n_events]) != TC_STATUS_OK) return TC_OK;
  const int64_t largest = d->props.largest_alloc;
  TC_TRY(tc_pool_take(d->memory, largest > 0 && largest < FLUSH_BYTES ? largest : FLUSH_BYTES, &out->flush));
  out->device = true;
  return TC_OK;
}

void tc_stopwatch_close(tc_stopwatch *w) {
  for (int32_t i = 0; i < w->n_events; i++) table(w)->event_destroy(w->d->handle, w->events[i]);
  tc_pool_give(w->flush);
  *w = (tc_stopwatch){.d = w->d};
}

static tc_status record(tc_stopwatch *w, int32_t event) {
  return tc_plugin_status(w->d->plugin, table(w)->event_record(w->d->handle, w->d->stream, w->events[event]),
                          "while timing");
}

tc_status tc_stopwatch_start(tc_stopwatch *w, int32_t slot) {
  TC_TRY(tc_plugin_status(w->d->plugin,
                          table(w)->fill(w->d->handle, w->d->stream, w->flush->memory, 0, 0, (uint64_t)w->flush->size),
                          "while emptying the caches"));
  return record(w, 2 * slot);
}

tc_status tc_stopwatch_stop(tc_stopwatch *w, int32_t slot) { return record(w, 2 * slot + 1); }

tc_status tc_stopwatch_read(tc_stopwatch *w, int32_t slot, double *out_ms) {
  double ns = 0;
  TC_TRY(tc_plugin_status(w->d->plugin,
                          table(w)->event_elapsed(w->d->handle, w->events[2 * slot], w->events[2 * slot + 1], &ns),
                          "while timing"));
  *out_ms = ns * 1e-6;
  return TC_OK;
}

tc_status tc_device_wait(tc_device *d) {
  if (d->props.host_memory) return TC_OK;
  return tc_plugin_status(d->plugin, d->plugin->device->synchronize(d->handle, d->stream),
                          "while waiting for the device");
}
