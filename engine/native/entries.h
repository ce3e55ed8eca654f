/* Numbers of the format from the Python modules that define them, little-endian integers, and checksums of entries. */
#ifndef JETOOL_ENTRIES_H
#define JETOOL_ENTRIES_H
#include "core.h"
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A number of the format from the Python module that is its home; 0 when that has failed. */
static inline int take_number(const char *module, const char *name, long *to)
{
    PyObject *home = PyImport_ImportModule(module);
    PyObject *number = home ? PyObject_GetAttrString(home, name) : NULL;
    *to = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    Py_XDECREF(home);
    return !PyErr_Occurred();
}

/* A number of the format and where it goes; each file has an array ``from_format`` of them. */
typedef struct {
    const char *module, *name;
    long *to;
} Number;

/* Whether the numbers of a file are there; the first call takes them. 0 with an error set if one is missing. Every
 * function that Python calls and that uses such a number begins with this. */
#define READY() (has_numbers || (has_numbers = take_numbers(from_format, sizeof from_format / sizeof *from_format)))

static inline int take_numbers(const Number *numbers, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        if (!take_number(numbers[at].module, numbers[at].name, numbers[at].to)) {
            return 0;
        }
    }
    return 1;
}

/* Note which types are in a set of engine.format.entry_types, by type number; 0 with an error set. */
static inline int take_types(const char *name, unsigned char *types)
{
    PyObject *home = PyImport_ImportModule("engine.format.entry_types");
    PyObject *set = home ? PyObject_GetAttrString(home, name) : NULL;
    for (long type = 0; set && type < 256; type++) {
        PyObject *number = PyLong_FromLong(type);
        int is_there = number ? PySequence_Contains(set, number) : -1;
        Py_XDECREF(number);
        if (is_there < 0) {
            break;
        }
        types[type] = (unsigned char)is_there;
    }
    Py_XDECREF(set);
    Py_XDECREF(home);
    return !PyErr_Occurred();
}

static inline uint32_t u32_at(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Adler-32 as zlib has it: a is 1 and all bytes, b the sum of a after each byte, both modulo 65521. */
#define ADLER_MODULO 65521u

#ifdef __SSE2__
static inline uint32_t sum_of_lanes(__m128i lanes)
{
    lanes = _mm_add_epi32(lanes, _mm_shuffle_epi32(lanes, 0x4E));
    lanes = _mm_add_epi32(lanes, _mm_shuffle_epi32(lanes, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(lanes);
}

/* Whole blocks of 16 bytes, at most 256 of them, so that nothing overflows. Byte i of a block adds 16 - i times itself
 * to b, and every earlier byte 16 times. */
static inline void add_blocks(const unsigned char *data, size_t blocks, uint32_t *a, uint32_t *b)
{
    const __m128i zero = _mm_setzero_si128();
    const __m128i low_weights = _mm_set_epi16(9, 10, 11, 12, 13, 14, 15, 16);
    const __m128i high_weights = _mm_set_epi16(1, 2, 3, 4, 5, 6, 7, 8);
    __m128i sum = zero, earlier = zero, weighted = zero;
    for (size_t block = 0; block < blocks; block++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(data + 16 * block));
        earlier = _mm_add_epi32(earlier, sum);
        sum = _mm_add_epi32(sum, _mm_sad_epu8(bytes, zero));
        weighted = _mm_add_epi32(weighted, _mm_madd_epi16(_mm_unpacklo_epi8(bytes, zero), low_weights));
        weighted = _mm_add_epi32(weighted, _mm_madd_epi16(_mm_unpackhi_epi8(bytes, zero), high_weights));
    }
    *b += (uint32_t)(16 * blocks) * *a % ADLER_MODULO;
    *b = (*b + sum_of_lanes(earlier) % ADLER_MODULO * 16 + sum_of_lanes(weighted)) % ADLER_MODULO;
    *a = (*a + sum_of_lanes(sum)) % ADLER_MODULO;
}
#else
static inline void add_blocks(const unsigned char *data, size_t blocks, uint32_t *a, uint32_t *b)
{
    for (size_t at = 0; at < 16 * blocks; at++) {
        *a += data[at];
        *b += *a;
    }
    *a %= ADLER_MODULO;
    *b %= ADLER_MODULO;
}
#endif

static inline uint32_t adler32_of(const unsigned char *data, size_t length)
{
    uint32_t a = 1, b = 0;
    while (length >= 16) {
        size_t blocks = length / 16 < 256 ? length / 16 : 256;
        add_blocks(data, blocks, &a, &b);
        data += 16 * blocks;
        length -= 16 * blocks;
    }
    while (length--) {
        a += *data++;
        b += a;
    }
    return a % ADLER_MODULO | b % ADLER_MODULO << 16;
}

#endif
