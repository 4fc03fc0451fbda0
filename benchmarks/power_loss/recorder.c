/* Records what a process does to the files below one folder, for LD_PRELOAD.
 *
 * TAILWRIGHT_RECORD_FOLDER  the folder (an absolute path without links)
 * TAILWRIGHT_RECORD_LOG     the log, appended to; it must lie outside of the folder
 *
 * The log is a sequence of records, little-endian (disk.py reads it):
 *     u8 kind, u64 sequence, u64 file, i64 offset, u64 length, length bytes
 * kinds: O a file was opened (bytes: its path), W written (offset, bytes), T truncated (offset: new size), S fsync or
 * fdatasync of a file has succeeded, D fsync of a folder has (bytes: its path), R renamed (bytes: old, NUL, new),
 * U unlinked (bytes: its path). S and D carry in `offset` the sequence number that had been reached when they began:
 * what was recorded after that is not promised to be on the disk. A file is its inode number: several descriptors of one
 * file share it, and fsync of any of them is for all.
 *
 * Every operation is recorded under one lock together with being done, so that the order of the log is theirs. Kill -9
 * loses nothing of the log: it is written with write(2) before the operation returns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FDS 65536
#define REAL(name) ((__typeof__(&name))real(#name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t file_of[MOST_FDS];  /* 0: not ours. */
static char *folder_of[MOST_FDS];   /* Path of a folder that is open. */
static uint64_t sequence;
static int log_fd = -1;
static char watched[PATH_MAX];
static size_t watched_length;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "recorder: %s is missing\n", name);
        abort();
    }
    return found;
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("TAILWRIGHT_RECORD_FOLDER"), *log = getenv("TAILWRIGHT_RECORD_LOG");
    if (!folder || !log || strlen(folder) + 2 > sizeof watched) return;
    snprintf(watched, sizeof watched, "%s", folder);
    watched_length = strlen(watched);
    log_fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        fprintf(stderr, "recorder: %s: %s\n", log, strerror(errno));
        abort();
    }
}

static int in_folder(const char *path) {
    return log_fd >= 0 && !strncmp(path, watched, watched_length) && (path[watched_length] == '/' || !path[watched_length]);
}

/* The absolute path, links in the last part not followed. Returns 0 when there is none. */
static int absolute(int dir, const char *path, char *out) {
    if (log_fd < 0 || !path) return 0;
    if (path[0] == '/') return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    char base[PATH_MAX];
    if (dir == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
    }
    return snprintf(out, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

/* With the lock held. */
static void record(char kind, uint64_t file, int64_t offset, const struct iovec *parts, int count) {
    uint64_t length = 0;
    for (int part = 0; part < count; part++) length += parts[part].iov_len;
    unsigned char head[33];
    uint64_t number = ++sequence;
    head[0] = (unsigned char)kind;
    memcpy(head + 1, &number, 8);
    memcpy(head + 9, &file, 8);
    memcpy(head + 17, &offset, 8);
    memcpy(head + 25, &length, 8);
    struct iovec all[8] = {{head, sizeof head}};
    int used = 1;
    for (int part = 0; part < count && used < 8; part++) all[used++] = parts[part];
    ssize_t (*really)(int, const struct iovec *, int) = REAL(writev);
    ssize_t wanted = (ssize_t)(sizeof head + length);
    if (really(log_fd, all, used) != wanted) {
        fprintf(stderr, "recorder: the log takes no more: %s\n", strerror(errno));
        abort();
    }
}

static void record_text(char kind, uint64_t file, int64_t offset, const char *text) {
    struct iovec part = {(void *)text, strlen(text)};
    record(kind, file, offset, &part, 1);
}

static int opened(int fd, int dir, const char *path, int flags) {
    int saved = errno;
    char full[PATH_MAX];
    if (fd >= 0 && fd < MOST_FDS && absolute(dir, path, full) && in_folder(full)) {
        struct stat about;
        pthread_mutex_lock(&lock);
        if (fstat(fd, &about)) {
            fprintf(stderr, "recorder: %s: %s\n", full, strerror(errno));
            abort();
        }
        if (S_ISDIR(about.st_mode)) {
            folder_of[fd] = strdup(full);
        } else if ((flags & O_ACCMODE) != O_RDONLY) {
            file_of[fd] = (uint64_t)about.st_ino;
            record_text('O', file_of[fd], 0, full);
            if (flags & O_TRUNC) record('T', file_of[fd], 0, NULL, 0);
        }
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
    return fd;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(REAL(open)(path, flags, mode), AT_FDCWD, path, flags); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(REAL(open64)(path, flags, mode), AT_FDCWD, path, flags); }
int openat(int dir, const char *path, int flags, ...) { MODE_OF(flags) return opened(REAL(openat)(dir, path, flags, mode), dir, path, flags); }
int openat64(int dir, const char *path, int flags, ...) { MODE_OF(flags) return opened(REAL(openat64)(dir, path, flags, mode), dir, path, flags); }
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }

int close(int fd) {
    if (fd >= 0 && fd < MOST_FDS && (file_of[fd] || folder_of[fd])) {
        pthread_mutex_lock(&lock);
        file_of[fd] = 0;
        free(folder_of[fd]);
        folder_of[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return REAL(close)(fd);
}

static int ours(int fd) { return fd >= 0 && fd < MOST_FDS && file_of[fd]; }

/* A write at the file's own position (offset < 0) or at an offset; what was really written is recorded. */
#define RECORDED_WRITE(call, fd, at, data) \
    pthread_mutex_lock(&lock); \
    int64_t place = (at) >= 0 ? (int64_t)(at) : (fcntl(fd, F_GETFL) & O_APPEND) ? (int64_t)lseek(fd, 0, SEEK_END) : (int64_t)lseek(fd, 0, SEEK_CUR); \
    ssize_t done = (call); \
    int saved = errno; \
    if (done > 0) { struct iovec part = {(void *)(data), (size_t)done}; record('W', file_of[fd], place, &part, 1); } \
    pthread_mutex_unlock(&lock); \
    errno = saved; \
    return done;

ssize_t write(int fd, const void *data, size_t length) {
    if (!ours(fd)) return REAL(write)(fd, data, length);
    RECORDED_WRITE(REAL(write)(fd, data, length), fd, -1, data)
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    if (!ours(fd)) return REAL(pwrite)(fd, data, length, at);
    RECORDED_WRITE(REAL(pwrite)(fd, data, length, at), fd, at, data)
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    if (!ours(fd)) return REAL(pwrite64)(fd, data, length, at);
    RECORDED_WRITE(REAL(pwrite64)(fd, data, length, at), fd, at, data)
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!ours(fd)) return REAL(writev)(fd, parts, count);
    ssize_t all = 0;
    for (int part = 0; part < count; part++) {
        ssize_t done = write(fd, parts[part].iov_base, parts[part].iov_len);
        if (done < 0) return all ? all : done;
        all += done;
        if ((size_t)done < parts[part].iov_len) break;
    }
    return all;
}

#define RECORDED_TRUNCATE(name, type) \
    int name(int fd, type size) { \
        if (!ours(fd)) return REAL(name)(fd, size); \
        pthread_mutex_lock(&lock); \
        int done = REAL(name)(fd, size); \
        int saved = errno; \
        if (!done) record('T', file_of[fd], (int64_t)size, NULL, 0); \
        pthread_mutex_unlock(&lock); \
        errno = saved; \
        return done; \
    }
RECORDED_TRUNCATE(ftruncate, off_t)
RECORDED_TRUNCATE(ftruncate64, off64_t)

/* Not under the lock while it runs: others go on writing, and those writes are not covered. */
#define RECORDED_SYNC(name) \
    int name(int fd) { \
        if (fd < 0 || fd >= MOST_FDS || (!file_of[fd] && !folder_of[fd])) return REAL(name)(fd); \
        pthread_mutex_lock(&lock); \
        int64_t reached = (int64_t)sequence; \
        pthread_mutex_unlock(&lock); \
        int done = REAL(name)(fd); \
        int saved = errno; \
        if (!done) { \
            pthread_mutex_lock(&lock); \
            if (folder_of[fd]) record_text('D', 0, reached, folder_of[fd]); \
            else if (file_of[fd]) record('S', file_of[fd], reached, NULL, 0); \
            pthread_mutex_unlock(&lock); \
        } \
        errno = saved; \
        return done; \
    }
RECORDED_SYNC(fsync)
RECORDED_SYNC(fdatasync)

static void renamed(int from_dir, const char *from, int to_dir, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    if (!absolute(from_dir, from, old) || !absolute(to_dir, to, new) || !(in_folder(old) || in_folder(new))) return;
    struct iovec parts[3] = {{old, strlen(old)}, {"", 1}, {new, strlen(new)}};
    record('R', 0, 0, parts, 3);
}
int rename(const char *from, const char *to) {
    pthread_mutex_lock(&lock);
    int done = REAL(rename)(from, to);
    int saved = errno;
    if (!done) renamed(AT_FDCWD, from, AT_FDCWD, to);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    pthread_mutex_lock(&lock);
    int done = REAL(renameat)(from_dir, from, to_dir, to);
    int saved = errno;
    if (!done) renamed(from_dir, from, to_dir, to);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}
int unlink(const char *path) {
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    int done = REAL(unlink)(path);
    int saved = errno;
    if (!done && absolute(AT_FDCWD, path, full) && in_folder(full)) record_text('U', 0, 0, full);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}
int unlinkat(int dir, const char *path, int flags) {
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    int done = REAL(unlinkat)(dir, path, flags);
    int saved = errno;
    if (!done && !(flags & AT_REMOVEDIR) && absolute(dir, path, full) && in_folder(full)) record_text('U', 0, 0, full);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}
