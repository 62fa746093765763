// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A libcuda.so.1 without a GPU behind it: the real names and arguments of what a tracer watches, and of what a static
 * libcudart asks for. Memory is counted and not there; what is pinned is malloc()ed.
 *
 * STUB_CUDA_TOTAL: bytes of the device (default 16 GiB). STUB_CUDA_FAIL=NAME:RESULT:TIMES[,...]: the next so many calls
 * of a function give that result; also set by stubFail().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
#define OUT_OF_MEMORY 2
#define INVALID_VALUE 1
#define PLACES 65536
#define API __attribute__((visibility("default"), noinline))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { uint64_t address; size_t bytes; } places[PLACES];
static struct { char name[64]; int result, times; } orders[16];
static size_t used, total = 16ULL << 30;
/* Above what the first one is: the lower half of an address is all that the oldest functions know. */
static uint64_t base, next_address;

API void stubFail(const char *name, int result, int times)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 16; i++) {
		if (!orders[i].name[0] || !strcmp(orders[i].name, name)) {
			snprintf(orders[i].name, sizeof(orders[i].name), "%s", name);
			orders[i].result = result;
			orders[i].times = times;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

API void stubTotal(size_t bytes)
{
	total = bytes;
}

__attribute__((constructor)) static void begin(void)
{
	const char *bytes = getenv("STUB_CUDA_TOTAL"), *fail = getenv("STUB_CUDA_FAIL");
	char name[64];
	int result, times, length;

	/* Two copies in one process give different addresses, as two drivers would. */
	base = ((uint64_t)&lock >> 12) << 32;
	next_address = base + 4096;
	if (bytes)
		total = strtoull(bytes, NULL, 0);
	while (fail && sscanf(fail, "%63[^:,]:%d:%d%n", name, &result, &times, &length) == 3) {
		stubFail(name, result, times);
		fail = fail[length] == ',' ? fail + length + 1 : NULL;
	}
}

/* What was ordered for this call; 0: that it goes as it goes. */
static int ordered(const char *name)
{
	int result = 0;

	for (int i = 0; i < 16 && orders[i].name[0]; i++) {
		if (!strcmp(orders[i].name, name) && orders[i].times) {
			orders[i].times -= orders[i].times > 0;
			result = orders[i].result;
		}
	}
	return result;
}

static CUresult take(const char *name, uint64_t *address, size_t bytes, int device)
{
	int result;

	pthread_mutex_lock(&lock);
	result = ordered(name);
	if (!result && device && used + bytes > total)
		result = OUT_OF_MEMORY;
	if (!result) {
		*address = next_address;
		next_address += (bytes + 511) / 512 * 512 + 512;
		for (size_t i = *address / 512 % PLACES, n = 0; n < PLACES; n++, i = (i + 1) % PLACES) {
			if (!places[i].address) {
				places[i].address = *address;
				places[i].bytes = device ? bytes : 0;
				break;
			}
		}
		used += device ? bytes : 0;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult give(const char *name, uint64_t address)
{
	int result;

	pthread_mutex_lock(&lock);
	result = ordered(name);
	if (!result) {
		result = INVALID_VALUE;
		for (size_t i = address / 512 % PLACES, n = 0; n < PLACES; n++, i = (i + 1) % PLACES) {
			if (places[i].address == address) {
				used -= places[i].bytes;
				places[i].address = 0;
				result = 0;
				break;
			}
		}
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult plain(const char *name)
{
	int result;

	pthread_mutex_lock(&lock);
	result = ordered(name);
	pthread_mutex_unlock(&lock);
	return result;
}

API CUresult cuInit(unsigned flags) { (void)flags; return 0; }
API CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }
API CUresult cuDeviceGetCount(int *count) { *count = 1; return 0; }
API CUresult cuDeviceGetName(char *name, int bytes, int device)
{
	(void)device;
	snprintf(name, bytes, "stub without a GPU");
	return 0;
}
API CUresult cuCtxSetCurrent(void *context) { (void)context; return 0; }

#define DEVICE_ALLOCATION(name, ...) \
	API CUresult name(CUdeviceptr *dptr, size_t bytes, ##__VA_ARGS__) \
	{ return take(#name, (uint64_t *)dptr, bytes, 1); }
DEVICE_ALLOCATION(cuMemAlloc_v2)
DEVICE_ALLOCATION(cuMemAllocAsync, void *stream)
DEVICE_ALLOCATION(cuMemAllocAsync_ptsz, void *stream)
DEVICE_ALLOCATION(cuMemAllocFromPoolAsync, void *pool, void *stream)
DEVICE_ALLOCATION(cuMemAllocFromPoolAsync_ptsz, void *pool, void *stream)
DEVICE_ALLOCATION(cuMemAllocManaged, unsigned flags)

/* Of before CUDA 3.2. */
API CUresult cuMemAlloc(unsigned *dptr, unsigned bytes)
{
	uint64_t address = 0;
	CUresult result = take("cuMemAlloc", &address, bytes, 1);

	if (!result)
		*dptr = address;
	return result;
}
API CUresult cuMemFree(unsigned dptr) { return give("cuMemFree", base | dptr); }

API CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned element)
{
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return take("cuMemAllocPitch_v2", (uint64_t *)dptr, *pitch * height, 1);
}

struct property { int type, handle_types, location_type, location_id; };
API CUresult cuMemCreate(unsigned long long *handle, size_t size, const struct property *prop, unsigned long long flags)
{
	(void)flags;
	return take("cuMemCreate", (uint64_t *)handle, size, prop->location_type == 1);
}
API CUresult cuMemRelease(unsigned long long handle) { return give("cuMemRelease", handle); }

API CUresult cuMemHostAlloc(void **pp, size_t bytes, unsigned flags)
{
	(void)flags;
	return take("cuMemHostAlloc", (uint64_t *)pp, bytes, 0);
}
API CUresult cuMemAllocHost_v2(void **pp, size_t bytes) { return take("cuMemAllocHost_v2", (uint64_t *)pp, bytes, 0); }
API CUresult cuMemFreeHost(void *p) { return give("cuMemFreeHost", (uint64_t)p); }
API CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
	(void)p, (void)bytes, (void)flags;
	return plain("cuMemHostRegister_v2");
}
API CUresult cuMemHostUnregister(void *p) { (void)p; return plain("cuMemHostUnregister"); }

API CUresult cuMemFree_v2(CUdeviceptr dptr) { return give("cuMemFree_v2", dptr); }
API CUresult cuMemFreeAsync(CUdeviceptr dptr, void *stream) { (void)stream; return give("cuMemFreeAsync", dptr); }
API CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, void *stream) { (void)stream; return give("cuMemFreeAsync_ptsz", dptr); }

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	*free_bytes = total - used;
	*total_bytes = total;
	return plain("cuMemGetInfo_v2");
}

/* One that calls another one: only the outer call is what the program asked for. */
API CUresult cuArrayCreate_v2(void **array, const void *descriptor)
{
	CUdeviceptr inner;

	(void)descriptor;
	*array = (void *)0x10;
	return cuMemAlloc_v2(&inner, 4096) | plain("cuArrayCreate_v2");
}

#define PLAIN(name) API CUresult name(void) { return plain(#name); }
PLAIN(cuCtxCreate_v2)
PLAIN(cuDevicePrimaryCtxRetain)
PLAIN(cuMemPoolCreate)
PLAIN(cuModuleLoadData)
PLAIN(cuStreamCreate)
/* Of a CUDA to come. */
PLAIN(cuMemAllocManaged_v9)
/* Says that it is called, and never returns. */
API CUresult cuCtxCreate_v4(void)
{
	puts("within");
	fflush(stdout);
	for (;;)
		pause();
}

API CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	static const char *suffixes[] = { "_ptsz", "_v2", "" };
	char name[128];

	(void)version;
	*pfn = NULL;
	for (int i = flags & 2 ? 0 : 1; i < 3 && !*pfn; i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, suffixes[i]);
		*pfn = dlsym(RTLD_DEFAULT, name);
		if (!*pfn) {
			Dl_info own;
			dladdr((void *)cuInit, &own);
			*pfn = dlsym(dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name);
		}
	}
	if (status)
		*status = *pfn ? 0 : 1;
	return *pfn ? 0 : 500;
}
