// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Calls a libcuda as a static libcudart does: dlopen(), one dlsym() of cuGetProcAddress_v2, all else through pointers
 * that this gives. Does what it reads, line by line, and answers each with one line:
 *
 *   load PATH                   map the library
 *   call NAME ARGUMENT...       NAME as cuGetProcAddress knows it; prints its result. An argument is a number, &N (the
 *                               address of place N), *N (what is in it), @TYPE (a CUmemAllocationProp of that location)
 *   exact NAME ARGUMENT...      the same by dlsym()
 *   hook NAME                   writes a jump over that function, to one that returns 42, as UCX's hooks ("bistro") do
 *   leap                        enters cuCtxCreate_v4, which never returns, and leaves it by siglongjmp()
 *   threads COUNT EACH BYTES    so many at once allocate and free so often
 *   repeat TIMES                cuMemAlloc of 4096 and cuMemFree; prints ns a pair
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef int (*get_address)(const char *, void **, int, uint64_t, int *);

static struct property { int type, handle_types, location_type, location_id; char rest[64]; } property;
static uint64_t places[64];
static get_address address_of;
static function allocate, release;
static unsigned long each, size;

static sigjmp_buf before;

static void leap(int number)
{
	siglongjmp(before, number);
}

__attribute__((noinline)) static void *work(void *unused)
{
	for (unsigned long i = 0; i < each; i++) {
		uint64_t address;

		if (!allocate((uint64_t)&address, size, 0, 0, 0))
			release(address, 0, 0, 0, 0);
	}
	return unused;
}

static uint64_t argument(const char *word)
{
	switch (*word) {
	case '&': return (uint64_t)&places[atoi(word + 1) % 64];
	case '*': return places[atoi(word + 1) % 64];
	case '@': property.location_type = atoi(word + 1); return (uint64_t)&property;
	default: return strtoull(word, NULL, 0);
	}
}

static function by_name(const char *name)
{
	void *found = NULL;

	address_of(name, &found, 13000, 0, NULL);
	return (function)found;
}

static int hooked(void)
{
	return 42;
}

static int hook(unsigned char *code)
{
#if defined(__x86_64__)
	/* movabs $hooked, %r11; jmp *%r11 */
	unsigned char jump[] = { 0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3 };
	int at = 2;
#else
	/* ldr x16, .+8; br x16 */
	unsigned char jump[] = { 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6, 0, 0, 0, 0, 0, 0, 0, 0 };
	int at = 8;
#endif
	void *page = (void *)((uintptr_t)code & ~4095UL);
	void *to = (void *)hooked;

	memcpy(jump + at, &to, 8);
	if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 1;
	memcpy(code, jump, sizeof(jump));
	__builtin___clear_cache((char *)code, (char *)code + sizeof(jump));
	return mprotect(page, 8192, PROT_READ | PROT_EXEC);
}

int main(void)
{
	char line[4096], *rest, *verb, *words[7];
	void *volatile library = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		int count = 0;

		verb = strtok_r(line, " \n", &rest);
		while (verb && count < 7 && (words[count] = strtok_r(NULL, " \n", &rest)))
			count++;
		if (!verb)
			continue;
		if (!strcmp(verb, "load")) {
			library = dlopen(words[0], RTLD_NOW | RTLD_LOCAL);
			address_of = library ? (get_address)dlsym(library, "cuGetProcAddress_v2") : NULL;
			if (address_of) {
				allocate = by_name("cuMemAlloc");
				release = by_name("cuMemFree");
			}
			puts(address_of ? "loaded" : dlerror());
		} else if (!strcmp(verb, "call") || !strcmp(verb, "exact")) {
			function called = *verb == 'c' ? by_name(words[0]) : (function)dlsym(library, words[0]);
			uint64_t given[5] = { 0 };

			for (int i = 1; i < count && i < 6; i++)
				given[i - 1] = argument(words[i]);
			if (called)
				printf("%d\n", called(given[0], given[1], given[2], given[3], given[4]));
			else
				puts("unknown");
		} else if (!strcmp(verb, "hook")) {
			puts(hook(dlsym(library, words[0])) ? "refused" : "hooked");
		} else if (!strcmp(verb, "leap")) {
			signal(SIGALRM, leap);
			if (!sigsetjmp(before, 1)) {
				ualarm(1000, 0);
				by_name("cuCtxCreate_v4")(0, 0, 0, 0, 0);
			}
			puts("back");
		} else if (!strcmp(verb, "threads")) {
			pthread_t threads[64];
			int at_once = atoi(words[0]) % 64;

			each = strtoul(words[1], NULL, 0);
			size = strtoul(words[2], NULL, 0);
			for (int i = 0; i < at_once; i++)
				pthread_create(&threads[i], NULL, work, NULL);
			for (int i = 0; i < at_once; i++)
				pthread_join(threads[i], NULL);
			puts("done");
		} else if (!strcmp(verb, "repeat")) {
			struct timespec began, ended;

			each = strtoul(words[0], NULL, 0);
			size = 4096;
			clock_gettime(CLOCK_MONOTONIC, &began);
			work(NULL);
			clock_gettime(CLOCK_MONOTONIC, &ended);
			printf("%.0f\n", ((ended.tv_sec - began.tv_sec) * 1e9 + (ended.tv_nsec - began.tv_nsec)) / each);
		} else {
			puts("what?");
		}
	}
	return 0;
}
