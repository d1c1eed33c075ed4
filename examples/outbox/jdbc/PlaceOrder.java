import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.UUID;

/** Stores an order, and the webhook about it, in one transaction (JDBC). */
public class PlaceOrder {
    static long placeOrder(Connection db, String customer, int total) throws SQLException {
        long id;
        try (PreparedStatement order = db.prepareStatement(
                "INSERT INTO orders (customer, total) VALUES (?, ?) RETURNING id")) {
            order.setString(1, customer);
            order.setInt(2, total);
            try (ResultSet rows = order.executeQuery()) {
                rows.next();
                id = rows.getLong(1);
            }
        }
        try (PreparedStatement webhook = db.prepareStatement(
                "INSERT INTO webhook_outbox (id, event_type, workspace, payload) VALUES (?, 'order.placed', ?, "
                + "json_build_object('order', ?::bigint, 'customer', ?::text, 'total', ?::int))")) {
            webhook.setString(1, UUID.randomUUID().toString());
            webhook.setString(2, customer);
            webhook.setLong(3, id);
            webhook.setString(4, customer);
            webhook.setInt(5, total);
            webhook.executeUpdate();
        }
        return id;
    }

    public static void main(String[] args) throws SQLException {
        boolean declined = args.length > 0;
        try (Connection db = DriverManager.getConnection(System.getenv("DATABASE_URL"))) {
            db.setAutoCommit(false);
            try {
                long id = placeOrder(db, "acme", 4200);
                if (declined) { // any exception in the transaction rolls both back
                    throw new IllegalStateException("the payment was declined");
                }
                db.commit();
                System.out.println("order " + id);
            } catch (SQLException | RuntimeException error) {
                db.rollback();
                throw error;
            }
        }
    }
}
