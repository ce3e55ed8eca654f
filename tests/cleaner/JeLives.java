import com.sleepycat.je.*;
import com.sleepycat.je.dbi.TTL;
import com.sleepycat.je.rep.*;
import com.sleepycat.je.util.*;
import com.sleepycat.je.utilint.TestHook;
import java.io.*;
import java.lang.reflect.Proxy;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;

/**
 * JE's half of beside_je.py. Reads commands, words apart by tabs, and answers each with a line: "ok", or what is wrong.
 * GROUP is the port of a group of one node, or "-".
 *
 * fill HOME SEED GROUP: an environment with some of its files cleaned; one of three is left as a crash would leave it.
 * make HOME GROUP: an empty one. check HOME: DbVerifyLog, and DbVerify with everything it can look at.
 * dump HOME DATABASE FILE: as DbDump. space HOME FILE: as DbSpace. go HOME SEED GROUP: writes and cleans.
 */
public class JeLives {
    static final long DAY = 86_400_000;

    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = System.out;
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = run(line.split("\t"));
            } catch (Throwable error) {
                answer = error.toString();
                error.printStackTrace();
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
    }

    static String run(String[] words) throws Exception {
        File home = new File(words[1]);
        switch (words[0]) {
            case "fill": return fill(home, new Random(Long.parseLong(words[2])), words[3]);
            case "make": home.mkdirs(); open(home, words[2], new Random(0)).close(); return "ok";
            case "go": return go(home, new Random(Long.parseLong(words[2])), words[3]);
            case "check": return check(home);
            default:
        }
        try (Environment env = reader(home);
                PrintStream file = new PrintStream(new FileOutputStream(words[words.length - 1]), false, "UTF-8")) {
            if (words[0].equals("dump")) new DbDump(env, words[2], file, false).dump();
            else new DbSpace(env, false, false, false).print(file);
        }
        return "ok";
    }

    static Environment reader(File home) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(true);
        config.setCacheSize(64 << 20);
        return new Environment(home, config);
    }

    static Environment open(File home, String group, Random random) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        config.setCacheSize((4 + random.nextInt(60)) << 20);
        config.setConfigParam("je.log.fileMax", "1000000");
        config.setConfigParam("je.env.runCleaner", random.nextBoolean() ? "true" : "false");
        config.setConfigParam("je.checkpointer.bytesInterval", random.nextBoolean() ? "1000000" : "20000000");
        if (group.equals("-")) return new Environment(home, config);
        ReplicationConfig rep = new ReplicationConfig("lives", "one", "localhost:" + group);
        rep.setHelperHosts("localhost:" + group);
        return new ReplicatedEnvironment(home, rep, config);
    }

    static Database database(Environment env, String name, Random random) {
        DatabaseConfig config = new DatabaseConfig();
        if (env.getDatabaseNames().contains(name)) config.setUseExistingConfig(true);
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setSortedDuplicates(name.startsWith("dup"));
        if (name.startsWith("pre")) config.setKeyPrefixing(true);
        config.setNodeMaxEntries(new int[] {16, 64, 128}[random.nextInt(3)]);
        return env.openDatabase(null, name, config);
    }

    static void write(Environment env, Database db, Random random, int records, int keys) {
        byte[] data = new byte[new int[] {5, 40, 150}[random.nextInt(3)]];
        boolean dups = db.getConfig().getSortedDuplicates(), expires = db.getDatabaseName().endsWith("ttl");
        for (int done = 0; done < records; done += 50) {
            Transaction txn = env.beginTransaction(null, null);
            for (int at = 0; at < 50; at++) {
                byte[] key = String.format("common/%010d", random.nextInt(keys)).getBytes();
                random.nextBytes(data);
                if (random.nextInt(8) == 0) {
                    db.delete(txn, new DatabaseEntry(key));
                    continue;
                }
                WriteOptions options = new WriteOptions();
                if (expires && random.nextInt(3) > 0) {
                    if (random.nextBoolean()) options.setTTL(1 + random.nextInt(9), TimeUnit.DAYS);
                    else options.setTTL(12 + 100 * random.nextInt(3), TimeUnit.HOURS);
                    options.setUpdateTTL(true);
                }
                Put put = dups && random.nextBoolean() ? Put.NO_DUP_DATA : Put.OVERWRITE;
                db.put(txn, new DatabaseEntry(key), new DatabaseEntry(data.clone()), put, options);
            }
            if (random.nextInt(10) == 0) txn.abort();
            else txn.commit();
        }
    }

    /** What expires is written as five days ago. */
    static void shift(long ms) {
        TTL.setTimeTestHook(ms == 0 ? null : hook(ms));
    }

    @SuppressWarnings("unchecked")
    static TestHook<Long> hook(long ms) {
        return (TestHook<Long>) Proxy.newProxyInstance(
            JeLives.class.getClassLoader(), new Class<?>[] {TestHook.class},
            (proxy, method, given) -> method.getName().equals("getHookValue") ? System.currentTimeMillis() - ms : null);
    }

    static String fill(File home, Random random, String group) throws Exception {
        boolean crash = random.nextInt(3) == 0;
        File live = crash ? new File(home + ".live") : home;
        live.mkdirs();
        shift(5 * DAY);
        try (Environment env = open(live, group, random)) {
            try {
                fill(env, random);
            } finally {
                shift(0);
            }
            env.flushLog(true);
            if (crash) {
                home.mkdirs();
                for (File file : live.listFiles())
                    if (file.getName().endsWith(".jdb")) Files.copy(file.toPath(), new File(home, file.getName()).toPath());
            }
        }
        return "ok";
    }

    static void fill(Environment env, Random random) {
        List<Database> dbs = new ArrayList<>();
        for (String name : new String[] {"plain", "dups", "ttl", "dupttl", "pre", "cut", "gone"})
            dbs.add(database(env, name, random));
        int records = 1000 + random.nextInt(3000), keys = 200 + random.nextInt(2000);
        for (int round = 0; round < 3; round++)
            for (Database db : dbs) write(env, db, random, records, keys);
        for (Database db : dbs) db.close();
        env.removeDatabase(null, "gone");
        env.truncateDatabase(null, "cut", false);
        for (int at = random.nextInt(4); at > 0; at--) env.cleanLogFile();
        shift(0);
        if (random.nextBoolean()) env.checkpoint(new CheckpointConfig().setForce(true));
        for (int at = random.nextInt(3); at > 0; at--) env.cleanLogFile();
    }

    static String check(File home) throws Exception {
        try (Environment env = reader(home)) {
            new DbVerifyLog(env).verifyAll();
            VerifyConfig config = new VerifyConfig();
            config.setVerifySecondaries(true);
            config.setVerifyDataRecords(true);
            config.setVerifyObsoleteRecords(true);
            config.setPrintInfo(true);
            return verify(env, config);
        }
    }

    /** Later releases return a summary, earlier ones whether all is well. */
    static String verify(Environment env, VerifyConfig config) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        Object found;
        try {
            found = Environment.class.getMethod("verify", VerifyConfig.class, PrintStream.class)
                .invoke(env, config, new PrintStream(said));
        } catch (NoSuchMethodException later) {
            found = Environment.class.getMethod("verify", VerifyConfig.class).invoke(env, config);
            Class<?> summary = Class.forName("com.sleepycat.je.VerifySummary");
            found = !((Boolean) summary.getMethod("hasErrors").invoke(found));
        }
        return Boolean.TRUE.equals(found) ? "ok" : "DbVerify: " + said.toString("UTF-8");
    }

    static String go(File home, Random random, String group) throws Exception {
        try (Environment env = open(home, group, random)) {
            go(env, random);
        }
        return "ok";
    }

    static void go(Environment env, Random random) {
        if (env.getDatabaseNames().contains("pre")) env.removeDatabase(null, "pre");
        for (String name : new String[] {"plain", "dups", "ttl", "new"}) {
            Database db = database(env, name, random);
            write(env, db, random, 500, 1000);
            db.close();
        }
        while (env.cleanLog() > 0) { }
        env.checkpoint(new CheckpointConfig().setForce(true));
        while (env.cleanLog() > 0) { }
    }
}
