/* The floor L1: run a command COUNT times, PARALLEL at a time, and after each end replace a 2 KB
 * state file durably: temporary file, fsync, rename, fsync of the directory.
 *
 *   floor run COUNT PARALLEL DIRECTORY COMMAND [ARGUMENT...]
 *   floor resume DIRECTORY COMMAND [ARGUMENT...]    read DIRECTORY/state.json, run COMMAND once
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATE_BYTES = 2048 };

extern char **environ;

static void start(char **command)
{
	pid_t pid;
	if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) != 0)
		errx(2, "cannot start %s", command[0]);
}

static void replace(int directory, int done)
{
	char text[STATE_BYTES];
	memset(text, ' ', sizeof text);
	int used = snprintf(text, sizeof text, "{\"done\": %d}", done);
	text[used] = '\n';
	int fd = openat(directory, "state.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, sizeof text) != (ssize_t)sizeof text || fsync(fd) != 0)
		err(2, "state.tmp");
	close(fd);
	if (renameat(directory, "state.tmp", directory, "state.json") != 0 || fsync(directory) != 0)
		err(2, "state.json");
}

static void read_state(const char *directory)
{
	char path[4096];
	struct stat info;
	snprintf(path, sizeof path, "%s/state.json", directory);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &info) != 0)
		err(2, "%s", path);
	char *text = malloc((size_t)info.st_size);
	if (text == NULL || read(fd, text, (size_t)info.st_size) != info.st_size)
		err(2, "%s", path);
	free(text);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc >= 4 && strcmp(argv[1], "resume") == 0) {
		read_state(argv[2]);
		start(argv + 3);
		wait(NULL);
		return 0;
	}
	if (argc < 6)
		errx(2, "too few arguments");
	int count = atoi(argv[2]), parallel = atoi(argv[3]), started = 0, done = 0;
	int directory = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		err(2, "%s", argv[4]);
	while (done < count) {
		while (started < count && started - done < parallel) {
			start(argv + 5);
			started++;
		}
		if (wait(NULL) < 0)
			err(2, "wait");
		replace(directory, ++done);
	}
	return 0;
}
