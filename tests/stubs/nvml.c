// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A libnvidia-ml.so.1 that says what a file beside it says, one "key value" a line, read anew at each call:
 *
 *   init R         nvmlInit returns R                     (18: driver and library do not match)
 *   hang FUNCTION  it does not return while this stands there: init, memory
 *   crash 1        memory: SIGSEGV
 *   devices N, mig N (instances of each), total BYTES, used BYTES, reserved BYTES
 *   memory R, v2 R, processes R, uuid R                   return R instead
 *   lost N         device N is lost
 *   process PID BYTES                                     on each device; BYTES 18446744073709551615: not told
 *   accounted PID BYTES                                   accounting is on, and has kept this
 *
 * Built with -DOLD it has neither the memory call of version 2 nor that for processes of version 3.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, LOST = 15 };
#define INSTANCES_OF(index) (256 * ((index) + 1))

typedef unsigned long long u64;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_info;
typedef struct { unsigned gpu, memory; u64 peak, time, start; unsigned running, reserved[5]; } accounting;

static int find(const char *key, int number, char *value, size_t size)
{
	char path[4096], line[512];
	size_t length = strlen(key);
	Dl_info self;
	FILE *file;

	if (!dladdr((void *)find, &self))
		return 0;
	snprintf(path, sizeof(path), "%s.conf", self.dli_fname);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, length) || line[length] != ' ' || number-- > 0)
			continue;
		snprintf(value, size, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
		fclose(file);
		return 1;
	}
	fclose(file);
	return 0;
}

static u64 get(const char *key, u64 otherwise)
{
	char value[64];

	return find(key, 0, value, sizeof(value)) ? strtoull(value, NULL, 10) : otherwise;
}

static void hang(const char *function)
{
	char value[64];

	while (find("hang", 0, value, sizeof(value)) && !strcmp(value, function))
		usleep(5000);
}

/* A handle is the number of a device + 1, or that of an instance: 256 * (device + 1) + number. */
static unsigned device_of(const void *handle)
{
	size_t number = (size_t)handle;

	return number >= 256 ? number / 256 - 1 : number - 1;
}

static int lost(const void *handle)
{
	return get("lost", 9999) == device_of(handle);
}

int nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	hang("init");
	return get("init", OK);
}

int nvmlShutdown(void)
{
	return OK;
}

const char *nvmlErrorString(int result)
{
	static char text[32];

	snprintf(text, sizeof(text), "error %d", result);
	return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "595.45.04");
	return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = get("devices", 1);
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	*handle = (void *)(size_t)(index + 1);
	return lost(*handle) ? LOST : OK;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length)
{
	const char *kind = (size_t)handle >= 256 ? "MIG" : "GPU";

	snprintf(uuid, length, "%s-%08zx-0000-0000-0000-000000000000", kind, (size_t)handle);
	return get("uuid", OK);
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length)
{
	snprintf(name, length, "NVIDIA Stub%s", (size_t)handle >= 256 ? " MIG 1g.18gb" : "");
	return OK;
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_info *pci)
{
	snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0", device_of(handle) + 10);
	return OK;
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
	*minor = device_of(handle);
	return OK;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending)
{
	(void)handle;
	*current = *pending = get("mig", 0) > 0;
	return get("mig", 9999) == 9999 ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count)
{
	(void)handle;
	*count = 7;
	return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **instance)
{
	*instance = (void *)(size_t)(INSTANCES_OF(device_of(handle)) + index);
	return index < get("mig", 0) ? OK : NOT_FOUND;
}

static int memory(void *handle, u64 *total, u64 *reserved, u64 *used)
{
	hang("memory");
	if (get("crash", 0))
		*(volatile int *)8 = 1;
	*total = get("total", 80ULL << 30);
	*reserved = get("reserved", 1ULL << 29);
	*used = get("used", 1ULL << 30);
	return lost(handle) ? LOST : (int)get("memory", OK);
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *info)
{
	u64 reserved;
	int result = memory(handle, &info->total, &reserved, &info->used);

	info->used += reserved;
	info->free = info->total - info->used;
	return result;
}

static int processes(unsigned *count, process_info *found)
{
	unsigned there = 0;
	char value[64], *rest;

	while (find("process", there, value, sizeof(value))) {
		if (there < *count) {
			found[there].pid = strtoul(value, &rest, 10);
			found[there].used = strtoull(rest, NULL, 10);
		}
		there++;
	}
	if (get("processes", OK) != OK)
		return get("processes", OK);
	if (there > *count) {
		*count = there;
		return SMALL;
	}
	*count = there;
	return OK;
}

#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, process_info *found)
{
	return lost(handle) ? LOST : processes(count, found);
}
#else
int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *info)
{
	int result = memory(handle, &info->total, &info->reserved, &info->used);

	info->free = info->total - info->used - info->reserved;
	return get("v2", OK) ? (int)get("v2", OK) : result;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_info *found)
{
	return lost(handle) ? LOST : processes(count, found);
}
#endif

int nvmlDeviceGetAccountingMode(void *handle, unsigned *mode)
{
	char value[64];

	(void)handle;
	*mode = find("accounted", 0, value, sizeof(value));
	return OK;
}

int nvmlDeviceGetAccountingBufferSize(void *handle, unsigned *size)
{
	(void)handle;
	*size = 64;
	return OK;
}

int nvmlDeviceGetAccountingPids(void *handle, unsigned *count, unsigned *pids)
{
	char value[64];
	unsigned there = 0;

	(void)handle;
	for (; there < *count && find("accounted", there, value, sizeof(value)); there++)
		pids[there] = strtoul(value, NULL, 10);
	*count = there;
	return OK;
}

int nvmlDeviceGetAccountingStats(void *handle, unsigned pid, accounting *stats)
{
	char value[64], *rest;

	(void)handle;
	for (int number = 0; find("accounted", number, value, sizeof(value)); number++) {
		if (strtoul(value, &rest, 10) != pid)
			continue;
		stats->peak = strtoull(rest, NULL, 10);
		stats->start = 1700000000000000ULL;
		stats->running = 0;
		return OK;
	}
	return NOT_FOUND;
}
