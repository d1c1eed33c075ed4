package grapnel.receiver;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import javax.sql.DataSource;

/** Stores an event, its number and your work in one transaction, in PostgreSQL or SQLite. Threads may share it. */
public final class JdbcStore implements Store {
    /** The statements of {@link #createTables}. The libraries of other languages have the same tables. */
    public static final List<String> SCHEMA = List.of(
            """
            CREATE TABLE IF NOT EXISTS grapnel_events (
              id TEXT PRIMARY KEY, received_s BIGINT NOT NULL)""",
            """
            CREATE TABLE IF NOT EXISTS grapnel_series (
              workspace TEXT NOT NULL, series TEXT NOT NULL,
              floor BIGINT, announced INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (workspace, series))""",
            """
            CREATE TABLE IF NOT EXISTS grapnel_numbers (
              workspace TEXT NOT NULL, series TEXT NOT NULL, sequence BIGINT NOT NULL,
              previous BIGINT NOT NULL, id TEXT NOT NULL, received_s BIGINT NOT NULL,
              PRIMARY KEY (workspace, series, sequence))""",
            """
            CREATE INDEX IF NOT EXISTS grapnel_numbers_previous
              ON grapnel_numbers (workspace, series, previous)""",
            "CREATE INDEX IF NOT EXISTS grapnel_numbers_received ON grapnel_numbers (received_s)",
            "CREATE INDEX IF NOT EXISTS grapnel_events_received ON grapnel_events (received_s)");

    private static final String TAKE_ID =
            "INSERT INTO grapnel_events (id, received_s) VALUES (?, ?) ON CONFLICT DO NOTHING";
    private static final String GET_SERIES =
            "SELECT floor, announced FROM grapnel_series WHERE workspace = ? AND series = ?";
    private static final String ADD_SERIES =
            "INSERT INTO grapnel_series (workspace, series) VALUES (?, ?) ON CONFLICT DO NOTHING";
    private static final String SET_SERIES =
            "UPDATE grapnel_series SET floor = ?, announced = ? WHERE workspace = ? AND series = ?";
    private static final String ADD_NUMBER = """
            INSERT INTO grapnel_numbers (workspace, series, sequence, previous, id, received_s)
            VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING""";
    private static final String HERE = "FROM grapnel_numbers WHERE workspace = ? AND series = ?";
    private static final String OTHERS = "FROM grapnel_series s WHERE s.workspace = ? AND s.series <> ?";
    private static final String GET_FACTS = "SELECT (SELECT id " + HERE + " AND sequence = ?) AS holder,"
            + " (SELECT max(sequence) " + HERE + ") AS highest,"
            + " EXISTS (SELECT 1 " + HERE + " AND sequence = ?) AS has_previous,"
            + " (SELECT max(sequence) " + HERE + " AND sequence < ?) AS below,"
            + " EXISTS (SELECT 1 " + HERE + " AND previous = ?) AS named,"
            + " EXISTS (SELECT 1 " + OTHERS + " AND s.floor IS NOT NULL) AS earlier,"
            + " EXISTS (SELECT 1 " + OTHERS + " AND EXISTS (SELECT 1 FROM grapnel_numbers n"
            + " WHERE n.workspace = s.workspace AND n.series = s.series AND n.sequence = ?)) AS in_other";
    private static final String GET_MISSING = """
            SELECT n.series, n.workspace, n.previous, min(n.received_s) AS since_s,
              EXISTS (SELECT 1 FROM grapnel_numbers o WHERE o.workspace = n.workspace
                      AND o.sequence = n.previous AND o.series <> n.series) AS in_other
            FROM grapnel_numbers n JOIN grapnel_series s ON s.workspace = n.workspace AND s.series = n.series
            WHERE n.previous > s.floor AND NOT EXISTS (SELECT 1 FROM grapnel_numbers p
              WHERE p.workspace = n.workspace AND p.series = n.series AND p.sequence = n.previous)
            GROUP BY n.series, n.workspace, n.previous HAVING min(n.received_s) <= ?
            ORDER BY min(n.received_s), n.previous""";
    // Numbers up to the highest deleted one count as arrived.
    private static final String RAISE_FLOOR = """
            UPDATE grapnel_series SET floor = (
              SELECT max(n.sequence) FROM grapnel_numbers n WHERE n.workspace = grapnel_series.workspace
              AND n.series = grapnel_series.series AND n.received_s < ?)
            WHERE floor < (SELECT max(n.sequence) FROM grapnel_numbers n
              WHERE n.workspace = grapnel_series.workspace AND n.series = grapnel_series.series
              AND n.received_s < ?)""";

    private final Transactions transactions;
    private final boolean locks;

    private JdbcStore(Transactions transactions, boolean locks) {
        this.transactions = Objects.requireNonNull(transactions, "transactions");
        this.locks = locks;
    }

    /**
     * Keeps events in PostgreSQL. Isolation is READ COMMITTED, the default; with a stricter one, some transactions
     * fail and Grapnel sends their events again.
     *
     * @param source of connections
     * @return the store
     */
    public static JdbcStore postgresql(DataSource source) {
        return postgresql(Transactions.of(source));
    }

    /**
     * Keeps events in PostgreSQL, in transactions of yours.
     *
     * @param transactions begins and ends them
     * @return the store
     */
    public static JdbcStore postgresql(Transactions transactions) {
        return new JdbcStore(transactions, true);
    }

    /**
     * Keeps events in SQLite. Set a busy timeout: else a transaction fails when another one writes.
     *
     * @param source of connections
     * @return the store
     */
    public static JdbcStore sqlite(DataSource source) {
        return sqlite(Transactions.of(source));
    }

    /**
     * Keeps events in SQLite, in transactions of yours.
     *
     * @param transactions begins and ends them
     * @return the store
     */
    public static JdbcStore sqlite(Transactions transactions) {
        return new JdbcStore(transactions, false);
    }

    /**
     * Creates what is not there yet.
     *
     * @throws Exception of the database
     */
    public void createTables() throws Exception {
        transactions.run(connection -> {
            try (Statement statement = connection.createStatement()) {
                for (String text : SCHEMA) {
                    statement.execute(text);
                }
            }
            return null;
        });
    }

    @Override
    public Check process(Event event, Instant now, boolean order, Handler handler) throws Exception {
        return transactions.run(connection -> {
            Check check = store(event, now, order, connection);
            if (check.first()) {
                handler.handle(event, check, connection);
            }
            return check;
        });
    }

    @Override
    public Check check(Event event, Instant now, boolean order, Connection connection) throws SQLException {
        if (connection.getAutoCommit()) {
            throw new IllegalArgumentException(
                    "the connection has no transaction: call setAutoCommit(false), and commit after your work");
        }
        return store(event, now, order, connection);
    }

    private Check store(Event event, Instant now, boolean order, Connection connection) throws SQLException {
        long nowS = now.getEpochSecond();
        // Waits for a transaction that has the same id, until that one has ended.
        boolean first = change(connection, TAKE_ID, event.id(), nowS) == 1;
        if (!order || !event.numbered()) {
            return Decision.plain(first).check();
        }
        String workspace = event.workspace();
        String series = event.series();
        Decision.Facts facts = facts(event, connection);
        Decision decision = Decision.of(event, first, facts);
        change(connection, ADD_NUMBER, workspace, series, event.sequence(), event.previous(), event.id(), nowS);
        if (!Objects.equals(decision.floor(), facts.floor()) || decision.announced() != facts.announced()) {
            change(connection, SET_SERIES, decision.floor(), decision.announced() ? 1 : 0, workspace, series);
        }
        return decision.check();
    }

    /** What the row of a series has. */
    private record Series(Long floor, boolean announced) {}

    /** Locks the row: both events of a pair would else be OK although the later one was processed first. */
    private Series series(Event event, Connection connection) throws SQLException {
        try (PreparedStatement statement = prepared(connection, locks ? GET_SERIES + " FOR UPDATE" : GET_SERIES,
                        event.workspace(), event.series());
                ResultSet row = statement.executeQuery()) {
            if (!row.next()) {
                return null;
            }
            long floor = row.getLong(1);
            return new Series(row.wasNull() ? null : (Long) floor, row.getInt(2) != 0);
        }
    }

    private Decision.Facts facts(Event event, Connection connection) throws SQLException {
        String w = event.workspace();
        String s = event.series();
        Series row = series(event, connection);
        if (row == null) {
            change(connection, ADD_SERIES, w, s);
            row = series(event, connection);
        }
        long sequence = event.sequence();
        long previous = event.previous();
        try (PreparedStatement statement = prepared(connection, GET_FACTS, w, s, sequence, w, s, w, s, previous, w, s,
                        previous, w, s, sequence, w, s, w, s, previous);
                ResultSet found = statement.executeQuery()) {
            found.next();
            return new Decision.Facts(row.floor, row.announced, found.getBoolean("earlier"), found.getString("holder"),
                    found.getLong("highest"), found.getBoolean("has_previous"), found.getLong("below"),
                    found.getBoolean("named"), found.getBoolean("in_other"));
        }
    }

    private static PreparedStatement prepared(Connection connection, String sql, Object... values)
            throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        try {
            for (int i = 0; i < values.length; i++) {
                statement.setObject(i + 1, values[i]);
            }
            return statement;
        } catch (SQLException | RuntimeException e) {
            statement.close();
            throw e;
        }
    }

    private static int change(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(connection, sql, values)) {
            return statement.executeUpdate();
        }
    }

    @Override
    public List<Missing> missing(Instant before) throws Exception {
        return transactions.run(connection -> {
            List<Missing> found = new ArrayList<>();
            try (PreparedStatement statement = prepared(connection, GET_MISSING, before.getEpochSecond());
                    ResultSet row = statement.executeQuery()) {
                while (row.next()) {
                    found.add(new Missing(row.getString(1), row.getString(2), row.getLong(3),
                            Instant.ofEpochSecond(row.getLong(4)), row.getBoolean(5)));
                }
            }
            return found;
        });
    }

    @Override
    public void forget(Instant before) throws Exception {
        long beforeS = before.getEpochSecond();
        transactions.run(connection -> {
            change(connection, RAISE_FLOOR, beforeS, beforeS);
            change(connection, "DELETE FROM grapnel_numbers WHERE received_s < ?", beforeS);
            return change(connection, "DELETE FROM grapnel_events WHERE received_s < ?", beforeS);
        });
    }
}
