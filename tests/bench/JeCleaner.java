import com.sleepycat.je.*;
import com.sleepycat.je.dbi.TTL;
import com.sleepycat.je.utilint.TestHook;
import java.io.File;
import java.lang.reflect.Proxy;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/** The workloads of cleaner.py on JE: java -cp JE JeCleaner.java DIRECTORY WORKLOAD SIZE FILE_MAX CLEAN; prints JSON. */
public class JeCleaner {
    static final int KEYS = 10_000;
    static long passed;

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static long bytes(File home) {
        long found = 0;
        for (File file : home.listFiles()) if (file.getName().endsWith(".jdb")) found += file.length();
        return found;
    }

    /** JE's clock, for what expires. */
    @SuppressWarnings("unchecked")
    static TestHook<Long> clock() {
        return (TestHook<Long>) Proxy.newProxyInstance(
            JeCleaner.class.getClassLoader(), new Class<?>[] {TestHook.class},
            (proxy, method, given) -> method.getName().equals("getHookValue") ? 1_700_000_000_000L + passed : null);
    }

    public static void main(String[] words) throws Exception {
        File home = new File(words[0]);
        String workload = words[1];
        int size = Integer.parseInt(words[2]);
        boolean clean = Boolean.parseBoolean(words[4]);
        if (workload.equals("expiry")) TTL.setTimeTestHook(clock());
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        config.setCacheSize(64L << 20);
        config.setConfigParam(EnvironmentConfig.LOG_FILE_MAX, words[3]);
        config.setConfigParam(EnvironmentConfig.ENV_RUN_CLEANER, words[4]);
        DatabaseConfig made = new DatabaseConfig();
        made.setAllowCreate(true);
        made.setTransactional(true);
        Environment env = new Environment(home, config);
        Database db = env.openDatabase(null, "bench0", made);
        long started = System.nanoTime(), cpuStarted = cpu(), most = 0;
        Random random = new Random(1);
        byte[] value = new byte[100];
        WriteOptions options = new WriteOptions();
        if (workload.equals("expiry")) options.setTTL(6, TimeUnit.HOURS);
        for (int done = 0; done < size; done += 100) {
            if (workload.equals("removals") && done > 0 && done % KEYS == 0) {
                int number = done / KEYS;
                db.close();
                db = env.openDatabase(null, "bench" + number, made);
                if (number > 1) env.removeDatabase(null, "bench" + (number - 2));
            }
            passed = done * 216_000_000L / size;
            Transaction txn = env.beginTransaction(null, null);
            for (int number = done; number < done + 100; number++) {
                int key = workload.equals("updates") ? random.nextInt(KEYS) : number;
                random.nextBytes(value);
                DatabaseEntry at = new DatabaseEntry(String.format("%016d", key).getBytes());
                db.put(txn, at, new DatabaseEntry(value), Put.OVERWRITE, options);
                if (workload.equals("turnover") && number >= KEYS)
                    db.delete(txn, new DatabaseEntry(String.format("%016d", number - KEYS).getBytes()));
            }
            txn.commit();
            if (done % 10000 == 0) most = Math.max(most, bytes(home));
        }
        double wall = (System.nanoTime() - started) / 1e9;
        while (clean && env.cleanLog() > 0) { }
        env.checkpoint(new CheckpointConfig().setForce(true));
        EnvironmentStats stats = env.getStats(null);
        db.close();
        env.close();
        System.out.printf("{\"bytes\": %d, \"most_bytes\": %d, \"wall_s\": %f, \"cpu_s\": %f, \"files_cleaned\": %d,"
            + " \"deleted_bytes\": %d}%n", bytes(home), most, wall, (cpu() - cpuStarted) / 1e9,
            stats.getNCleanerRuns(), stats.getNCleanerDeletions() * Long.parseLong(words[3]));
    }
}
