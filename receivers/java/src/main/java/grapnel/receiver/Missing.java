package grapnel.receiver;

import java.time.Instant;
import java.util.Comparator;

/**
 * A number that an event names as its previous one and that has not arrived.
 *
 * @param series of the number
 * @param workspace of the number
 * @param number that has not arrived
 * @param since when it was first named
 * @param unsure the number has arrived in another series, so a restored Grapnel may mean that event
 */
public record Missing(String series, String workspace, long number, Instant since, boolean unsure) {
    static final Comparator<Missing> OLDEST_FIRST =
            Comparator.comparing(Missing::since).thenComparing(Missing::number);
}
