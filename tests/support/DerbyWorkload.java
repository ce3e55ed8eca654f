import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Works on a new database in several threads and dies in the middle.
 *
 * Arguments: directory, seed, number of statements after which the process halts.
 */
public class DerbyWorkload {
    static final AtomicInteger LEFT = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        String url = "jdbc:derby:" + args[0];
        Random seeds = new Random(Long.parseLong(args[1]));
        try (Connection connection = DriverManager.getConnection(url + ";create=true")) {
            Statement s = connection.createStatement();
            s.execute("CREATE TABLE K (ID INT NOT NULL PRIMARY KEY, A VARCHAR(300), B INT, C VARCHAR(9000))");
            s.execute("CREATE INDEX KA ON K(A)");
            s.execute("CREATE UNIQUE INDEX KB ON K(B, ID DESC)");
            s.execute("CREATE TABLE L (ID INT NOT NULL PRIMARY KEY, D BLOB(1M))");
        }
        LEFT.set(Integer.parseInt(args[2]));
        int threads = 1 + seeds.nextInt(4);
        for (int i = 0; i < threads; i++) {
            long seed = seeds.nextLong();
            int number = i;
            new Thread(() -> work(url, new Random(seed), number)).start();
        }
    }

    static void count() {
        if (LEFT.decrementAndGet() <= 0) {
            Runtime.getRuntime().halt(9);
        }
    }

    static void work(String url, Random random, int thread) {
        try (Connection connection = DriverManager.getConnection(url)) {
            connection.setAutoCommit(false);
            while (true) {
                try {
                    transaction(connection, random, thread);
                } catch (SQLException error) {
                    rollback(connection);
                }
            }
        } catch (SQLException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(8);
        }
    }

    static void rollback(Connection connection) throws SQLException {
        connection.rollback();
    }

    static void transaction(Connection connection, Random random, int thread) throws SQLException {
        int length = 1 + random.nextInt(25);
        Savepoint savepoint = null;
        for (int i = 0; i < length; i++) {
            statement(connection, random, thread);
            count();
            if (random.nextInt(9) == 0) {
                savepoint = connection.setSavepoint();
            } else if (savepoint != null && random.nextInt(6) == 0) {
                connection.rollback(savepoint);
                savepoint = null;
            }
        }
        if (random.nextInt(4) == 0) {
            connection.rollback();
        } else {
            connection.commit();
        }
    }

    static String text(Random random, int longest) {
        int length = random.nextInt(10) == 0 ? random.nextInt(longest) : random.nextInt(1 + longest / 20);
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < length; i++) {
            out.append((char) ('a' + random.nextInt(26)));
        }
        return out.toString();
    }

    static int key(Random random, int thread) {
        return random.nextInt(400) * 10 + thread;
    }

    static void statement(Connection connection, Random random, int thread) throws SQLException {
        int kind = random.nextInt(100);
        if (kind < 45) {
            try (PreparedStatement s = connection.prepareStatement("INSERT INTO K VALUES (?, ?, ?, ?)")) {
                s.setInt(1, key(random, thread));
                s.setString(2, text(random, 300));
                s.setInt(3, random.nextInt(1000));
                s.setString(4, text(random, 9000));
                s.executeUpdate();
            }
        } else if (kind < 65) {
            try (PreparedStatement s = connection.prepareStatement("DELETE FROM K WHERE ID = ?")) {
                s.setInt(1, key(random, thread));
                s.executeUpdate();
            }
        } else if (kind < 88) {
            String column = random.nextBoolean() ? "A" : "C";
            try (PreparedStatement s = connection.prepareStatement("UPDATE K SET " + column + " = ?, B = ? WHERE ID = ?")) {
                s.setString(1, text(random, column.equals("A") ? 300 : 9000));
                s.setInt(2, random.nextInt(1000));
                s.setInt(3, key(random, thread));
                s.executeUpdate();
            }
        } else if (kind < 95) {
            try (PreparedStatement s = connection.prepareStatement("INSERT INTO L VALUES (?, ?)")) {
                byte[] bytes = new byte[random.nextInt(40_000)];
                random.nextBytes(bytes);
                s.setInt(1, random.nextInt(100_000) * 10 + thread);
                s.setBytes(2, bytes);
                s.executeUpdate();
            }
        } else if (kind < 97) {
            try (Statement s = connection.createStatement()) {
                s.execute("CREATE TABLE T" + thread + "_" + random.nextInt(30) + " (X INT PRIMARY KEY NOT NULL, Y INT)");
            }
        } else if (kind < 98) {
            try (Statement s = connection.createStatement()) {
                s.execute("DROP TABLE T" + thread + "_" + random.nextInt(30));
            }
        } else if (kind < 99) {
            connection.commit();
            try (Statement s = connection.createStatement()) {
                s.execute("CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()");
            }
        } else {
            try (Statement s = connection.createStatement()) {
                s.executeUpdate("DELETE FROM K WHERE ID > " + random.nextInt(4000) + " AND MOD(ID, 10) = " + thread);
            }
        }
    }
}
