package com.sleepycat.je.util;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;

/**
 * Computes cache sizes by JE's DbCacheSize, for lines of its options on standard input.
 *
 * javac -cp JE -d . JeCacheSizes.java; java -cp JE:. com.sleepycat.je.util.JeCacheSizes
 *
 * Lines with -orderedinsertion need a process of their own: any line without it switches compact LSNs off for good.
 */
public class JeCacheSizes {

    private static final String[] SIZES = {
        "mainNoLNsOrVLSNs", "mainWithLNsAndVLSNs", "binNoLNsOrVLSNs", "binWithLNsAndVLSNs", "uinWithTargets",
        "nBinNodes", "nUinNodes", "btreeLevels",
    };
    /** With -offheap, which JE 18.3 has. */
    private static final String[] OFF_HEAP = {
        "mainMinDataSize", "offHeapNoLNsOrVLSNs", "offHeapWithLNsAndVLSNs", "binOffHeapNoLNIds", "binOffHeapWithLNIds",
        "binOffHeapLNs", "binOffHeapLNIds", "uinOffHeapBINIds", "envOverhead",
    };

    public static void main(final String[] args) throws Exception {
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            final DbCacheSize calculator = new DbCacheSize();
            calculator.parseArgs(line.trim().split(" "));
            calculator.calculateCacheSizes();
            final StringBuilder out = new StringBuilder(line).append(" |");
            append(out, calculator, SIZES);
            if (line.contains("-offheap")) {
                append(out.append(" |"), calculator, OFF_HEAP);
            }
            System.out.println(out);
            calculator.cleanup();
        }
    }

    private static void append(final StringBuilder out, final DbCacheSize from, final String[] names)
        throws ReflectiveOperationException {

        for (final String name : names) {
            final Field field = DbCacheSize.class.getDeclaredField(name);
            field.setAccessible(true);
            out.append(' ').append(field.get(from));
        }
    }
}
