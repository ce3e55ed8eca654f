import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.Statement;
import java.util.Random;

/**
 * A database whose log has to be redone: a table with two indexes, filled in random order without a checkpoint.
 *
 * Arguments: directory, rows, rows per transaction, and what ends it: "crash" (the process dies), "rollback" (the last
 * transaction is rolled back before). Without the last three the database is booted, which recovers it.
 */
public class DerbyLog {
    public static void main(String[] words) throws Exception {
        if (words.length == 1) {
            DriverManager.getConnection("jdbc:derby:" + words[0]).close();
            return;
        }
        String most = "134217728";
        System.setProperty("derby.storage.checkpointInterval", most);
        System.setProperty("derby.storage.logSwitchInterval", most);
        int rows = Integer.parseInt(words[1]), each = Integer.parseInt(words[2]);
        try (Connection connection = DriverManager.getConnection("jdbc:derby:" + words[0] + ";create=true")) {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.execute("CREATE TABLE T (ID INT NOT NULL PRIMARY KEY, A VARCHAR(40), B VARCHAR(300))");
                statement.execute("CREATE INDEX TA ON T(A)");
                connection.commit();
                statement.execute("CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()");
            }
            Random random = new Random(1);
            String text = "x".repeat(200);
            try (PreparedStatement put = connection.prepareStatement("INSERT INTO T VALUES (?, ?, ?)")) {
                for (int i = 1; i <= rows; i++) {
                    put.setInt(1, (int) (i * 7919L % 1_000_000_007L));
                    put.setString(2, Long.toHexString(random.nextLong()));
                    put.setString(3, text.substring(random.nextInt(200)));
                    put.executeUpdate();
                    if (i % each == 0) {
                        connection.commit();
                    }
                }
            }
            if (words[3].equals("rollback")) {
                connection.rollback();
                try (Statement statement = connection.createStatement()) {
                    statement.execute("INSERT INTO T VALUES (-1, 'last', 'row')");
                }
                connection.commit();
            }
            Runtime.getRuntime().halt(9);
        }
    }
}
