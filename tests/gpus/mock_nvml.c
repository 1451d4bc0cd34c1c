/* A stand-in for libnvidia-ml.so.1 with our own declarations of what nvidia-ml-py calls.

   It answers from the file that MOCK_NVML_STATE names, read anew at every call, so that a test can
   change the machine while it is being watched. A line each; # starts a comment line:

     gpu UUID PCI MiB NAME           NAME may hold spaces; MiB - : memory info is not supported
     mig GPU UUID GI CI MiB NAME     an instance on the GPU with that index; turns MIG mode on
     mig GPU                         MIG mode without an instance
     proc GPU PID BYTES C|G|M        GPU: an index or a UUID (of an instance too); BYTES - : unknown
     fail SYMBOL CODE [GPU]          that call fails with that NVML code; SYMBOL * : every call
     records SIZE                    bytes a process record has: 16, 24 (default) or 32
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { MAX_DEVICES = 64, MAX_PROCESSES = 256, MAX_FAILURES = 32 };
#define UNKNOWN 0xFFFFFFFFFFFFFFFFULL

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;

typedef struct {
    char uuid[96], pci[32], name[96];
    long mib;    /* -1: not supported */
    int parent;  /* index of the GPU an instance is on, -1 for a GPU */
    unsigned gi, ci;
} device_t;
typedef struct { char device[96]; unsigned pid; unsigned long long bytes; char type; } process_t;
typedef struct { char symbol[96], device[96]; int code; } failure_t;

static device_t devices[MAX_DEVICES];
static process_t processes[MAX_PROCESSES];
static failure_t failures[MAX_FAILURES];
static int n_devices, n_processes, n_failures, record_size, empty_mig;

static void read_state(void) {
    const char *path = getenv("MOCK_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512], bytes[32], mib[32];
    n_devices = n_processes = n_failures = 0;
    record_size = 24;
    empty_mig = -1;
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        device_t d = {.parent = -1};
        process_t p = {0};
        failure_t f = {0};
        if (sscanf(line, "gpu %95s %31s %31s %95[^\n]", d.uuid, d.pci, mib, d.name) == 4 ||
            sscanf(line, "mig %d %95s %u %u %31s %95[^\n]", &d.parent, d.uuid, &d.gi, &d.ci, mib,
                   d.name) == 6) {
            d.mib = mib[0] == '-' ? -1 : atol(mib);
            devices[n_devices++] = d;
        } else if (sscanf(line, "proc %95s %u %31s %c", p.device, &p.pid, bytes, &p.type) == 4) {
            p.bytes = bytes[0] == '-' ? UNKNOWN : strtoull(bytes, NULL, 10);
            processes[n_processes++] = p;
        } else if (sscanf(line, "fail %95s %d %95s", f.symbol, &f.code, f.device) >= 2) {
            failures[n_failures++] = f;
        } else if (sscanf(line, "records %d", &record_size) != 1 &&
                   sscanf(line, "mig %d", &empty_mig) != 1 && line[0] != '#' && line[0] != '\n') {
            fprintf(stderr, "mock NVML: bad state line: %s", line);
            abort();
        }
    }
    fclose(file);
}

static device_t *gpu_at(unsigned index) {
    for (int i = 0; i < n_devices; i++)
        if (devices[i].parent < 0 && index-- == 0) return &devices[i];
    return NULL;
}

/* Does the GPU column of a proc or fail line name this device? A GPU's instances fail with it. */
static int names(const char *column, const device_t *d) {
    char *end;
    if (!d) return 0;
    unsigned long index = strtoul(column, &end, 10);
    if (*end) return strcmp(column, d->uuid) == 0;
    return gpu_at(index) == d;
}

static int failure(const char *symbol, const device_t *d) {
    for (int i = 0; i < n_failures; i++) {
        const failure_t *f = &failures[i];
        if (strcmp(f->symbol, "*") && strcmp(f->symbol, symbol)) continue;
        if (!f->device[0] || names(f->device, d) ||
            (d && d->parent >= 0 && names(f->device, gpu_at(d->parent))))
            return f->code;
    }
    return SUCCESS;
}

/* A handle is a place in devices, counted from 1, as a pointer. */
static device_t *of(void *handle) {
    size_t place = (size_t)handle;
    return place >= 1 && place <= (size_t)n_devices ? &devices[place - 1] : NULL;
}

#define BEGIN(device)                                       \
    do {                                                    \
        read_state();                                       \
        int code_ = failure(__func__, (device));            \
        if (code_) return code_;                            \
    } while (0)
#define BEGIN_ON(d, handle)                                 \
    read_state();                                           \
    device_t *d = of(handle);                               \
    if (!d) return INVALID_ARGUMENT;                        \
    do {                                                    \
        int code_ = failure(__func__, d);                   \
        if (code_) return code_;                            \
    } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; BEGIN(NULL); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error the binding does not know"; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    BEGIN(NULL);
    snprintf(version, length, "535.54.03");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    BEGIN(NULL);
    for (*count = 0; gpu_at(*count); ++*count) continue;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    read_state();
    device_t *d = gpu_at(index);
    int code = failure(__func__, d);
    if (code) return code;
    if (!d) return INVALID_ARGUMENT;
    *handle = (void *)(size_t)(d - devices + 1);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    BEGIN_ON(d, handle);
    snprintf(uuid, length, "%s", d->uuid);
    return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    BEGIN_ON(d, handle);
    snprintf(name, length, "%s", d->name);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
    BEGIN_ON(d, handle);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "%s", d->pci);
    return SUCCESS;
}

static unsigned long long used(const device_t *d) {
    unsigned long long sum = 0;
    for (int i = 0; i < n_processes; i++)
        if (names(processes[i].device, d) && processes[i].bytes != UNKNOWN)
            sum += processes[i].bytes;
    return sum;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    BEGIN_ON(d, handle);
    if (d->mib < 0) return NOT_SUPPORTED;
    memory->total = (unsigned long long)d->mib << 20;
    memory->used = used(d);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *memory) {
    BEGIN_ON(d, handle);
    if (d->mib < 0) return NOT_SUPPORTED;
    memory->total = (unsigned long long)d->mib << 20;
    memory->reserved = 0;
    memory->used = used(d);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

static int running(const device_t *d, char type, unsigned *count, unsigned char *out) {
    unsigned found = 0;
    for (int i = 0; i < n_processes; i++)
        found += processes[i].type == type && names(processes[i].device, d);
    unsigned room = *count;
    *count = found;
    if (found > room) return INSUFFICIENT_SIZE;
    for (int i = 0; i < n_processes; i++) {
        const process_t *p = &processes[i];
        if (p->type != type || !names(p->device, d)) continue;
        unsigned instances[2] = {d->parent < 0 ? ~0u : d->gi, d->parent < 0 ? ~0u : d->ci};
        unsigned long long protected_memory = 0;
        memcpy(out, &p->pid, 4);
        memcpy(out + 8, &p->bytes, 8);
        if (record_size >= 24) memcpy(out + 16, instances, 8);
        if (record_size >= 32) memcpy(out + 24, &protected_memory, 8);
        out += record_size;
    }
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *out) {
    BEGIN_ON(d, handle);
    return running(d, 'C', count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, void *out) {
    BEGIN_ON(d, handle);
    return running(d, 'G', count, out);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *handle, unsigned *count, void *out) {
    BEGIN_ON(d, handle);
    return running(d, 'M', count, out);
}

static device_t *instance_at(const device_t *gpu, unsigned slot) {
    for (int i = 0; i < n_devices; i++)
        if (devices[i].parent >= 0 && gpu_at(devices[i].parent) == gpu && devices[i].gi == slot + 1)
            return &devices[i];
    return NULL;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    BEGIN_ON(d, handle);
    *current = gpu_at(empty_mig) == d;
    for (unsigned slot = 0; slot < 7; slot++) *current |= instance_at(d, slot) != NULL;
    *pending = *current;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    BEGIN_ON(d, handle);
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned slot, void **instance) {
    BEGIN_ON(d, handle);
    device_t *found = instance_at(d, slot);
    if (!found) return NOT_FOUND;
    *instance = (void *)(size_t)(found - devices + 1);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id) {
    BEGIN_ON(d, handle);
    *id = d->gi;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *id) {
    BEGIN_ON(d, handle);
    *id = d->ci;
    return SUCCESS;
}
