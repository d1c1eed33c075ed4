package grapnel.receiver;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** receivers/vectors.json, which Grapnel made. */
public final class Vectors {
    public static final JsonNode ALL = read();
    public static final String KEY = ALL.at("/order/0/key").asText();
    public static final Instant NOW = Instant.ofEpochSecond(ALL.at("/order/0/now").asLong());

    private Vectors() {}

    private static JsonNode read() {
        try {
            return new ObjectMapper().readTree(Path.of("../vectors.json").toFile());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A request: its headers as a servlet container has them, and its body. */
    public record Request(Map<String, List<String>> headers, byte[] body) {}

    public static Request request(JsonNode vector) {
        Map<String, List<String>> headers = new HashMap<>();
        for (JsonNode pair : vector.get("headers")) {
            headers.computeIfAbsent(pair.get(0).asText(), n -> new ArrayList<>()).add(latin1(pair.get(1).asText()));
        }
        return new Request(headers, body(vector));
    }

    public static byte[] body(JsonNode vector) {
        try {
            return vector.get("body_base64").binaryValue();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String latin1(String text) {
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1);
    }

    public static JsonNode named(String name) {
        for (JsonNode vector : ALL.get("requests")) {
            if (vector.get("name").asText().equals(name)) {
                return vector;
            }
        }
        throw new IllegalArgumentException(name);
    }

    public static String[] keys(JsonNode vector) {
        return new ObjectMapper().convertValue(vector.get("keys"), new TypeReference<String[]>() {});
    }

    /** The delivery `number` of a scenario. */
    public static JsonNode delivery(String scenario, int number) {
        for (JsonNode found : ALL.get("order")) {
            if (found.get("name").asText().equals(scenario)) {
                return found.get("deliveries").get(number);
            }
        }
        throw new IllegalArgumentException(scenario);
    }

    public static Receiver receiver(Store store, Clock clock) {
        return new Receiver(store, KEY).withClock(clock).withTolerance(Duration.ofSeconds(1_000_000_000));
    }

    /** A clock that a test sets. */
    public static final class TestClock extends Clock {
        private volatile Instant now = NOW;

        public void pass(long seconds) {
            now = now.plusSeconds(seconds);
        }

        @Override
        public Instant instant() {
            return now;
        }

        @Override
        public ZoneId getZone() {
            return ZoneOffset.UTC;
        }

        @Override
        public Clock withZone(ZoneId zone) {
            return this;
        }
    }
}
