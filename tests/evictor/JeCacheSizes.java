package com.sleepycat.je.util;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;

/**
 * Computes cache sizes by JE's DbCacheSize, for lines of its options on standard input.
 *
 * javac -cp JE -d . JeCacheSizes.java; java -cp JE:. com.sleepycat.je.util.JeCacheSizes
 */
public class JeCacheSizes {

    private static final String[] SIZES = {
        "mainNoLNsOrVLSNs", "mainWithLNsAndVLSNs", "binNoLNsOrVLSNs", "binWithLNsAndVLSNs", "uinWithTargets",
        "nBinNodes", "nUinNodes", "btreeLevels",
    };

    public static void main(final String[] args) throws Exception {
        final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            final DbCacheSize calculator = new DbCacheSize();
            calculator.parseArgs(line.trim().split(" "));
            calculator.calculateCacheSizes();
            final StringBuilder out = new StringBuilder(line).append(" |");
            for (final String name : SIZES) {
                final Field field = DbCacheSize.class.getDeclaredField(name);
                field.setAccessible(true);
                out.append(' ').append(field.get(calculator));
            }
            System.out.println(out);
            calculator.cleanup();
        }
    }
}
