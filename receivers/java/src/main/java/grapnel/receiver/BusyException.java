package grapnel.receiver;

/** Another attempt of this event is being processed. Respond 503 with Retry-After: Grapnel sends it again. */
public class BusyException extends Exception {
    private static final long serialVersionUID = 1;

    /**
     * Of a store.
     *
     * @param id of the event
     */
    public BusyException(String id) {
        super("event " + id + " is being processed");
    }
}
