package grapnel.receiver;

import java.security.SecureRandom;
import java.time.Instant;
import java.util.HexFormat;

/**
 * A store whose memory cannot share a transaction with your work: an event is claimed, processed, and then stored as
 * processed. A claim that nobody ends (the process died) ends by itself.
 */
abstract class ClaimStore implements Store {
    private static final SecureRandom RANDOM = new SecureRandom();

    /** `facts`: null if the event's number does not count. */
    record Claim(boolean first, Decision.Facts facts) {}

    abstract Claim claim(Event event, String token, boolean counts) throws Exception;

    abstract void release(Event event, String token) throws Exception;

    abstract void finish(Event event, boolean counts, Decision decision, long nowS) throws Exception;

    @Override
    public final Check process(Event event, Instant now, boolean order, Handler handler) throws Exception {
        byte[] random = new byte[8];
        RANDOM.nextBytes(random);
        String token = HexFormat.of().formatHex(random);
        boolean counts = order && event.numbered();
        Claim claim = claim(event, token, counts);
        Decision decision =
                counts ? Decision.of(event, claim.first, claim.facts) : Decision.plain(claim.first);
        if (claim.first) {
            try {
                handler.handle(event, decision.check(), null);
            } catch (Throwable e) {
                try {
                    release(event, token);
                } catch (Exception second) {
                    e.addSuppressed(second);
                }
                throw e;
            }
        }
        finish(event, counts, decision, now.getEpochSecond());
        return decision.check();
    }
}
