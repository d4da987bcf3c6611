// A read-only view of a directory that behaves as a network volume does: every call takes a while, every open file has a
// speed limit of its own, and several go in parallel.
//
//   cc -O2 slow_volume.c -o slow_volume $(pkg-config --cflags --libs fuse3)
//   slow_volume DIRECTORY MILLISECONDS MEGABYTES_PER_SECOND -f -o ro,max_threads=64 MOUNT_POINT
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static int base;
static long long call_ns, limit; // nanoseconds a call, bytes a second for each handle

struct handle {
    int file;
    long long free_at; // when what was asked for before has been sent
    pthread_mutex_t turn;
};

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(long long when) {
    struct timespec t = {when / 1000000000LL, when % 1000000000LL};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

// paths of FUSE begin with a slash; relative to the directory they must not
static const char *inside(const char *path) { return path[1] ? path + 1 : "."; }

static int get_attributes(const char *path, struct stat *found, struct fuse_file_info *info) {
    (void)info;
    sleep_until(now_ns() + call_ns);
    return fstatat(base, inside(path), found, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int read_link(const char *path, char *target, size_t size) {
    sleep_until(now_ns() + call_ns);
    ssize_t length = readlinkat(base, inside(path), target, size - 1);
    if (length < 0) return -errno;
    target[length] = 0;
    return 0;
}

static int read_directory(const char *path, void *buffer, fuse_fill_dir_t add, off_t offset,
                          struct fuse_file_info *info, enum fuse_readdir_flags flags) {
    (void)offset, (void)info, (void)flags;
    sleep_until(now_ns() + call_ns);
    int folder = openat(base, inside(path), O_RDONLY | O_DIRECTORY);
    DIR *listing = folder < 0 ? NULL : fdopendir(folder);
    if (!listing) return -errno;
    for (struct dirent *entry; (entry = readdir(listing));) add(buffer, entry->d_name, NULL, 0, 0);
    closedir(listing);
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *info) {
    sleep_until(now_ns() + call_ns);
    int file = openat(base, inside(path), O_RDONLY);
    if (file < 0) return -errno;
    struct handle *handle = calloc(1, sizeof *handle);
    handle->file = file;
    pthread_mutex_init(&handle->turn, NULL);
    info->fh = (uint64_t)(uintptr_t)handle;
    return 0;
}

static int read_file(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *info) {
    (void)path;
    struct handle *handle = (struct handle *)(uintptr_t)info->fh;
    ssize_t count = pread(handle->file, buffer, size, offset);
    if (count < 0) return -errno;
    pthread_mutex_lock(&handle->turn);
    long long begin = now_ns() > handle->free_at ? now_ns() : handle->free_at;
    long long sent = handle->free_at = begin + (limit ? count * 1000000000LL / limit : 0);
    pthread_mutex_unlock(&handle->turn);
    sleep_until(sent + call_ns);
    return (int)count;
}

static int close_file(const char *path, struct fuse_file_info *info) {
    (void)path;
    struct handle *handle = (struct handle *)(uintptr_t)info->fh;
    close(handle->file);
    pthread_mutex_destroy(&handle->turn);
    free(handle);
    return 0;
}

static int space(const char *path, struct statvfs *found) {
    (void)path;
    return fstatvfs(base, found) ? -errno : 0;
}

static const struct fuse_operations operations = {
    .getattr = get_attributes,
    .readlink = read_link,
    .readdir = read_directory,
    .open = open_file,
    .read = read_file,
    .release = close_file,
    .statfs = space,
};

int main(int count, char **words) {
    if (count < 5) {
        fprintf(stderr, "usage: %s DIRECTORY MILLISECONDS MEGABYTES_PER_SECOND FUSE_OPTIONS… MOUNT_POINT\n", words[0]);
        return 2;
    }
    base = open(words[1], O_RDONLY | O_DIRECTORY);
    if (base < 0) {
        perror(words[1]);
        return 1;
    }
    call_ns = (long long)(atof(words[2]) * 1e6);
    limit = (long long)(atof(words[3]) * 1e6);
    words[3] = words[0];
    return fuse_main(count - 3, words + 3, &operations, NULL);
}
