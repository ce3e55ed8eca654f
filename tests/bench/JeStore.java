import com.sleepycat.je.*;
import java.io.File;
import java.util.Arrays;
import java.util.Random;

/** The lines of store.py on JE: java -cp JE JeStore.java LINE DIRECTORY RECORDS; prints the same JSON. */
public class JeStore {
    static final byte[] VALUE = new byte[100];

    static byte[] key(int number) {
        byte[] key = new byte[16];
        Arrays.fill(key, (byte) '0');
        for (int at = 15; number > 0; at--, number /= 10) key[at] = (byte) ('0' + number % 10);
        return key;
    }

    static int[] order(int records, boolean random) {
        int[] made = new int[records];
        for (int i = 0; i < records; i++) made[i] = i;
        Random source = new Random(1);
        for (int i = records - 1; random && i > 0; i--) {
            int other = source.nextInt(i + 1), kept = made[i];
            made[i] = made[other];
            made[other] = kept;
        }
        return made;
    }

    static long started, cpuStarted;

    static void begin() {
        started = System.nanoTime();
        cpuStarted = cpu();
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static void end(int records) {
        System.out.printf("{\"wall_s\": %f, \"cpu_s\": %f, \"records\": %d, \"peak_bytes\": 0}%n",
            (System.nanoTime() - started) / 1e9, (cpu() - cpuStarted) / 1e9, records);
    }

    public static void main(String[] words) throws Exception {
        String line = words[0];
        int records = Integer.parseInt(words[2]);
        boolean puts = line.startsWith("put") || line.equals("crash") || line.equals("checkpoint");
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(puts);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        config.setCacheSize(1L << 30);
        config.setConfigParam(EnvironmentConfig.ENV_RUN_CLEANER, "false");
        boolean still = line.equals("crash") || line.equals("recover") || line.equals("checkpoint");
        if (still) config.setConfigParam(EnvironmentConfig.ENV_RUN_CHECKPOINTER, "false");
        DatabaseConfig made = new DatabaseConfig();
        made.setAllowCreate(puts);
        made.setTransactional(true);
        if (line.equals("recover")) begin();
        Environment env = new Environment(new File(words[1]), config);
        Database db = env.openDatabase(null, "bench", made);
        if (line.equals("crash")) env.checkpoint(new CheckpointConfig().setForce(true));
        int[] order = order(records, !line.equals("put sequential"));
        DatabaseEntry value = new DatabaseEntry(VALUE), found = new DatabaseEntry();
        if (line.equals("recover")) {
            if (db.get(null, new DatabaseEntry(key(order[0])), found, null) != OperationStatus.SUCCESS) throw new Exception();
            end(records);
        } else if (puts) {
            boolean bulk = line.equals("put bulk") || line.equals("checkpoint");
            begin();
            Transaction txn = bulk ? env.beginTransaction(null, null) : null;
            for (int number : order) {
                if (!bulk) txn = env.beginTransaction(null, null);
                db.put(txn, new DatabaseEntry(key(number)), value);
                if (!bulk) txn.commit();
            }
            if (bulk) txn.commit();
            if (line.equals("checkpoint")) {
                begin();
                env.checkpoint(new CheckpointConfig().setForce(true));
            }
            end(records);
        } else if (line.equals("get")) {
            int gets = Math.min(records, 200000);
            begin();
            for (int i = 0; i < gets; i++)
                if (db.get(null, new DatabaseEntry(key(order[i])), found, null) != OperationStatus.SUCCESS) throw new Exception();
            end(gets);
        } else {
            int seen = 0;
            DatabaseEntry at = new DatabaseEntry();
            begin();
            try (Cursor cursor = db.openCursor(null, null)) {
                while (cursor.getNext(at, found, LockMode.DEFAULT) == OperationStatus.SUCCESS) seen++;
            }
            if (seen != records) throw new Exception("" + seen);
            end(records);
        }
        System.out.flush();
        if (still && !line.equals("checkpoint")) {
            env.flushLog(true);
            Runtime.getRuntime().halt(0);
        }
        db.close();
        env.close();
    }
}
