import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;

/**
 * Makes a database with a column of every SQL type, prints its rows as Derby reads them, and ends without closing it.
 *
 * Argument: the database directory. Output: one JSON object a row, with "table", "types" (by column) and "values" (by
 * column: text; bytes in hex; null).
 */
public class DerbyTypes {
    static final String[] NUMBERS = {
        "1, -32768, -2147483648, -9223372036854775808, -3.4E38, -1.7E308, -12345.67, 0.00001, TRUE",
        "2, 32767, 2147483647, 9223372036854775807, 3.4E38, 1.7E308, 12345.67, -9999, FALSE",
        "3, 0, 0, 0, 0, 0, 0, 0, TRUE",
        "4, -1, -1, -1, 1.1, 0.1, -0.05, 0.10000, FALSE",
        "5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    };
    static final String[] TEXTS = {
        "1, 'abc', 'abc', 'long', CAST('clob' AS CLOB), '1999-12-31', '23:59:59', '2026-11-28 01:02:03.000000004'",
        "2, '', '', '', CAST('' AS CLOB), '0001-01-01', '00:00:00', '0001-01-01 00:00:00'",
        "3, 'a' || '\u00e9\u20ac', '\ud83d\ude00', '\u0000x', CAST('\u00e9' AS CLOB), '9999-12-31', '12:00:00', "
            + "'2026-11-28 10:00:00.5'",
        "4, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    };
    static final String[] BYTES = {
        "1, X'00ff', X'', X'0102', CAST(X'cafe' AS BLOB)",
        "2, X'80', X'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0011', X'', CAST(X'' AS BLOB)",
        "3, NULL, NULL, NULL, NULL",
    };

    public static void main(String[] args) throws Exception {
        Connection connection = DriverManager.getConnection("jdbc:derby:" + args[0] + ";create=true");
        Statement statement = connection.createStatement();
        statement.execute(
            "CREATE TABLE NUMBERS (ID INTEGER NOT NULL PRIMARY KEY, S SMALLINT, I INTEGER, B BIGINT, R REAL, D DOUBLE, "
                + "C DECIMAL(12,2), N NUMERIC(9,5), T BOOLEAN)");
        statement.execute(
            "CREATE TABLE TEXTS (ID INTEGER NOT NULL, C CHAR(5), V VARCHAR(40), L LONG VARCHAR, X CLOB(1M), D DATE, "
                + "T TIME, S TIMESTAMP)");
        statement.execute(
            "CREATE TABLE BYTES (ID INTEGER NOT NULL, C CHAR(4) FOR BIT DATA, V VARCHAR(80) FOR BIT DATA, "
                + "L LONG VARCHAR FOR BIT DATA, B BLOB(1M))");
        statement.execute("CREATE SCHEMA \"Other schema\"");
        statement.execute("CREATE TABLE \"Other schema\".\"Mixed, name\" (\"a b\" INTEGER, \"page\" VARCHAR(10))");
        statement.execute("INSERT INTO \"Other schema\".\"Mixed, name\" VALUES (1, 'one')");
        statement.execute("ALTER TABLE \"Other schema\".\"Mixed, name\" ADD COLUMN LATER VARCHAR(5)");
        statement.execute("ALTER TABLE \"Other schema\".\"Mixed, name\" ADD COLUMN SEVEN INTEGER DEFAULT 7");
        statement.execute("INSERT INTO \"Other schema\".\"Mixed, name\" VALUES (2, 'two', 'x', 8)");
        insert(statement, "NUMBERS", NUMBERS);
        insert(statement, "TEXTS", TEXTS);
        insert(statement, "BYTES", BYTES);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 30_000; i++) {
            text.append((char) ('a' + i % 26)).append(i % 7 == 0 ? "\u20ac" : "");
        }
        byte[] bytes = new byte[100_000];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 31 >> 3);
        }
        for (int id = 10; id < 14; id++) {
            // With its length, and as a stream without one.
            try (PreparedStatement clob = connection.prepareStatement("INSERT INTO TEXTS (ID, X) VALUES (?, ?)");
                    PreparedStatement blob = connection.prepareStatement("INSERT INTO BYTES (ID, B) VALUES (?, ?)")) {
                clob.setInt(1, id);
                blob.setInt(1, id);
                if (id % 2 == 0) {
                    clob.setString(2, text.toString());
                    blob.setBytes(2, bytes);
                } else {
                    clob.setCharacterStream(2, new StringReader(text.toString()));
                    blob.setBinaryStream(2, new ByteArrayInputStream(bytes));
                }
                clob.executeUpdate();
                blob.executeUpdate();
            }
        }
        statement.execute("DELETE FROM NUMBERS WHERE ID = 3");
        for (String table : new String[] {"NUMBERS", "TEXTS", "BYTES", "\"Other schema\".\"Mixed, name\""}) {
            print(statement, table);
        }
        System.out.flush();
        // Rows that no commit made durable.
        connection.setAutoCommit(false);
        statement.execute("INSERT INTO NUMBERS (ID) VALUES 100");
        statement.execute("DELETE FROM TEXTS WHERE ID = 1");
        Runtime.getRuntime().halt(0);
    }

    static void insert(Statement statement, String table, String[] rows) throws Exception {
        for (String row : rows) {
            statement.execute("INSERT INTO " + table + " VALUES (" + row + ")");
        }
    }

    static void print(Statement statement, String table) throws Exception {
        try (ResultSet result = statement.executeQuery("SELECT * FROM " + table)) {
            ResultSetMetaData about = result.getMetaData();
            while (result.next()) {
                StringBuilder types = new StringBuilder();
                StringBuilder values = new StringBuilder();
                for (int i = 1; i <= about.getColumnCount(); i++) {
                    String comma = i == 1 ? "" : ",";
                    String name = DerbyOracle.quote(about.getColumnName(i));
                    types.append(comma).append(name).append(":").append(DerbyOracle.quote(about.getColumnTypeName(i)));
                    values.append(comma).append(name).append(":").append(value(result, i));
                }
                System.out.println("{\"table\":" + DerbyOracle.quote(about.getSchemaName(1) + "." + about.getTableName(1))
                    + ",\"types\":{" + types + "},\"values\":{" + values + "}}");
            }
        }
    }

    static String value(ResultSet result, int column) throws Exception {
        if (result.getMetaData().getColumnType(column) != java.sql.Types.BLOB) {
            String text = result.getString(column);
            return text == null ? "null" : DerbyOracle.quote(text);
        }
        byte[] bytes = result.getBytes(column);
        if (bytes == null) {
            return "null";
        }
        StringBuilder hex = new StringBuilder();
        for (byte one : bytes) {
            hex.append(String.format("%02x", one));
        }
        return DerbyOracle.quote(hex.toString());
    }
}
