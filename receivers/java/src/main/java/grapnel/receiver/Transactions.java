package grapnel.receiver;

import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;

/** Begins and ends the transactions of a {@link JdbcStore}. With Spring's, use grapnel.receiver.spring. */
@FunctionalInterface
public interface Transactions {
    /**
     * What is done in a transaction.
     *
     * @param <T> of the result
     */
    @FunctionalInterface
    interface Work<T> {
        /**
         * Does it.
         *
         * @param connection of the transaction
         * @return its result
         * @throws Exception to roll back
         */
        T run(Connection connection) throws Exception;
    }

    /**
     * Commits after the work, and rolls back if it throws.
     *
     * @param <T> of the result
     * @param work what is done
     * @return its result, after the commit
     * @throws Exception of the work or the database
     */
    <T> T run(Work<T> work) throws Exception;

    /**
     * Each with a connection of its own.
     *
     * @param source of the connections
     * @return the transactions
     */
    static Transactions of(DataSource source) {
        return new Transactions() {
            @Override
            public <T> T run(Work<T> work) throws Exception {
                try (Connection connection = source.getConnection()) {
                    boolean automatic = connection.getAutoCommit();
                    connection.setAutoCommit(false);
                    try {
                        T result = work.run(connection);
                        connection.commit();
                        connection.setAutoCommit(automatic); // a pool may lend it again
                        return result;
                    } catch (Throwable e) {
                        try {
                            connection.rollback();
                            connection.setAutoCommit(automatic);
                        } catch (SQLException second) {
                            e.addSuppressed(second);
                        }
                        throw e;
                    }
                }
            }
        };
    }
}
