package grapnel.receiver;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.postgresql.ds.PGSimpleDataSource;
import org.sqlite.SQLiteDataSource;

/** Databases of the tests, by their JDBC URLs. */
public final class Databases {
    static final int DIED = 77;

    private Databases() {}

    public static DataSource source(String url) {
        if (url.startsWith("jdbc:sqlite:")) {
            SQLiteDataSource source = new SQLiteDataSource();
            source.setUrl(url);
            source.setBusyTimeout(30_000);
            source.setJournalMode("WAL");
            return source;
        }
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl(url);
        return source;
    }

    public static JdbcStore store(String url, Transactions transactions) {
        return url.startsWith("jdbc:sqlite:") ? JdbcStore.sqlite(transactions) : JdbcStore.postgresql(transactions);
    }

    /** Without rows, and with a table for work. */
    public static void empty(DataSource source, JdbcStore store) throws Exception {
        for (String table : new String[] {"work", "grapnel_events", "grapnel_series", "grapnel_numbers"}) {
            run(source, "DROP TABLE IF EXISTS " + table);
        }
        run(source, "CREATE TABLE work (id TEXT)");
        store.createTables();
        store.createTables();
    }

    public static void run(DataSource source, String sql) throws SQLException {
        try (Connection connection = source.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    public static void work(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("INSERT INTO work VALUES ('x')");
        }
    }

    public static int count(DataSource source) throws SQLException {
        try (Connection connection = source.getConnection();
                Statement statement = connection.createStatement();
                ResultSet row = statement.executeQuery("SELECT count(*) FROM work")) {
            row.next();
            return row.getInt(1);
        }
    }

    /** Another process, which dies after its work and before the commit. */
    public static void main(String[] args) throws Exception {
        Receiver receiver =
                Vectors.receiver(store(args[0], Transactions.of(source(args[0]))), new Vectors.TestClock());
        Vectors.Request request = Vectors.request(Vectors.delivery("in order", 0));
        receiver.receive(request.headers(), request.body(), (event, check, connection) -> {
            work(connection);
            Runtime.getRuntime().halt(DIED);
        });
    }
}
