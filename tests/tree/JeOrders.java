import com.sleepycat.je.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;

/**
 * Databases in orders of keys that only these classes know, beside orders_beside_je.py.
 *
 * <p>{@code make DIR ORDER STATE SEED} writes an environment with the databases "odd" and "plain", and the records of
 * "odd" into DIR.model. {@code judge DIR MODEL ...} opens each environment and prints DIR, a tab and "good" or what is
 * wrong.
 */
public class JeOrders {
    static long number(byte[] key) {
        long value = 0;
        for (byte digit : key) {
            value = digit >= '0' && digit <= '9' ? value * 10 + digit - '0' : value;
        }
        return key.length > 0 && key[0] == '-' ? -value : value;
    }

    static String text(byte[] key) {
        return new String(key, StandardCharsets.ISO_8859_1);
    }

    static byte[] backwards(byte[] key) {
        byte[] found = new byte[key.length];
        for (int i = 0; i < key.length; i++) {
            found[i] = key[key.length - 1 - i];
        }
        return found;
    }

    static int either(int first, byte[] a, byte[] b) {
        return first != 0 ? first : Arrays.compareUnsigned(a, b);
    }

    public static class Decimal implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return either(Long.compare(number(a), number(b)), a, b);
        }
    }

    public static class Signed implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return Arrays.compare(a, b);
        }
    }

    public static class FromLast implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return Arrays.compareUnsigned(backwards(a), backwards(b));
        }
    }

    public static class IgnoreCase implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return text(a).compareToIgnoreCase(text(b));
        }
    }

    public static class Descending implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return Arrays.compareUnsigned(b, a);
        }
    }

    public static class ShortestFirst implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return either(Integer.compare(a.length, b.length), a, b);
        }
    }

    public static class LongestFirst implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return either(Integer.compare(b.length, a.length), a, b);
        }
    }

    public static class LittleEndian extends FromLast {}

    public static class Absolute implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return either(Long.compare(Math.abs(number(a)), Math.abs(number(b))), a, b);
        }
    }

    public static class SecondField implements Comparator<byte[]> {
        static String field(byte[] key) {
            return text(key).substring(text(key).indexOf(':') + 1);
        }

        public int compare(byte[] a, byte[] b) {
            return either(field(a).compareTo(field(b)), a, b);
        }
    }

    public static class Hashed implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            return either(Integer.compare(Arrays.hashCode(a) * 0x9E3779B1, Arrays.hashCode(b) * 0x9E3779B1), a, b);
        }
    }

    public static class EvenFirst implements Comparator<byte[]> {
        public int compare(byte[] a, byte[] b) {
            int parity = Long.compare(Math.abs(number(a) % 2), Math.abs(number(b) % 2));
            return either(parity != 0 ? parity : Long.compare(number(a), number(b)), a, b);
        }
    }

    static byte[] key(String order, Random random) {
        if (order.equals("Signed") || order.equals("LittleEndian") || order.equals("Hashed")) {
            byte[] key = new byte[4];
            random.nextBytes(key);
            return key;
        }
        if (order.equals("IgnoreCase")) {
            String word = "k" + Integer.toString(random.nextInt(100000), 36);
            return (random.nextBoolean() ? word.toUpperCase(Locale.ROOT) : word).getBytes();
        }
        if (order.equals("Absolute")) {
            return ("" + (random.nextInt(20000) - 10000)).getBytes();
        }
        if (order.equals("SecondField")) {
            return ("u" + random.nextInt(50) + ":" + random.nextInt(100000)).getBytes();
        }
        return ("" + random.nextInt(100000)).getBytes();
    }

    static void write(Environment env, Database odd, Database plain, TreeMap<byte[], byte[]> model, String order,
            Random random, int changes, boolean keysChange) {
        List<byte[]> keys = new ArrayList<>(model.keySet());
        for (int i = 0; i < changes; i++) {
            Transaction txn = env.beginTransaction(null,
                    new TransactionConfig().setDurability(Durability.COMMIT_WRITE_NO_SYNC));
            boolean old = !keysChange || (!keys.isEmpty() && random.nextInt(4) == 0);
            byte[] key = old ? keys.get(random.nextInt(keys.size())) : key(order, random);
            byte[] value = ("value " + i + " " + random.nextInt(1000000) + ".".repeat(1000)).getBytes();
            model.remove(key);
            if (keysChange && random.nextInt(10) == 0) {
                odd.delete(txn, new DatabaseEntry(key));
            } else {
                odd.put(txn, new DatabaseEntry(key), new DatabaseEntry(value));
                model.put(key, value);
                keys.add(key);
            }
            plain.put(txn, new DatabaseEntry(("p" + i).getBytes()), new DatabaseEntry(value));
            txn.commit();
        }
    }

    @SuppressWarnings("unchecked")
    static void make(String dir, String order, String state, long seed) throws Exception {
        new File(dir).mkdirs();
        Random random = new Random(seed);
        EnvironmentConfig config = new EnvironmentConfig().setAllowCreate(true).setTransactional(true);
        for (String daemon : new String[] {"Checkpointer", "Cleaner", "INCompressor"}) {
            config.setConfigParam("je.env.run" + daemon, "false");
        }
        // Several files, so that there is something to clean.
        config.setConfigParam("je.log.fileMax", "1000000");
        Environment env = new Environment(new File(dir), config);
        DatabaseConfig database = new DatabaseConfig().setAllowCreate(true).setTransactional(true);
        database.setNodeMaxEntries(16);
        Database plain = env.openDatabase(null, "plain", database);
        var comparator = (Class<? extends Comparator<byte[]>>) Class.forName("JeOrders$" + order);
        Database odd = env.openDatabase(null, "odd", database.setBtreeComparator(comparator));
        TreeMap<byte[], byte[]> model = new TreeMap<>(comparator.getDeclaredConstructor().newInstance());
        write(env, odd, plain, model, order, random, 1500, true);
        env.checkpoint(new CheckpointConfig().setForce(true));
        if (state.equals("updated")) {
            write(env, odd, plain, model, order, random, 200, false);
        } else if (!state.equals("checkpointed")) {
            write(env, odd, plain, model, order, random, 600, true);
        }
        try (PrintWriter out = new PrintWriter(dir + ".model")) {
            model.forEach((key, value) -> out.println(HexFormat.of().formatHex(key) + " "
                    + HexFormat.of().formatHex(value)));
        }
        if (state.equals("closed")) {
            plain.close();
            odd.close();
            env.close();
        }
        Runtime.getRuntime().halt(0);
    }

    static String judged(String dir, String records) throws Exception {
        Environment env = new Environment(new File(dir), new EnvironmentConfig().setTransactional(true)
                .setConfigParam("je.env.runCleaner", "false"));
        Database odd = env.openDatabase(null, "odd", new DatabaseConfig().setTransactional(true));
        Comparator<byte[]> order = odd.getConfig().getBtreeComparator();
        TreeMap<byte[], String> model = new TreeMap<>(order);
        for (String line : Files.readAllLines(Path.of(records))) {
            model.put(HexFormat.of().parseHex(line.split(" ")[0]), line.split(" ")[1]);
        }
        int seen = 0, wrong = 0, missing = 0;
        byte[] before = null;
        DatabaseEntry key = new DatabaseEntry(), data = new DatabaseEntry();
        try (Cursor cursor = odd.openCursor(null, null)) {
            while (cursor.getNext(key, data, null) == OperationStatus.SUCCESS) {
                seen++;
                boolean ordered = before == null || order.compare(before, key.getData()) < 0;
                before = key.getData();
                wrong += ordered && HexFormat.of().formatHex(data.getData()).equals(model.get(before)) ? 0 : 1;
            }
        }
        for (byte[] one : model.keySet()) {
            missing += odd.get(null, new DatabaseEntry(one), data, null) == OperationStatus.SUCCESS ? 0 : 1;
        }
        PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream());
        boolean sound = env.verify(new VerifyConfig().setShowProgressStream(nowhere), nowhere);
        odd.close();
        env.close();
        return seen == model.size() && wrong == 0 && missing == 0 && sound ? "good"
                : seen + " of " + model.size() + " records, " + wrong + " wrong, " + missing + " missing, sound: " + sound;
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("make")) {
            make(words[1], words[2], words[3], Long.parseLong(words[4]));
        }
        for (int i = 1; i + 1 < words.length; i += 2) {
            String said;
            try {
                said = judged(words[i], words[i + 1]);
            } catch (Throwable error) {
                said = String.valueOf(error).lines().findFirst().orElse("");
            }
            System.out.println(words[i] + "\t" + said);
        }
        Runtime.getRuntime().halt(0);
    }
}
