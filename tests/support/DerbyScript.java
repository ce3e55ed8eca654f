import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Runs SQL statements from standard input, one a line, in one connection without automatic commit.
 *
 * Argument: connection URL. Lines that begin with an exclamation mark: !commit, !rollback, !halt (the process dies at
 * once), !repeat N STATEMENT (with a question mark replaced by the number of the turn).
 */
public class DerbyScript {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Connection connection = DriverManager.getConnection(args[0]);
        connection.setAutoCommit(false);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("!commit")) {
                connection.commit();
            } else if (line.equals("!rollback")) {
                connection.rollback();
            } else if (line.equals("!halt")) {
                Runtime.getRuntime().halt(9);
            } else if (line.startsWith("!repeat ")) {
                String[] words = line.split(" ", 3);
                for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                    execute(connection, words[2].replace("?", Integer.toString(i)));
                }
            } else {
                execute(connection, line);
            }
        }
        connection.commit();
        connection.close();
        try {
            DriverManager.getConnection("jdbc:derby:;shutdown=true");
        } catch (SQLException expected) {
            // A shutdown always ends in an exception.
        }
    }

    static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }
}
