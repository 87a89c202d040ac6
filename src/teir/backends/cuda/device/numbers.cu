// Numbers as they lie in memory and as they are computed with.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct alignas(8) c64 { float x, y; };
struct alignas(16) c128 { double x, y; };
struct alignas(64) TensorMap { u8 bytes[128]; };
struct alignas(16) Unit { u32 word[4]; };

#define FN static __device__ __forceinline__

FN float load_FP32(const u8* at) { return *(const float*)at; }
FN float load_TF32(const u8* at) { return *(const float*)at; }
FN double load_FP64(const u8* at) { return *(const double*)at; }
FN float load_FP16(const u8* at) { return f32_of_f16(*(const u16*)at); }
FN float load_BF16(const u8* at) { return f32_of_bits((u32)*(const u16*)at << 16); }
FN c64 load_C64(const u8* at) { return *(const c64*)at; }
FN c128 load_C128(const u8* at) { return *(const c128*)at; }

// Rounded to odd, so that a second rounding to fewer bits equals one rounding.
FN float odd_f32(double value) {
  float near = f32_toward_zero(value);
  if ((double)near == value || value != value) return near;
  return f32_of_bits(bits_of_f32(near) | 1u);
}

FN void store_FP32(u8* at, float value) { *(float*)at = value; }
FN void store_FP32(u8* at, double value) { *(float*)at = (float)value; }
FN void store_TF32(u8* at, float value) { *(float*)at = value; }
FN void store_TF32(u8* at, double value) { *(float*)at = (float)value; }
FN void store_FP64(u8* at, double value) { *(double*)at = value; }
FN void store_FP16(u8* at, float value) { *(u16*)at = f16_of_f32(value); }
FN void store_FP16(u8* at, double value) { *(u16*)at = f16_of_f32(odd_f32(value)); }
FN void store_BF16(u8* at, float value) { *(u16*)at = bf16_of_f32(value); }
FN void store_BF16(u8* at, double value) { *(u16*)at = bf16_of_f32(odd_f32(value)); }
FN void store_C64(u8* at, c64 value) { *(c64*)at = value; }
FN void store_C64(u8* at, c128 value) { *(c64*)at = c64{(float)value.x, (float)value.y}; }
FN void store_C64(u8* at, double value) { *(c64*)at = c64{(float)value, 0.0f}; }
FN void store_C128(u8* at, c128 value) { *(c128*)at = value; }
FN void store_C128(u8* at, c64 value) { *(c128*)at = c128{value.x, value.y}; }
FN void store_C128(u8* at, double value) { *(c128*)at = c128{value, 0.0}; }

FN float tf32(float value) {
  u32 bits = bits_of_f32(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return f32_of_bits((bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u);
}
FN float flushed(float value) { return value < 1.17549435e-38f && value > -1.17549435e-38f ? 0.0f : value; }

FN float add(float a, float b) { return a + b; }
FN double add(double a, double b) { return a + b; }
FN c64 add(c64 a, c64 b) { return c64{a.x + b.x, a.y + b.y}; }
FN c128 add(c128 a, c128 b) { return c128{a.x + b.x, a.y + b.y}; }
FN float sub(float a, float b) { return a - b; }
FN double sub(double a, double b) { return a - b; }
FN c64 sub(c64 a, c64 b) { return c64{a.x - b.x, a.y - b.y}; }
FN c128 sub(c128 a, c128 b) { return c128{a.x - b.x, a.y - b.y}; }
FN float mul(float a, float b) { return a * b; }
FN double mul(double a, double b) { return a * b; }
FN float madd(float a, float b, float sum) { return fmaf(a, b, sum); }
FN double madd(double a, double b, double sum) { return fma(a, b, sum); }
FN c64 madd(c64 a, c64 b, c64 sum) {
  return c64{fmaf(a.x, b.x, fmaf(-a.y, b.y, sum.x)), fmaf(a.x, b.y, fmaf(a.y, b.x, sum.y))};
}
FN c128 madd(c128 a, c128 b, c128 sum) {
  return c128{fma(a.x, b.x, fma(-a.y, b.y, sum.x)), fma(a.x, b.y, fma(a.y, b.x, sum.y))};
}
FN c64 mul(c64 a, c64 b) { return madd(a, b, c64{0.0f, 0.0f}); }
FN c128 mul(c128 a, c128 b) { return madd(a, b, c128{0.0, 0.0}); }
FN float quotient(float a, float b) { return a / b; }
FN double quotient(double a, double b) { return a / b; }

// Smith's division: no square overflows where the quotient does not.
FN c128 quotient(c128 a, c128 b) {
  double x = b.x < 0 ? -b.x : b.x, y = b.y < 0 ? -b.y : b.y;
  if (x >= y) {
    if (x == 0.0) return c128{a.x / x, a.y / x};
    double ratio = b.y / b.x, scale = 1.0 / (b.x + b.y * ratio);
    return c128{(a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale};
  }
  double ratio = b.x / b.y, scale = 1.0 / (b.x * ratio + b.y);
  return c128{(a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale};
}
FN c64 quotient(c64 a, c64 b) {
  c128 wide = quotient(c128{a.x, a.y}, c128{b.x, b.y});
  return c64{(float)wide.x, (float)wide.y};
}

template <typename T> FN T least(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
template <typename T> FN T most(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
template <typename T> FN T relu(T a) { return most(a, (T)0); }

// By value: a choice between elements of an array would give it an address, and a place in memory.
FN float either(bool first, float one, float other) { return first ? one : other; }

// Bytes that are moved as words where there are four: a copy of bytes would take them apart.
template <int size> struct alignas(size) Pack {
  union { u8 bytes[size]; u32 words[size / 4]; };
};
template <> struct alignas(2) Pack<2> { union { u8 bytes[2]; u16 half; }; };
template <> struct Pack<1> { u8 bytes[1]; };

// Where the byte at ``at`` of a tile lies under a swizzle of ``span`` bytes.
template <int span> FN u32 swizzled(u32 at) { return at ^ (at >> 7 & (span / 16 - 1)) << 4; }

#define NOWHERE ((i64)1 << 62)
template <typename T, int count> struct alignas(sizeof(T) * count) Row { T of[count]; };
