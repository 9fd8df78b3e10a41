// The line of progress. One lock guards the text and the terminal; the thread wakes up five times a second.
#include "tcrun/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/fs.h"

enum { BEGINS_MS = 1000, EVERY_MS = 200, MOST_TEXT = 256 };

struct tcrun_progress {
  pthread_mutex_t lock;
  pthread_cond_t stopped;
  pthread_t thread;
  bool threaded, stop, drawn;
  int hidden;         // by how many
  double start, last; // ms
  char text[MOST_TEXT];
};

// How many of the text's bytes fit into so many columns; a character of several bytes is taken whole.
static int fitting(const char *text, int columns) {
  int n = 0;
  while (text[n] && columns > 0) {
    do n++;
    while (((unsigned char)text[n] & 0xc0) == 0x80);
    columns--;
  }
  return n;
}

static void erase(tcrun_progress *p) {
  if (!p->drawn) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  p->drawn = false;
}

// With the lock.
static void draw(tcrun_progress *p) {
  double now = tc_now_ms();
  if (p->stop || p->hidden || !p->text[0] || now - p->start < BEGINS_MS || now - p->last < EVERY_MS / 2.0) return;
  struct winsize size = {0};
  int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
  char seconds[32];
  int n = snprintf(seconds, sizeof seconds, " … %.0f s", (now - p->start) / 1000) - 2; // … has three bytes
  fprintf(stderr, "\r\033[K%.*s%s", fitting(p->text, columns - n - 1), p->text, seconds);
  fflush(stderr);
  p->drawn = true, p->last = now;
}

static void *keep_drawing(void *arg) {
  tcrun_progress *p = arg;
  pthread_mutex_lock(&p->lock);
  while (!p->stop) {
    double at = tc_now_ms() + EVERY_MS;
    struct timespec until = {.tv_sec = (time_t)(at / 1000)};
    until.tv_nsec = (long)((at - (double)until.tv_sec * 1000) * 1e6);
    pthread_cond_timedwait(&p->stopped, &p->lock, &until);
    draw(p);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

tcrun_progress *tcrun_progress_start(bool threaded) {
  if (!isatty(STDERR_FILENO)) return NULL;
  tcrun_progress *p = tc_alloc(tc_system_allocator(), sizeof *p);
  if (!p) return NULL;
  *p = (tcrun_progress){.start = tc_now_ms()};
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); // that of tc_now_ms
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->stopped, &clock);
  pthread_condattr_destroy(&clock);
  if (!threaded) return p;
  sigset_t all, before; // signals are the main thread's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  p->threaded = pthread_create(&p->thread, NULL, keep_drawing, p) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return p;
}

void tcrun_progress_stop(tcrun_progress *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  erase(p);
  pthread_cond_signal(&p->stopped);
  pthread_mutex_unlock(&p->lock);
}

void tcrun_progress_free(tcrun_progress *p) {
  if (!p) return;
  tcrun_progress_stop(p);
  if (p->threaded) pthread_join(p->thread, NULL);
  pthread_cond_destroy(&p->stopped);
  pthread_mutex_destroy(&p->lock);
  tc_free(tc_system_allocator(), p);
}

void tcrun_progress_say(tcrun_progress *p, const char *fmt, ...) {
  if (!p) return;
  va_list args;
  pthread_mutex_lock(&p->lock);
  va_start(args, fmt);
  vsnprintf(p->text, sizeof p->text, fmt, args);
  va_end(args);
  for (char *c = p->text; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
  draw(p);
  pthread_mutex_unlock(&p->lock);
}

void tcrun_progress_hide(tcrun_progress *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->hidden++;
  erase(p);
  pthread_mutex_unlock(&p->lock);
}

void tcrun_progress_show(tcrun_progress *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->hidden--;
  pthread_mutex_unlock(&p->lock);
}
