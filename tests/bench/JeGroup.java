import com.sleepycat.je.*;
import com.sleepycat.je.rep.*;
import java.io.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

/**
 * A node of a group, told what to do by its standard input: java -cp JE JeGroup.java GROUP NAME PORT HELPER DIRECTORY.
 * It says its state once it is open; "write COMMITS THREADS SYNC" and "pace SECONDS RATE" say how many and how long.
 */
public class JeGroup {
    static final byte[] VALUE = new byte[100];
    static Database db;
    static ReplicatedEnvironment env;

    static void put(int number, Durability durability) {
        Transaction txn = env.beginTransaction(null, new TransactionConfig().setDurability(durability));
        db.put(txn, new DatabaseEntry(String.format("%016d", number).getBytes()), new DatabaseEntry(VALUE));
        txn.commit();
    }

    public static void main(String[] words) throws Exception {
        ReplicationConfig group = new ReplicationConfig(words[0], words[1], "localhost:" + words[2]);
        group.setHelperHosts("localhost:" + words[3]);
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        new File(words[4]).mkdirs();
        env = new ReplicatedEnvironment(new File(words[4]), group, config);
        System.out.println(env.getState());
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = told.readLine()) != null && !line.equals("stop"); ) {
            String[] task = line.split(" ");
            if (db == null) {
                DatabaseConfig made = new DatabaseConfig();
                made.setAllowCreate(true);
                made.setTransactional(true);
                db = env.openDatabase(null, "t", made);
            }
            long began = System.nanoTime();
            int done = task[0].equals("write")
                ? write(Integer.parseInt(task[1]), Integer.parseInt(task[2]), Durability.SyncPolicy.valueOf(task[3]))
                : pace(Integer.parseInt(task[1]), Integer.parseInt(task[2]));
            System.out.println(done + " " + (System.nanoTime() - began) / 1e9);
        }
        if (db != null) db.close();
        env.close();
    }

    static int write(int commits, int threads, Durability.SyncPolicy sync) throws Exception {
        Durability durability = new Durability(sync, sync, Durability.ReplicaAckPolicy.SIMPLE_MAJORITY);
        int share = commits / threads;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        for (int thread = 0; thread < threads; thread++) {
            int first = thread * commits;
            pool.submit(() -> { for (int i = 0; i < share; i++) put(first + i, durability); });
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.HOURS);
        return share * threads;
    }

    static int pace(int seconds, int rate) throws Exception {
        Durability durability = new Durability(
            Durability.SyncPolicy.NO_SYNC, Durability.SyncPolicy.NO_SYNC, Durability.ReplicaAckPolicy.NONE);
        long began = System.nanoTime();
        int done = 0;
        for (double passed; (passed = (System.nanoTime() - began) / 1e9) < seconds; ) {
            if (done < passed * rate) put(done++ % 100000, durability);
            else Thread.sleep(1);
        }
        return done;
    }
}
