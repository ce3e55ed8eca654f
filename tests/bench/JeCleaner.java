import com.sleepycat.je.*;
import java.io.File;
import java.util.Random;

/** The workload of cleaner.py on JE: java -cp JE JeCleaner.java DIRECTORY KEYS UPDATES FILE_MAX; prints the same JSON. */
public class JeCleaner {
    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static long bytes(File home) {
        long found = 0;
        for (File file : home.listFiles()) if (file.getName().endsWith(".jdb")) found += file.length();
        return found;
    }

    public static void main(String[] words) throws Exception {
        File home = new File(words[0]);
        int keys = Integer.parseInt(words[1]), updates = Integer.parseInt(words[2]);
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        config.setCacheSize(64L << 20);
        config.setConfigParam(EnvironmentConfig.LOG_FILE_MAX, words[3]);
        DatabaseConfig made = new DatabaseConfig();
        made.setAllowCreate(true);
        made.setTransactional(true);
        Environment env = new Environment(home, config);
        Database db = env.openDatabase(null, "bench", made);
        long started = System.nanoTime(), cpuStarted = cpu(), most = 0;
        Random random = new Random(1);
        byte[] value = new byte[100];
        for (int done = 0; done < updates; done += 100) {
            Transaction txn = env.beginTransaction(null, null);
            for (int at = 0; at < 100; at++) {
                byte[] key = String.format("%016d", random.nextInt(keys)).getBytes();
                random.nextBytes(value);
                db.put(txn, new DatabaseEntry(key), new DatabaseEntry(value));
            }
            txn.commit();
            if (done % 10000 == 0) most = Math.max(most, bytes(home));
        }
        double wall = (System.nanoTime() - started) / 1e9;
        while (env.cleanLog() > 0) { }
        env.checkpoint(new CheckpointConfig().setForce(true));
        EnvironmentStats stats = env.getStats(null);
        db.close();
        env.close();
        System.out.printf("{\"bytes\": %d, \"most_bytes\": %d, \"wall_s\": %f, \"cpu_s\": %f, \"files_cleaned\": %d}%n",
            bytes(home), most, wall, (cpu() - cpuStarted) / 1e9, stats.getNCleanerRuns());
    }
}
