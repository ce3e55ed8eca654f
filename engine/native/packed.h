/* Packed integers (engine.format.bytecursor). */
#ifndef JETOOL_PACKED_H
#define JETOOL_PACKED_H
#include "entries.h"

/* -119 to 119 are one byte; of others it says how many follow. */
#define ONE_BYTE 119
#define LONG_BYTES 8

typedef struct {
    const unsigned char *data;
    Py_ssize_t at, end;
    int is_bad; /* something was read that is not there; from then on all numbers are 0 */
} Fields;

/* The packed value at the place that was reached; twin: bytecursor.unpack. */
static inline int64_t unpack(Fields *from)
{
    if (from->is_bad || from->at >= from->end) {
        from->is_bad = 1;
        return 0;
    }
    int lead = from->data[from->at++];
    if (lead <= ONE_BYTE) {
        return lead;
    }
    if (lead >= 256 - ONE_BYTE) {
        return lead - 256;
    }
    int is_negative = lead > 127;
    int length = is_negative ? 256 - ONE_BYTE - lead : lead - ONE_BYTE;
    if (length > LONG_BYTES || length > from->end - from->at) {
        from->is_bad = 1;
        return 0;
    }
    uint64_t magnitude = 0;
    for (int byte = length - 1; byte >= 0; byte--) {
        magnitude = magnitude << 8 | from->data[from->at + byte];
    }
    from->at += length;
    magnitude += ONE_BYTE;
    /* The most extreme values wrap around in 64 bits, as the writer's arithmetic does. */
    return (int64_t)(is_negative ? 0 - magnitude : magnitude);
}

/* Write the packed form of a value that is not negative; returns its length. Twin: bytecursor.pack. */
static inline size_t pack(unsigned char *to, int64_t value)
{
    if (value <= ONE_BYTE) {
        to[0] = (unsigned char)value;
        return 1;
    }
    size_t length = 0;
    for (uint64_t magnitude = (uint64_t)value - ONE_BYTE; magnitude; magnitude >>= 8) {
        to[++length] = (unsigned char)magnitude;
    }
    to[0] = (unsigned char)(ONE_BYTE + length);
    return 1 + length;
}

#endif
