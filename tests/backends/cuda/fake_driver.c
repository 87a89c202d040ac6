// A libcuda.so.1 that does nothing and writes down what it is asked: one JSON object per call.
//
// Device memory is memory of this process, tensor maps are numbered, kernels are not run. Arguments
// are checked as the driver does: a context has to be current, addresses of maps are multiples of
// 64, events belong to somebody. TEIR_FAKE_LOG is the file, TEIR_FAKE_CAPABILITY the device's.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef void* Handle;
typedef unsigned long long Address;
enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };

typedef struct { int id; char pad[4]; union { char room[64]; struct { unsigned x, y, z; } cluster; } value; } Attribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  Handle stream;
  Attribute* attributes;
  unsigned count;
} Config;
typedef struct { char magic[8]; int number; } Map;

static int contexts, maps, functions, events, elapsed;
static FILE* log_file(void) {
  static FILE* file;
  if (!file) file = fopen(getenv("TEIR_FAKE_LOG"), "w");
  return file;
}
#define SAY(...) (fprintf(log_file(), __VA_ARGS__), fputc('\n', log_file()), fflush(log_file()))
#define IN_CONTEXT if (!contexts) return INVALID_CONTEXT

Result cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
Result cuDeviceGetCount(int* count) { *count = 2; return SUCCESS; }
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  int major = atoi(getenv("TEIR_FAKE_CAPABILITY"));
  if (device < 0 || device > 1 || (attribute != 75 && attribute != 76)) return INVALID_VALUE;
  *value = attribute == 75 ? major : 0;
  return SUCCESS;
}
Result cuGetErrorString(Result code, const char** text) {
  *text = code == INVALID_CONTEXT ? "no context" : code == INVALID_HANDLE ? "no handle" : "invalid";
  return SUCCESS;
}
// Memory at and above 2^46 is that of device 1.
Result cuPointerGetAttribute(void* value, int attribute, Address at) {
  if (attribute != 9 || !at) return INVALID_VALUE;
  *(int*)value = at >> 46 != 0;
  return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(Handle* context, int device) {
  *context = (Handle)(intptr_t)(0xC0 + device);
  SAY("{\"call\": \"retain\", \"device\": %d}", device);
  return SUCCESS;
}
Result cuCtxPushCurrent_v2(Handle context) {
  ++contexts;
  SAY("{\"call\": \"push\", \"context\": %d}", (int)(intptr_t)context);
  return SUCCESS;
}
Result cuCtxPopCurrent_v2(Handle* context) {
  IN_CONTEXT;
  --contexts;
  *context = 0;
  SAY("{\"call\": \"pop\"}");
  return SUCCESS;
}
Result cuModuleLoadData(Handle* module, const void* image) {
  IN_CONTEXT;
  if (memcmp(image, "\177ELF", 4)) return INVALID_VALUE;
  *module = (Handle)image;
  return SUCCESS;
}
static char names[64][32];
Result cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  IN_CONTEXT;
  if (!module || functions == 63) return INVALID_HANDLE;
  snprintf(names[++functions], 32, "%s", name);
  *function = (Handle)(intptr_t)functions;
  return SUCCESS;
}
Result cuFuncSetAttribute(Handle function, int attribute, int value) {
  IN_CONTEXT;
  if (attribute != 8 || value < 0 || value > 232448) return INVALID_VALUE;
  SAY("{\"call\": \"shared\", \"function\": %d, \"bytes\": %d}", (int)(intptr_t)function, value);
  return SUCCESS;
}
Result cuMemAllocAsync(Address* at, size_t size, Handle stream) {
  IN_CONTEXT;
  *at = (Address)(uintptr_t)aligned_alloc(256, (size + 255) / 256 * 256);
  SAY("{\"call\": \"allocate\", \"at\": %llu, \"bytes\": %zu, \"stream\": %llu}", *at, size,
      (Address)(uintptr_t)stream);
  return SUCCESS;
}
Result cuMemFreeAsync(Address at, Handle stream) {
  IN_CONTEXT;
  free((void*)(uintptr_t)at);
  SAY("{\"call\": \"free\", \"at\": %llu, \"stream\": %llu}", at, (Address)(uintptr_t)stream);
  return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t size, Handle stream) {
  IN_CONTEXT;
  memcpy((void*)(uintptr_t)to, from, size);
  SAY("{\"call\": \"copy in\", \"bytes\": %zu, \"stream\": %llu}", size, (Address)(uintptr_t)stream);
  return SUCCESS;
}
static void say_numbers(const char* name, const void* numbers, unsigned count, int wide) {
  fprintf(log_file(), ", \"%s\": [", name);
  for (unsigned at = 0; at < count; ++at)
    fprintf(log_file(), "%s%llu", at ? ", " : "",
            wide ? (Address)((const uint64_t*)numbers)[at] : ((const uint32_t*)numbers)[at]);
  fputc(']', log_file());
}
Result cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address,
                              const uint64_t* sizes, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* element_strides, int interleave, int swizzle,
                              int promotion, int fill) {
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > 5) return INVALID_VALUE;
  Map made = {"teirmap", ++maps};
  memset(map, 0, 128);
  memcpy(map, &made, sizeof made);
  fprintf(log_file(), "{\"call\": \"map\", \"number\": %d, \"type\": %d, \"at\": %llu", maps, type,
          (Address)(uintptr_t)address);
  say_numbers("sizes", sizes, rank, 1);
  say_numbers("strides", strides, rank - 1, 1);
  say_numbers("box", box, rank, 0);
  say_numbers("element_strides", element_strides, rank, 0);
  SAY(", \"modes\": [%d, %d, %d, %d]}", interleave, swizzle, promotion, fill);
  return SUCCESS;
}
// ``kinds``: one letter per parameter of the kernels that come, m for a map and p for a pointer.
static char kinds[64];
void fake_parameters(const char* letters) { snprintf(kinds, sizeof kinds, "%s", letters); }
Result cuLaunchKernelEx(const Config* config, Handle function, void** parameters, void** extra) {
  IN_CONTEXT;
  if (extra || (intptr_t)function < 1 || (intptr_t)function > functions) return INVALID_HANDLE;
  fprintf(log_file(), "{\"call\": \"launch\", \"function\": %d, \"name\": \"%s\", \"stream\": %llu",
          (int)(intptr_t)function, names[(intptr_t)function], (Address)(uintptr_t)config->stream);
  say_numbers("grid", config->grid, 3, 0);
  say_numbers("block", config->block, 3, 0);
  fprintf(log_file(), ", \"shared\": %u, \"cluster\": [", config->shared);
  for (unsigned at = 0; at < config->count; ++at) {
    const Attribute* one = &config->attributes[at];
    if (one->id != 4) return INVALID_VALUE;
    fprintf(log_file(), "%u, %u, %u", one->value.cluster.x, one->value.cluster.y,
            one->value.cluster.z);
  }
  fprintf(log_file(), "], \"parameters\": [");
  const char* letters = strcmp(names[(intptr_t)function], "spin") ? kinds : "p";
  for (unsigned at = 0; letters[at]; ++at) {
    fputs(at ? ", " : "", log_file());
    Map map;
    Address pointer;
    memcpy(&map, parameters[at], letters[at] == 'm' ? sizeof map : 0);
    memcpy(&pointer, parameters[at], letters[at] == 'p' ? sizeof pointer : 0);
    if (letters[at] == 'p') fprintf(log_file(), "%llu", pointer);
    else if ((uintptr_t)parameters[at] % 64 || strcmp(map.magic, "teirmap")) return INVALID_VALUE;
    else fprintf(log_file(), "\"map %d\"", map.number);
  }
  SAY("]}");
  return SUCCESS;
}
Result cuEventCreate(Handle* event, unsigned flags) {
  IN_CONTEXT;
  *event = (Handle)(intptr_t)(++events);
  SAY("{\"call\": \"event\", \"number\": %d, \"flags\": %u}", events, flags);
  return SUCCESS;
}
Result cuEventRecord(Handle event, Handle stream) {
  IN_CONTEXT;
  if ((intptr_t)event < 1 || (intptr_t)event > events) return INVALID_HANDLE;
  SAY("{\"call\": \"record\", \"event\": %d, \"stream\": %llu}", (int)(intptr_t)event,
      (Address)(uintptr_t)stream);
  return SUCCESS;
}
Result cuStreamWaitEvent(Handle stream, Handle event, unsigned flags) {
  IN_CONTEXT;
  if (flags) return INVALID_VALUE;
  SAY("{\"call\": \"wait\", \"stream\": %llu, \"event\": %d}", (Address)(uintptr_t)stream,
      (int)(intptr_t)event);
  return SUCCESS;
}
Result cuEventSynchronize(Handle event) { return event ? SUCCESS : INVALID_HANDLE; }
// Each measurement is quicker than the one before it.
Result cuEventElapsedTime(float* milliseconds, Handle begin, Handle end) {
  if (!begin || !end || begin == end) return INVALID_HANDLE;
  *milliseconds = 1000.0f - ++elapsed;
  return SUCCESS;
}
Result cuEventDestroy_v2(Handle event) {
  SAY("{\"call\": \"destroy\", \"event\": %d}", (int)(intptr_t)event);
  return SUCCESS;
}
Result cuStreamSynchronize(Handle stream) {
  IN_CONTEXT;
  SAY("{\"call\": \"synchronise\", \"stream\": %llu}", (Address)(uintptr_t)stream);
  return SUCCESS;
}
