import com.sleepycat.je.*;
import com.sleepycat.je.rep.*;
import com.sleepycat.je.rep.arbiter.*;
import java.io.*;

/**
 * A member of a group until its standard input ends: JeMember data|arbiter GROUP NAME HOST:PORT HELPERS DIRECTORY.
 * It prints its states. A data node told "go" commits new keys while it is the master, and prints those that returned.
 */
public class JeMember {
    static volatile boolean going, stopped;

    public static void main(String[] words) throws Exception {
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        Thread reader = new Thread(() -> {
            try {
                for (String line; (line = told.readLine()) != null; ) going = line.equals("go");
            } catch (IOException e) {
                // The end.
            }
            stopped = true;
        });
        reader.setDaemon(true);
        reader.start();
        new File(words[5]).mkdirs();
        if (words[0].equals("arbiter")) arbiter(words);
        else data(words);
        System.exit(0);
    }

    static void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static void arbiter(String[] words) throws Exception {
        ArbiterConfig config = new ArbiterConfig();
        config.setGroupName(words[1]);
        config.setNodeName(words[2]);
        config.setNodeHostPort(words[3]);
        config.setHelperHosts(words[4]);
        config.setArbiterHome(words[5]);
        config.setUnknownStateTimeout(1, java.util.concurrent.TimeUnit.SECONDS);
        Arbiter arbiter = new Arbiter(config);
        for (String last = ""; !stopped; Thread.sleep(50)) {
            String state = arbiter.getState().toString();
            if (!state.equals(last)) say("state " + state);
            last = state;
        }
        arbiter.shutdown();
    }

    static void data(String[] words) throws Exception {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(new Durability(
            Durability.SyncPolicy.SYNC, Durability.SyncPolicy.SYNC, Durability.ReplicaAckPolicy.SIMPLE_MAJORITY));
        ReplicatedEnvironment env = null;
        Database db = null;
        String last = "", prefix = words[2] + "-" + ProcessHandle.current().pid();
        for (int count = 0; !stopped; ) {
            try {
                if (env == null) {
                    ReplicationConfig group = new ReplicationConfig(words[1], words[2], words[3]);
                    group.setHelperHosts(words[4]);
                    group.setConfigParam("je.rep.envUnknownStateTimeout", "2 s");
                    group.setConfigParam("je.rep.insufficientReplicasTimeout", "2 s");
                    group.setConfigParam("je.rep.replicaAckTimeout", "2 s");
                    group.setConfigParam("je.rep.txnRollbackLimit", "1000");
                    env = new ReplicatedEnvironment(new File(words[5]), group, config);
                }
                String state = env.getState().toString();
                if (!state.equals(last)) say("state " + state);
                last = state;
                if (!going || !state.equals("MASTER")) {
                    Thread.sleep(20);
                    continue;
                }
                if (db == null) {
                    DatabaseConfig made = new DatabaseConfig();
                    made.setAllowCreate(true);
                    made.setTransactional(true);
                    db = env.openDatabase(null, "t", made);
                }
                String key = String.format("%s-%06d", prefix, ++count);
                Transaction txn = env.beginTransaction(null, null);
                try {
                    db.put(txn, new DatabaseEntry(key.getBytes()), new DatabaseEntry(new byte[count % 40]));
                    txn.commit();
                } catch (Exception e) {
                    txn.abort();
                    throw e;
                }
                say("acked " + key);
                Thread.sleep(10);
            } catch (InsufficientLogException e) {
                say("restore");
                NetworkRestoreConfig restore = new NetworkRestoreConfig();
                restore.setRetainLogFiles(false);
                new NetworkRestore().execute(e, restore);
                if (env != null) try { env.close(); } catch (Exception ignored) { }
                env = null;
                db = null;
            } catch (Exception e) {
                say("error " + e.getClass().getSimpleName() + " " + String.valueOf(e.getMessage()).split("\n")[0]);
                if (db != null) try { db.close(); } catch (Exception ignored) { }
                db = null;
                if (env != null && (!env.isValid() || e instanceof RollbackException)) {
                    try { env.close(); } catch (Exception ignored) { }
                    env = null;
                }
                Thread.sleep(100);
            }
        }
        if (db != null) db.close();
        if (env != null) env.close();
    }
}
