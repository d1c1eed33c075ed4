package grapnel.receiver;

import java.util.Locale;

/** What is known about an event. */
public enum Result {
    /** New, and no event is missing before it. */
    OK,
    /** Processed before: skip it. */
    DUPLICATE,
    /** New, but a later event of its workspace was processed before it. */
    OLD_EVENT,
    /** New, and the event {@link Check#missing} has not arrived. */
    GAP_DETECTED,
    /** New, and the first one after Grapnel began to number anew. */
    NEW_SERIES;

    /**
     * The name that the documents and the libraries of other languages use.
     *
     * @return for example {@code gap_detected}
     */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
