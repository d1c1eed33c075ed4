package grapnel.receiver;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import grapnel.receiver.Vectors.Request;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Requests that Grapnel signed are accepted, and changed ones are refused. */
class SignaturesTest {
    private static Receiver receiver(JsonNode vector) {
        Instant now = Instant.ofEpochSecond(vector.get("now").asLong());
        return new Receiver(new MemoryStore(), Vectors.keys(vector)).withClock(Clock.fixed(now, ZoneOffset.UTC));
    }

    private static Event verify(JsonNode vector) throws VerificationException {
        Request request = Vectors.request(vector);
        return vector.get("standard").asBoolean()
                ? receiver(vector).verifyStandard(request.headers(), request.body())
                : receiver(vector).verify(request.headers(), request.body());
    }

    @TestFactory
    Stream<DynamicTest> everyRequest() {
        return StreamSupport.stream(Vectors.ALL.get("requests").spliterator(), false)
                .map(vector -> dynamicTest(vector.get("name").asText(), () -> {
                    if (!vector.get("valid").asBoolean()) {
                        assertThrows(VerificationException.class, () -> verify(vector));
                        return;
                    }
                    Event event = verify(vector);
                    assertArrayEquals(Vectors.body(vector), event.body());
                    Map<String, List<String>> headers = Vectors.request(vector).headers();
                    String name = headers.keySet().stream().filter("webhook-id"::equalsIgnoreCase).findAny().get();
                    assertEquals(headers.get(name), List.of(event.id()));
                }));
    }

    @Test
    void theFieldsOfAnEvent() throws Exception {
        Event e = verify(Vectors.named("every header"));
        assertEquals(
                Arrays.asList("plane", "issue.updated", "demo", 2L, true, "11400714819323198485", 19L, 17L, "6", "3-5",
                        true, true, "2026-11-21T13:09:13.021Z", Map.of("issue.created", 7L, "issue.updated", 12L)),
                Arrays.asList(e.source(), e.type(), e.workspace(), e.attempt(), e.numbered(), e.series(), e.sequence(),
                        e.previous(), e.sourceSequence(), e.gap(), e.late(), e.replay(), e.time(), e.clock()));
        Event alert = verify(Vectors.named("an alert: only webhook-signature"));
        assertEquals(Arrays.asList(null, 1L, false, 0L), Arrays.asList(alert.type(), alert.attempt(), alert.numbered(),
                alert.sequence()));
    }

    @Test
    void valuesInUtf8() throws Exception {
        Event event = verify(Vectors.named("values in UTF-8"));
        assertEquals(List.of("prüfung€", "naà"), List.of(event.type(), event.workspace()));
    }

    @Test
    void aValueThatWasDecodedOtherwiseIsRefusedWithAnExplanation() {
        Request request = Vectors.request(Vectors.delivery("in order", 0));
        request.headers().put("grapnel-type", List.of("prüfung€"));
        Receiver receiver = Vectors.receiver(new MemoryStore(), new Vectors.TestClock());
        assertSaid("Latin-1", assertThrows(IllegalArgumentException.class,
                () -> receiver.verify(request.headers(), request.body())));
    }

    @Test
    void aWrongSecretIsRefusedAtTheStart() {
        Map<String, String> wrong = Map.of("secret", "begins with", "", "begins with", "whsec_?", "base64", "whsec_",
                "base64", "whsec_AAA", "base64", "whsk_AAAA", "private key", "whpk_AAAA", "32 bytes",
                "whpk_//////////////////////////////////////////8=", "Ed25519");
        wrong.forEach((secret, said) -> assertSaid(said, assertThrows(IllegalArgumentException.class,
                () -> new Receiver(new MemoryStore(), secret), secret)));
        assertSaid("at least one",
                assertThrows(IllegalArgumentException.class, () -> new Receiver(new MemoryStore())));
    }

    @Test
    void hundredsOfSignaturesAreRefused() {
        Request request = Vectors.request(Vectors.delivery("in order", 0));
        request.headers().computeIfPresent("webhook-signature",
                (n, v) -> List.of(String.join(" ", Collections.nCopies(33, v.get(0)))));
        Receiver receiver = Vectors.receiver(new MemoryStore(), new Vectors.TestClock());
        assertSaid("more than 32", assertThrows(VerificationException.class,
                () -> receiver.verify(request.headers(), request.body())));
    }

    private static void assertSaid(String expected, Exception e) {
        assertTrue(e.getMessage().contains(expected), e.getMessage());
    }
}
