// A FUSE file system that shows one directory, read-only, and lies to direct reads: they return the bytes `shift` after the
// ones asked for.
//   bmoe_lying_fuse <directory> <mount point> <shift>
// Prints "ready" when mounted. Runs until SIGTERM, then unmounts.
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *root;
static off_t shift;

struct handle {
    int fd;
    off_t shift;
};

static struct handle *handle_of(const struct fuse_file_info *info) { return (struct handle *)(uintptr_t)info->fh; }

static int full_path(char *out, const char *path) {
    const int length = snprintf(out, PATH_MAX, "%s%s", root, path);
    return length < 0 || length >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static void *on_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    (void)config;
    puts("ready");
    fflush(stdout);
    return NULL;
}

static int on_getattr(const char *path, struct stat *info, struct fuse_file_info *file) {
    (void)file;
    char full[PATH_MAX];
    const int error = full_path(full, path);
    if (error) return error;
    return lstat(full, info) == 0 ? 0 : -errno;
}

static int on_readdir(const char *path, void *out, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
                      enum fuse_readdir_flags flags) {
    (void)offset;
    (void)file;
    (void)flags;
    char full[PATH_MAX];
    const int error = full_path(full, path);
    if (error) return error;
    DIR *dir = opendir(full);
    if (!dir) return -errno;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (fill(out, entry->d_name, NULL, 0, 0)) break;
    }
    closedir(dir);
    return 0;
}

static int on_open(const char *path, struct fuse_file_info *file) {
    if ((file->flags & O_ACCMODE) != O_RDONLY) return -EROFS;
    char full[PATH_MAX];
    const int error = full_path(full, path);
    if (error) return error;
    struct handle *handle = malloc(sizeof *handle);
    if (!handle) return -ENOMEM;
    handle->fd = open(full, O_RDONLY | O_CLOEXEC);
    if (handle->fd < 0) {
        const int code = errno;
        free(handle);
        return -code;
    }
    handle->shift = (file->flags & O_DIRECT) ? shift : 0;
    file->fh = (uintptr_t)handle;
    return 0;
}

static int on_read(const char *path, char *out, size_t size, off_t offset, struct fuse_file_info *file) {
    (void)path;
    const struct handle *handle = handle_of(file);
    const ssize_t got = pread(handle->fd, out, size, offset + handle->shift);
    return got >= 0 ? (int)got : -errno;
}

static int on_release(const char *path, struct fuse_file_info *file) {
    (void)path;
    close(handle_of(file)->fd);
    free(handle_of(file));
    return 0;
}

static const struct fuse_operations operations = {
    .init = on_init,
    .getattr = on_getattr,
    .readdir = on_readdir,
    .open = on_open,
    .read = on_read,
    .release = on_release,
};

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s <directory> <mount point> <shift>\n", argv[0]);
        return 2;
    }
    root = realpath(argv[1], NULL);
    if (!root) {
        perror(argv[1]);
        return 2;
    }
    shift = (off_t)strtoll(argv[3], NULL, 10);
    char *arguments[] = {argv[0], (char *)"-f", (char *)"-o", (char *)"ro", argv[2], NULL};
    return fuse_main(5, arguments, &operations, NULL);
}
