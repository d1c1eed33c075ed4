package grapnel.receiver;

import java.sql.Connection;

/** Does your work. It is called once for each event, and not for duplicates. */
@FunctionalInterface
public interface Handler {
    /**
     * Does the work of one event.
     *
     * @param event that was received
     * @param check what is known about it
     * @param connection of the transaction that stores the event as processed: write with it, and do not commit. Null
     *     with {@link MemoryStore} and {@link RedisStore}
     * @throws Exception if the event is not processed: then nothing is stored, and Grapnel sends it again
     */
    void handle(Event event, Check check, Connection connection) throws Exception;
}
