import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.derby.jdbc.EmbeddedXADataSource;

/**
 * Opens databases with real Derby and prints what is in them, one JSON object a line.
 *
 * Standard input: one database directory a line. Output: directory, error (null when it opened), in_doubt, check
 * (result of SYSCS_CHECK_TABLE by table) and tables (rows by table) in the form of contents-after-recovery.json.
 */
public class DerbyOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(look(line));
            System.out.flush();
        }
    }

    static String look(String directory) throws Exception {
        StringBuilder out = new StringBuilder("{\"directory\":" + quote(directory));
        try {
            String inDoubt = inDoubt(directory);
            try (Connection connection = DriverManager.getConnection("jdbc:derby:" + directory)) {
                connection.setAutoCommit(true);
                connection.setTransactionIsolation(Connection.TRANSACTION_READ_UNCOMMITTED);
                List<String> names = names(connection);
                StringBuilder checks = new StringBuilder();
                StringBuilder tables = new StringBuilder();
                for (String name : names) {
                    String comma = tables.length() == 0 ? "" : ",";
                    tables.append(comma).append(quote(name)).append(":").append(rows(connection, name));
                    checks.append(comma).append(quote(name)).append(":").append(check(connection, name));
                }
                out.append(",\"error\":null,\"in_doubt\":").append(inDoubt);
                out.append(",\"check\":{").append(checks).append("},\"tables\":{").append(tables).append("}}");
            }
        } catch (SQLException error) {
            StringBuilder states = new StringBuilder();
            for (SQLException e = error; e != null; e = e.getNextException()) {
                states.append(states.length() == 0 ? "" : " ").append(e.getSQLState());
            }
            out.append(",\"error\":").append(quote(states + ": " + error.getMessage())).append("}");
        }
        try {
            DriverManager.getConnection("jdbc:derby:" + directory + ";shutdown=true");
        } catch (SQLException expected) {
            // A shutdown always ends in an exception.
        }
        return out.toString();
    }

    static String inDoubt(String directory) throws Exception {
        EmbeddedXADataSource source = new EmbeddedXADataSource();
        source.setDatabaseName(directory);
        javax.sql.XAConnection connection = source.getXAConnection();
        List<String> found = new ArrayList<>();
        for (Xid xid : connection.getXAResource().recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            String global = new String(xid.getGlobalTransactionId(), "ISO-8859-1");
            String branch = new String(xid.getBranchQualifier(), "ISO-8859-1");
            found.add(quote(xid.getFormatId() + ":" + global + ":" + branch));
        }
        connection.close();
        java.util.Collections.sort(found);
        return "[" + String.join(",", found) + "]";
    }

    static List<String> names(Connection connection) throws SQLException {
        List<String> found = new ArrayList<>();
        String query = "SELECT TABLENAME FROM SYS.SYSTABLES WHERE TABLETYPE = 'T' ORDER BY TABLENAME";
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(query)) {
            while (result.next()) {
                found.add(result.getString(1));
            }
        }
        return found;
    }

    static String check(Connection connection, String name) throws SQLException {
        String query = "VALUES SYSCS_UTIL.SYSCS_CHECK_TABLE('APP', '" + name + "')";
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(query)) {
            result.next();
            return Integer.toString(result.getInt(1));
        } catch (SQLException error) {
            return quote(error.getSQLState() + " " + error.getMessage());
        }
    }

    static String rows(Connection connection, String name) throws SQLException {
        StringBuilder out = new StringBuilder("[");
        String query = "SELECT * FROM APP." + name;
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(query)) {
            int columns = result.getMetaData().getColumnCount();
            while (result.next()) {
                out.append(out.length() == 1 ? "[" : ",[");
                for (int i = 1; i <= columns; i++) {
                    out.append(i == 1 ? "" : ",").append(value(result, i));
                }
                out.append("]");
            }
        }
        return out.append("]").toString();
    }

    static String value(ResultSet result, int column) throws SQLException {
        switch (result.getMetaData().getColumnType(column)) {
            case java.sql.Types.BLOB:
            case java.sql.Types.BINARY:
            case java.sql.Types.VARBINARY:
            case java.sql.Types.LONGVARBINARY:
                byte[] bytes = result.getBytes(column);
                if (bytes == null) {
                    return "null";
                }
                long hash = 0;
                for (byte b : bytes) {
                    hash = 31 * hash + b;
                }
                return quote("bytes:" + bytes.length + ":" + Long.toHexString(hash));
            default:
                Object value = result.getObject(column);
                if (value == null || value instanceof Integer || value instanceof Long) {
                    return String.valueOf(value);
                }
                String text = result.getString(column);
                if (text.length() <= 48) {
                    return quote(text);
                }
                long sum = 0;
                for (int i = 0; i < text.length(); i++) {
                    sum = 31 * sum + text.charAt(i);
                }
                return quote(text.substring(0, 24) + "#" + text.length() + "#" + Long.toHexString(sum));
        }
    }

    static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 32 || c > 126) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
