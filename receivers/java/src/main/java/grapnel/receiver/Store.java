package grapnel.receiver;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * Keeps ids and numbers of events. Use {@link JdbcStore}, {@link RedisStore} or {@link MemoryStore}, or make your own.
 */
public interface Store {
    /** How long events are remembered: longer than Grapnel may send an event again, by default. */
    Duration KEEP = Duration.ofDays(40);

    /**
     * Calls the handler unless the event is a duplicate, and stores the event as processed. If the handler throws,
     * nothing is stored.
     *
     * @param event that was verified
     * @param now the time
     * @param order false: only deduplicate
     * @param handler your work
     * @return what is known about the event
     * @throws BusyException if another attempt of this event is being processed
     * @throws Exception of the handler or the database
     */
    Check process(Event event, Instant now, boolean order, Handler handler) throws Exception;

    /**
     * Stores the event in a transaction of the caller, and leaves it open.
     *
     * @param event that was verified
     * @param now the time
     * @param order false: only deduplicate
     * @param connection on which the transaction has begun
     * @return what is known about the event
     * @throws SQLException of the database
     */
    default Check check(Event event, Instant now, boolean order, Connection connection) throws SQLException {
        throw new UnsupportedOperationException(
                getClass().getSimpleName() + " cannot join your transaction: call process()");
    }

    /**
     * Lists missing numbers, the oldest first.
     *
     * @param before they were first named at this time or earlier
     * @return the numbers
     * @throws Exception of the database
     */
    List<Missing> missing(Instant before) throws Exception;

    /**
     * Deletes what was received before. Numbers up to the highest deleted one count as arrived.
     *
     * @param before the time
     * @throws Exception of the database
     */
    void forget(Instant before) throws Exception;
}
