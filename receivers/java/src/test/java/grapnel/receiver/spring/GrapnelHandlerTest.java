package grapnel.receiver.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import grapnel.receiver.MemoryStore;
import grapnel.receiver.Receiver;
import grapnel.receiver.Vectors;
import grapnel.receiver.Vectors.TestClock;
import jakarta.servlet.Filter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.context.WebServerApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.HttpRequestHandler;

/** GrapnelHandler in Spring Boot with its Tomcat: what it responds, over a real socket. */
class GrapnelHandlerTest {
    private static ConfigurableApplicationContext application;
    private static volatile GrapnelHandler current;

    @Configuration
    @EnableAutoConfiguration(exclude = DataSourceAutoConfiguration.class)
    static class Application {
        @Bean("/hooks")
        HttpRequestHandler hooks() {
            return (request, response) -> current.handleRequest(request, response);
        }

        /** As some filters do. */
        @Bean
        Filter readsForms() {
            return (request, response, chain) -> {
                request.getParameter("x");
                chain.doFilter(request, response);
            };
        }
    }

    private record Response(int status, String head) {}

    @BeforeAll
    static void start() {
        application = new SpringApplicationBuilder(Application.class).properties("server.port=0",
                "server.address=127.0.0.1", "spring.main.banner-mode=off", "logging.level.root=warn").run();
    }

    @AfterAll
    static void stop() {
        application.close();
    }

    private static Response ask(String method, JsonNode vector, byte[] body, String... more) throws IOException {
        StringBuilder head = new StringBuilder(method + " /hooks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        head.append("Content-Length: ").append(body.length).append("\r\n");
        for (String line : more) {
            head.append(line).append("\r\n");
        }
        for (JsonNode pair : vector.get("headers")) {
            head.append(pair.get(0).asText()).append(": ").append(pair.get(1).asText()).append("\r\n");
        }
        int port = ((WebServerApplicationContext) application).getWebServer().getPort();
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.writeBytes((head + "\r\n").getBytes(StandardCharsets.UTF_8));
            out.writeBytes(body);
            socket.getOutputStream().write(out.toByteArray());
            String said = new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
            return new Response(Integer.parseInt(said.split(" ")[1]), said);
        }
    }

    @TestFactory
    Stream<DynamicTest> everyRequest() {
        return StreamSupport.stream(Vectors.ALL.get("requests").spliterator(), false)
                .filter(vector -> !vector.get("standard").asBoolean())
                .map(vector -> dynamicTest(vector.get("name").asText(), () -> {
                    Clock clock = Clock.fixed(Instant.ofEpochSecond(vector.get("now").asLong()), ZoneOffset.UTC);
                    Receiver receiver = new Receiver(new MemoryStore(), Vectors.keys(vector)).withClock(clock);
                    current = new GrapnelHandler(receiver, (event, check, connection) -> {});
                    assertEquals(vector.get("valid").asBoolean() ? 204 : 401,
                            ask("POST", vector, Vectors.body(vector)).status);
                }));
    }

    private static void handle(grapnel.receiver.Handler handler) {
        current = new GrapnelHandler(Vectors.receiver(new MemoryStore(), new TestClock()), handler);
    }

    @Test
    void responses() throws Exception {
        JsonNode vector = Vectors.delivery("in order", 0);
        byte[] body = Vectors.body(vector);
        boolean[] fails = {true};
        handle((event, check, connection) -> {
            if (fails[0]) {
                throw new IOException("of the handler");
            }
        });
        current = current.withMaxBody(100);
        assertEquals(503, ask("POST", vector, body).status);
        fails[0] = false;
        assertEquals(204, ask("POST", vector, body).status);
        assertEquals(204, ask("PUT", vector, body).status);
        assertEquals(401, ask("POST", vector, new byte[100]).status);
        assertEquals(413, ask("POST", vector, new byte[101]).status);
        assertEquals(413, ask("POST", vector, new byte[8 << 20]).status); // Tomcat itself would reset the connection
        Response get = ask("GET", vector, new byte[0]);
        assertEquals(List.of(405, true), List.of(get.status, get.head.contains("Allow: POST, PUT")));
    }

    @Test
    void anEventThatIsBeingProcessed() throws Exception {
        CountDownLatch inside = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        handle((event, check, connection) -> {
            inside.countDown();
            go.await();
        });
        JsonNode vector = Vectors.delivery("in order", 0);
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try {
            Future<Response> first = thread.submit(() -> ask("POST", vector, Vectors.body(vector)));
            inside.await();
            Response second = ask("POST", vector, Vectors.body(vector));
            assertEquals(List.of(503, true), List.of(second.status, second.head.contains("Retry-After: 10")));
            go.countDown();
            assertEquals(204, first.get().status);
        } finally {
            go.countDown();
            thread.shutdown();
        }
    }

    /** 401 would blame the secret, and make a dead letter. */
    @Test
    void aBodyThatAFilterHasReadIsNotCalledAWrongSignature() throws Exception {
        handle((event, check, connection) -> {});
        JsonNode vector = Vectors.delivery("in order", 0);
        String form = "Content-Type: application/x-www-form-urlencoded";
        assertEquals(503, ask("POST", vector, Vectors.body(vector), form).status);
    }
}
