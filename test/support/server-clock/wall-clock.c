/*
 * Gives the main thread of a process another wall clock: LD_PRELOAD this library. The file named by TEST_WALL_CLOCK
 * sets the clock, wall-clock.ts writes it. The monotonic clock stays as it is, and so do timers and sleeps. Other
 * threads keep the machine's clock, because they wait until times of that clock: jemalloc would wait for no time at all.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct setting {
  int64_t mode;  /* Which of the modes below. */
  int64_t us;
  int64_t epoch; /* A stopped clock goes back only if this number changes. */
};

enum {
  TICKING = 0, /* The clock stands at `us`. Each read is 1 µs later than the one before, as time goes on for tokens. */
  RUNNING = 1, /* `us` is added to the machine's clock. */
  STOPPED = 2, /* The clock stands at `us`. */
};

/* The writer fills the slot that is not in use, and then counts up. A reader never sees half of a setting. */
struct file {
  uint8_t count;
  uint8_t unused[7];
  struct setting slots[2];
};

static const struct file *file;

static void map_file(void) {
  const char *path = getenv("TEST_WALL_CLOCK");
  int opened = path ? open(path, O_RDONLY) : -1;
  void *mapped = opened < 0 ? MAP_FAILED : mmap(0, sizeof(struct file), PROT_READ, MAP_SHARED, opened, 0);
  if (mapped == MAP_FAILED) {
    fprintf(stderr, "TEST_WALL_CLOCK is not a file that sets the clock: %s\n", path ? path : "not set");
    abort();
  }
  close(opened);
  file = mapped;
}

static struct setting read_setting(void) {
  struct setting setting;
  uint8_t count;
  if (!file) map_file();
  do {
    count = __atomic_load_n(&file->count, __ATOMIC_ACQUIRE);
    setting = file->slots[count & 1];
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
  } while (count != __atomic_load_n(&file->count, __ATOMIC_RELAXED));
  return setting;
}

static int real_time(clockid_t id, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  return real(id, at);
}

static int is_main_thread(void) {
  static __thread int known; /* 1: it is, 2: it is not. */
  if (!known) known = syscall(SYS_gettid) == getpid() ? 1 : 2;
  return known == 1;
}

static int64_t now_us(void) {
  static int64_t last, epoch;
  struct setting setting = { RUNNING, 0, 0 };
  struct timespec real;
  if (is_main_thread()) setting = read_setting();
  if (setting.mode == RUNNING) {
    real_time(CLOCK_REALTIME, &real);
    return real.tv_sec * 1000000LL + real.tv_nsec / 1000 + setting.us;
  }
  if (epoch != setting.epoch || last < setting.us) last = setting.us;
  else if (setting.mode == TICKING) last += 1;
  epoch = setting.epoch;
  return last;
}

int clock_gettime(clockid_t id, struct timespec *at) {
  if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return real_time(id, at);
  int64_t us = now_us();
  at->tv_sec = us / 1000000;
  at->tv_nsec = us % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
  (void)zone;
  int64_t us = now_us();
  at->tv_sec = us / 1000000;
  at->tv_usec = us % 1000000;
  return 0;
}

time_t time(time_t *into) {
  time_t seconds = now_us() / 1000000;
  if (into) *into = seconds;
  return seconds;
}

/*
 * Valkey 9.1 reads the wall clock once a millisecond, and adds the ticks of the processor in between. On x86 it does so
 * only if /proc/cpuinfo has the flag constant_tsc. Without this file it reads the wall clock each time.
 */
FILE *fopen64(const char *path, const char *mode) {
  static FILE *(*real)(const char *, const char *);
  if (!real) real = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
  if (strcmp(path, "/proc/cpuinfo") != 0) return real(path, mode);
  errno = ENOENT;
  return NULL;
}
