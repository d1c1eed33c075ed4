package grapnel.receiver;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Verifies requests, and processes their events once. Threads may share it if they may share its store. */
public final class Receiver {
    private final Store store;
    private final Verifier verifier;
    private final Duration tolerance;
    private final boolean order;
    private final Clock clock;

    /**
     * A receiver that also checks the order, and accepts requests whose time is at most 5 minutes from the machine's.
     *
     * @param store keeps ids and numbers
     * @param secrets of the endpoint, {@code whsec_…} or {@code whpk_…}: two or more while you change one
     * @throws IllegalArgumentException if a secret is wrong
     */
    public Receiver(Store store, String... secrets) {
        this(Objects.requireNonNull(store, "store"), new Verifier(secrets), Duration.ofSeconds(300), true,
                Clock.systemUTC());
    }

    private Receiver(Store store, Verifier verifier, Duration tolerance, boolean order, Clock clock) {
        this.store = store;
        this.verifier = verifier;
        this.tolerance = tolerance;
        this.order = order;
        this.clock = clock;
    }

    /**
     * The same with another tolerance.
     *
     * @param tolerance how far webhook-timestamp may be from this machine's clock
     * @return a new receiver
     */
    public Receiver withTolerance(Duration tolerance) {
        return new Receiver(store, verifier, tolerance, order, clock);
    }

    /**
     * The same that only deduplicates. Then events of a workspace do not wait for each other.
     *
     * @return a new receiver
     */
    public Receiver withoutOrder() {
        return new Receiver(store, verifier, tolerance, false, clock);
    }

    /**
     * The same with another clock, for tests.
     *
     * @param clock says what time it is
     * @return a new receiver
     */
    public Receiver withClock(Clock clock) {
        return new Receiver(store, verifier, tolerance, order, clock);
    }

    /**
     * Checks both signatures.
     *
     * @param headers all of them; names in any case, values as Latin-1 text, as servlet containers have them. Spring's
     *     HttpHeaders (6) is such a map
     * @param body the bytes, before any parser has changed them
     * @return the event
     * @throws VerificationException if the request is not from your Grapnel, or not as Grapnel sent it
     */
    public Event verify(Map<String, List<String>> headers, byte[] body) throws VerificationException {
        return verifier.verify(headers, body, clock.instant(), tolerance.toSeconds());
    }

    /**
     * Checks a request without grapnel-signature, such as an alert: the event has only id, timestamp and body.
     *
     * @param headers as of {@link #verify}
     * @param body the bytes
     * @return the event
     * @throws VerificationException if the request is not from your Grapnel, or not as Grapnel sent it
     */
    public Event verifyStandard(Map<String, List<String>> headers, byte[] body) throws VerificationException {
        return verifier.verifyStandard(headers, body, clock.instant(), tolerance.toSeconds());
    }

    /**
     * {@link #verify} and {@link #process}.
     *
     * @param headers as of {@link #verify}
     * @param body the bytes
     * @param handler your work
     * @return what is known about the event
     * @throws VerificationException respond 401
     * @throws BusyException respond 503 with Retry-After
     * @throws Exception of the handler or the store: respond 503, and Grapnel sends the event again
     */
    public Check receive(Map<String, List<String>> headers, byte[] body, Handler handler) throws Exception {
        return process(verify(headers, body), handler);
    }

    /**
     * Calls the handler unless the event is a duplicate, and stores the event as processed. If the handler throws,
     * nothing is stored.
     *
     * @param event of {@link #verify}
     * @param handler your work
     * @return what is known about the event
     * @throws BusyException respond 503 with Retry-After
     * @throws Exception of the handler or the store
     */
    public Check process(Event event, Handler handler) throws Exception {
        return store.process(event, clock.instant(), order, handler);
    }

    /**
     * Stores the event in the transaction that you have begun, and leaves it open. Commit after your work; roll back
     * after an error.
     *
     * @param event of {@link #verify}
     * @param connection of your transaction
     * @return what is known about the event: skip the work if {@link Check#first} is false
     * @throws SQLException of the database
     * @throws UnsupportedOperationException if the store has no transactions
     */
    public Check check(Event event, Connection connection) throws SQLException {
        return store.check(event, clock.instant(), order, connection);
    }

    /**
     * Lists events that were named, but have not arrived.
     *
     * @param older for how long
     * @return the oldest first
     * @throws Exception of the store
     */
    public List<Missing> missing(Duration older) throws Exception {
        return store.missing(clock.instant().minus(older));
    }

    /**
     * Deletes what is older than {@link Store#KEEP}. Call it once a day.
     *
     * @throws Exception of the store
     */
    public void forget() throws Exception {
        Instant before = clock.instant().minus(Store.KEEP);
        store.forget(before);
    }
}
