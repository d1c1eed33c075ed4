package grapnel.receiver;

/**
 * What a store knows about an event.
 *
 * @param result what is known
 * @param missing the number of the previous event, if that has not arrived; null: it has. Also with other results
 * @param after the last number before {@code missing} that has arrived: events between the two may be missing, too;
 *     null if {@code missing} is
 * @param unsure {@code missing} has arrived in an earlier series, so a restored Grapnel may mean that event
 * @param filled this event was missing until now
 * @param conflict the id of another event that has the same number (Grapnel's databases were set back without its
 *     knowledge), or null
 */
public record Check(Result result, Long missing, Long after, boolean unsure, boolean filled, String conflict) {
    /**
     * Whether there is something to do.
     *
     * @return false for a duplicate
     */
    public boolean first() {
        return result != Result.DUPLICATE;
    }
}
