import com.sleepycat.je.*;
import java.io.File;
import java.util.Random;

/** A log of random transactions by JE: java -cp JE JeLog.java DIRECTORY RECORDS KEYS checkpoint|crash; prints one of its keys. */
public class JeLog {
    public static void main(String[] words) throws Exception {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        config.setConfigParam(EnvironmentConfig.ENV_RUN_CHECKPOINTER, "false");
        config.setConfigParam(EnvironmentConfig.ENV_RUN_CLEANER, "false");
        Environment env = new Environment(new File(words[0]), config);
        DatabaseConfig made = new DatabaseConfig();
        made.setAllowCreate(true);
        made.setTransactional(true);
        Database db = env.openDatabase(null, "t", made);
        int records = Integer.parseInt(words[1]), keys = Integer.parseInt(words[2]);
        Random source = new Random(1);
        byte[] value = new byte[100];
        String key = "";
        for (int i = 0; i < records; i++) {
            source.nextBytes(value);
            key = String.format("%016d", source.nextInt(keys));
            Transaction txn = env.beginTransaction(null, null);
            db.put(txn, new DatabaseEntry(key.getBytes()), new DatabaseEntry(value));
            txn.commit();
        }
        System.out.println(key);
        System.out.flush();
        env.flushLog(true);
        // As a crash leaves it.
        if (words[3].equals("crash")) Runtime.getRuntime().halt(0);
        env.checkpoint(new CheckpointConfig().setForce(true));
        db.close();
        env.close();
    }
}
