import java.util.UUID;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Stores an order, and the webhook about it, in one transaction (Spring). In a Spring application
 * the two beans are injected, and {@code @Transactional} on the method does what the template does here.
 */
public class PlaceOrder {
    private final TransactionTemplate transaction;
    private final JdbcTemplate jdbc;

    PlaceOrder(TransactionTemplate transaction, JdbcTemplate jdbc) {
        this.transaction = transaction;
        this.jdbc = jdbc;
    }

    long place(String customer, int total, boolean declined) {
        return transaction.execute(status -> {
            Long id = jdbc.queryForObject(
                    "INSERT INTO orders (customer, total) VALUES (?, ?) RETURNING id",
                    Long.class, customer, total);
            jdbc.update(
                    "INSERT INTO webhook_outbox (id, event_type, workspace, payload) VALUES (?, 'order.placed', ?, "
                    + "json_build_object('order', ?::bigint, 'customer', ?::text, 'total', ?::int))",
                    UUID.randomUUID().toString(), customer, id, customer, total);
            if (declined) { // any exception in the transaction rolls both back
                throw new IllegalStateException("the payment was declined");
            }
            return id;
        });
    }

    public static void main(String[] args) {
        DriverManagerDataSource database = new DriverManagerDataSource(System.getenv("DATABASE_URL"));
        PlaceOrder orders = new PlaceOrder(
                new TransactionTemplate(new DataSourceTransactionManager(database)), new JdbcTemplate(database));
        System.out.println("order " + orders.place("acme", 4200, args.length > 0));
    }
}
