package grapnel.receiver.spring;

import grapnel.receiver.Transactions;
import java.sql.Connection;
import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Stores events in transactions of Spring, so that JdbcTemplate, JPA and all else that joins Spring's transactions
 * commits together with the event.
 */
public final class SpringTransactions implements Transactions {
    private final TransactionTemplate template;
    private final DataSource source;

    /** Carries a checked exception out of the template, which rolls back for it. */
    private static final class Carrier extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final Exception carried;

        Carrier(Exception carried) {
            super(carried);
            this.carried = carried;
        }
    }

    /**
     * Uses this manager and source, which belong together.
     *
     * @param manager of the transactions: DataSourceTransactionManager, or JpaTransactionManager with a dialect that
     *     shows its JDBC connection, such as Hibernate's
     * @param source that the manager's transactions use
     */
    public SpringTransactions(PlatformTransactionManager manager, DataSource source) {
        this.template = new TransactionTemplate(manager);
        this.source = source;
    }

    @Override
    public <T> T run(Work<T> work) throws Exception {
        try {
            return template.execute(status -> {
                // Else the event could be committed, and your work rolled back.
                if (!TransactionSynchronizationManager.hasResource(source)) {
                    throw new IllegalStateException("the transaction manager does not use this data source; "
                            + "give SpringTransactions the manager of the data source that has the events");
                }
                Connection connection = DataSourceUtils.getConnection(source);
                try {
                    return work.run(connection);
                } catch (RuntimeException e) {
                    throw e;
                } catch (Exception e) {
                    throw new Carrier(e);
                } finally {
                    DataSourceUtils.releaseConnection(connection, source);
                }
            });
        } catch (Carrier e) {
            throw e.carried;
        }
    }
}
