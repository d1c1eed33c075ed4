package grapnel.receiver;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A verified delivery. A text is null if its header is absent. */
public final class Event {
    private static final Pattern NUMBER = Pattern.compile("[0-9]{1,19}");
    private static final Pattern COUNT = Pattern.compile("([^,]*)=([0-9]{1,18})(,|$)");

    private final String id;
    private final Instant timestamp;
    private final byte[] body;
    private final Map<String, String> headers;
    private final long attempt;
    private final boolean numbered;
    private final long sequence;
    private final long previous;

    /** `headers`: those that grapnel-signature covers, in lower case. */
    Event(String id, Instant timestamp, byte[] body, Map<String, String> headers) throws VerificationException {
        this.id = id;
        this.timestamp = timestamp;
        this.body = body.clone();
        this.headers = Map.copyOf(headers);
        attempt = headers.containsKey("grapnel-attempt") ? number("grapnel-attempt") : 1;
        numbered = headers.containsKey("grapnel-sequence");
        if (numbered && (series() == null || workspace() == null || !headers.containsKey("grapnel-previous"))) {
            throw new VerificationException("grapnel-sequence came without series, previous or workspace");
        }
        sequence = numbered ? number("grapnel-sequence") : 0;
        previous = numbered ? number("grapnel-previous") : 0;
    }

    private long number(String name) throws VerificationException {
        String text = headers.get(name);
        try {
            if (NUMBER.matcher(text).matches()) {
                return Long.parseLong(text);
            }
        } catch (NumberFormatException e) {
            // It is above Long.MAX_VALUE.
        }
        throw new VerificationException(name + " is not a number");
    }

    /**
     * The same for each attempt of the event: use it as an idempotency key.
     *
     * @return webhook-id
     */
    public String id() {
        return id;
    }

    /**
     * When this attempt was signed.
     *
     * @return webhook-timestamp
     */
    public Instant timestamp() {
        return timestamp;
    }

    /**
     * The body, byte for byte.
     *
     * @return a copy
     */
    public byte[] body() {
        return body.clone();
    }

    /**
     * The body as UTF-8 text, for a parser of JSON.
     *
     * @return the text
     */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /**
     * The headers that grapnel-signature covers.
     *
     * @return values by name in lower case
     */
    public Map<String, String> headers() {
        return headers;
    }

    /**
     * The source of grapnel.yaml that received it.
     *
     * @return grapnel-source
     */
    public String source() {
        return headers.get("grapnel-source");
    }

    /**
     * The type of the event.
     *
     * @return grapnel-type
     */
    public String type() {
        return headers.get("grapnel-type");
    }

    /**
     * The workspace within which events are numbered.
     *
     * @return grapnel-workspace
     */
    public String workspace() {
        return headers.get("grapnel-workspace");
    }

    /**
     * When Grapnel received it.
     *
     * @return grapnel-time
     */
    public String time() {
        return headers.get("grapnel-time");
    }

    /**
     * Which attempt this is: the first one is 1.
     *
     * @return grapnel-attempt
     */
    public long attempt() {
        return attempt;
    }

    /**
     * Whether it has a number. Tests of an endpoint and requests for missing events do not.
     *
     * @return true if series, sequence and previous are there
     */
    public boolean numbered() {
        return numbered;
    }

    /**
     * The series of numbers.
     *
     * @return grapnel-series
     */
    public String series() {
        return headers.get("grapnel-series");
    }

    /**
     * The number of the event.
     *
     * @return grapnel-sequence, or 0 without a number
     */
    public long sequence() {
        return sequence;
    }

    /**
     * The number of the previous event of its workspace that this endpoint gets.
     *
     * @return grapnel-previous, or 0 without a number
     */
    public long previous() {
        return previous;
    }

    /**
     * The number that the provider gave it.
     *
     * @return grapnel-source-sequence
     */
    public String sourceSequence() {
        return headers.get("grapnel-source-sequence");
    }

    /**
     * Which numbers of the provider are missing before it.
     *
     * @return grapnel-gap
     */
    public String gap() {
        return headers.get("grapnel-gap");
    }

    /**
     * Whether Grapnel received it after a later one.
     *
     * @return true with grapnel-late
     */
    public boolean late() {
        return headers.containsKey("grapnel-late");
    }

    /**
     * Whether an operator sent it again.
     *
     * @return true with grapnel-replay
     */
    public boolean replay() {
        return headers.containsKey("grapnel-replay");
    }

    /**
     * How many events of each type the workspace has had.
     *
     * @return grapnel-clock: counts by type
     */
    public Map<String, Long> clock() {
        Map<String, Long> counts = new HashMap<>();
        Matcher entry = COUNT.matcher(headers.getOrDefault("grapnel-clock", ""));
        while (entry.find()) {
            String type = entry.group(1).replace("%2C", ",").replace("%3D", "=").replace("%25", "%"); // % is the last
            counts.put(type, Long.valueOf(entry.group(2)));
        }
        return counts;
    }

    @Override
    public String toString() {
        return numbered ? id + " (" + workspace() + " " + sequence + ")" : id;
    }
}
