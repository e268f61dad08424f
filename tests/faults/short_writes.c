/* Short writes: each write of more than one byte to a regular file takes only the first half.

   SHORT_WRITES names a file that gets one byte for each write that was cut. Legal by write(2): a
   disk that fills up, a quota, or a signal does the same. Other descriptors are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char path[4096];

/* At once: a process may clean its environment, and fork. */
__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("SHORT_WRITES");
  snprintf(path, sizeof path, "%s", name ? name : "");
}

static ssize_t really_write(int fd, const void *data, size_t size) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  return real(fd, data, size);
}

static size_t allowed(int fd, size_t size) {
  struct stat seen;
  if (size < 2 || !path[0] || fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode)) return size;
  int counter = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (counter >= 0) {
    really_write(counter, ".", 1);
    close(counter);
  }
  return size / 2;
}

ssize_t write(int fd, const void *data, size_t size) {
  return really_write(fd, data, allowed(fd, size));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
  static ssize_t (*real)(int, const void *, size_t, off_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  return real(fd, data, allowed(fd, size), offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  return pwrite64(fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  static ssize_t (*real)(int, const struct iovec *, int);
  if (!real) real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
  return count == 1 ? write(fd, parts[0].iov_base, parts[0].iov_len) : real(fd, parts, count);
}
