package grapnel.receiver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import grapnel.receiver.Vectors.Request;
import grapnel.receiver.Vectors.TestClock;
import grapnel.receiver.spring.SpringTransactions;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.sql.Connection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.sql.DataSource;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import redis.clients.jedis.JedisPooled;

/** Each store: what it says of Grapnel's deliveries, and what it has stored after an error, a rollback, or a crash. */
class StoresTest {
    private static final Handler NOTHING = (event, check, connection) -> {};
    private static final Duration SHORT = Duration.ofMillis(100);

    @TempDir
    static Path folder;

    private static int files;

    /** A store that is empty, and its receiver. `source` is null without transactions. */
    private static final class Opened {
        final Store store;
        final DataSource source;
        final TestClock clock = new TestClock();
        final Receiver receiver;

        Opened(Store store, DataSource source) {
            this.store = store;
            this.source = source;
            receiver = Vectors.receiver(store, clock);
        }

        Event event(String scenario, int number) throws Exception {
            Request request = Vectors.request(Vectors.delivery(scenario, number));
            return receiver.verify(request.headers(), request.body());
        }

        Check receive(String scenario, int number, Handler handler) throws Exception {
            return receiver.process(event(scenario, number), handler);
        }

        /** What is said, and that the handler was called if it had to be. */
        Check take(Receiver receiver, String scenario, int number) throws Exception {
            List<Check> calls = new ArrayList<>();
            Request request = Vectors.request(Vectors.delivery(scenario, number));
            Check check = receiver.receive(request.headers(), request.body(), (e, given, connection) -> {
                assertEquals(source != null, connection != null);
                calls.add(given);
            });
            assertEquals(check.first() ? List.of(check) : List.of(), calls);
            return check;
        }

        Result take(String scenario, int number) throws Exception {
            return take(receiver, scenario, number).result();
        }

        List<Missing> missing(long olderS) throws Exception {
            return receiver.missing(Duration.ofSeconds(olderS));
        }
    }

    private interface Test {
        void run(Opened opened) throws Exception;
    }

    private static DynamicTest test(String name, Callable<Opened> fresh, Test body) {
        return dynamicTest(name, () -> body.run(fresh.call()));
    }

    /** What all stores do. */
    private static List<DynamicTest> all(Callable<Opened> fresh) {
        List<DynamicTest> tests = new ArrayList<>();
        for (JsonNode scenario : Vectors.ALL.get("order")) {
            tests.add(test(scenario.get("name").asText(), fresh, opened -> saysAsGrapnel(opened, scenario)));
        }
        tests.add(test("only deduplicates, if asked", fresh, opened -> {
            Receiver receiver = opened.receiver.withoutOrder();
            assertEquals(Result.OK, opened.take(receiver, "a loss", 0).result());
            assertEquals(Result.OK, opened.take(receiver, "a loss", 2).result());
            assertEquals(Result.DUPLICATE, opened.take(receiver, "a loss", 2).result());
            assertEquals(List.of(), opened.missing(0));
        }));
        tests.addAll(whatCommits(fresh));
        return tests;
    }

    /** What depends on when a store commits, and when it rolls back. */
    private static List<DynamicTest> whatCommits(Callable<Opened> fresh) {
        List<DynamicTest> tests = new ArrayList<>();
        tests.add(test("stores nothing after an error", fresh, StoresTest::storesNothingAfterAnError));
        tests.add(test("waits before it calls an event missing, and forgets", fresh, StoresTest::waitsAndForgets));
        tests.add(test("the same event twice at once: one waits, or comes again", fresh, StoresTest::twiceAtOnce));
        return tests;
    }

    private static void saysAsGrapnel(Opened opened, JsonNode scenario) throws Exception {
        int i = 0;
        for (JsonNode d : scenario.get("deliveries")) {
            Check expected = new Check(Result.valueOf(d.get("result").asText().toUpperCase(Locale.ROOT)),
                    d.get("missing").isNull() ? null : (Long) d.get("missing").asLong(),
                    d.get("after").isNull() ? null : (Long) d.get("after").asLong(), d.get("unsure").asBoolean(),
                    d.get("filled").asBoolean(), d.get("conflict").isNull() ? null : d.get("conflict").asText());
            assertEquals(expected, opened.take(opened.receiver, scenario.get("name").asText(), i), "delivery " + i);
            assertEquals(d.get("result").asText(), expected.result().toString());
            i++;
        }
        List<List<Object>> missing = new ArrayList<>();
        opened.missing(0).forEach(m -> missing.add(List.of(m.series(), m.workspace(), m.number(), m.unsure())));
        List<List<Object>> expected = new ArrayList<>();
        scenario.get("missing").forEach(m -> expected.add(List.of(m.get(0).asText(), m.get(1).asText(),
                m.get(2).asLong(), m.get(3).asBoolean())));
        assertEquals(expected, missing);
    }

    private static void storesNothingAfterAnError(Opened opened) throws Exception {
        for (Throwable fails : List.of(new IOException("of the handler"), new IllegalStateException("of the handler"),
                new AssertionError("of the handler"))) {
            for (int n : new int[] {0, 0, 2}) {
                Throwable thrown = assertThrows(fails.getClass(), () -> opened.receive("a loss", n, (e, c, tx) -> {
                    if (fails instanceof Error error) {
                        throw error;
                    }
                    throw (Exception) fails;
                }));
                assertEquals(fails, thrown);
            }
        }
        assertEquals(Result.OK, opened.take("a loss", 0));
        assertEquals(Result.OK, opened.take("a loss", 1));
        assertEquals(List.of(), opened.missing(0));
    }

    private static void waitsAndForgets(Opened opened) throws Exception {
        opened.take("a loss", 0);
        opened.clock.pass(10);
        opened.take("a loss", 2);
        opened.clock.pass(100);
        List<Missing> three = List.of(new Missing("1", "w", 3, Vectors.NOW.plusSeconds(10), false));
        assertEquals(List.of(), opened.missing(101));
        assertEquals(three, opened.missing(100));
        opened.store.forget(Vectors.NOW.plusSeconds(9));
        assertEquals(three, opened.missing(0));
        opened.store.forget(Vectors.NOW.plusSeconds(11)); // raises the floor to 4
        assertEquals(List.of(), opened.missing(0));
        assertEquals(Result.OK, opened.take("a loss", 3));
        assertEquals(List.of(), opened.missing(0));
        opened.clock.pass(Store.KEEP.toSeconds() + 1);
        opened.receiver.forget();
        assertEquals(List.of(), opened.missing(0));
    }

    /** Work that another thread has begun, and that ends when the test says so. */
    private static final class Begun implements AutoCloseable {
        final ExecutorService threads = Executors.newCachedThreadPool();
        final CountDownLatch inside = new CountDownLatch(1);
        final CountDownLatch go = new CountDownLatch(1);
        final Future<Check> first;

        Begun(Opened opened, String scenario, int number) throws Exception {
            first = threads.submit(() -> opened.receive(scenario, number, (event, check, connection) -> {
                inside.countDown();
                go.await();
            }));
            assertTrue(inside.await(60, TimeUnit.SECONDS));
        }

        Future<Check> also(Opened opened, String scenario, int number) {
            return threads.submit(() -> opened.receive(scenario, number, NOTHING));
        }

        @Override
        public void close() {
            go.countDown();
            threads.shutdown();
        }
    }

    private static boolean waits(Future<Check> future) throws Exception {
        try {
            future.get(SHORT.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            return true;
        } catch (ExecutionException e) {
            // It has ended, too.
        }
        return false;
    }

    private static void twiceAtOnce(Opened opened) throws Exception {
        try (Begun begun = new Begun(opened, "in order", 0)) {
            Future<Check> second = begun.also(opened, "in order", 0);
            boolean waited = waits(second);
            assertEquals(opened.source != null, waited);
            begun.go.countDown();
            assertEquals(Result.OK, begun.first.get().result());
            if (waited) {
                assertEquals(Result.DUPLICATE, second.get().result());
            } else {
                assertTrue(assertThrows(ExecutionException.class, second::get).getCause() instanceof BusyException);
            }
            assertEquals(Result.DUPLICATE, opened.take("in order", 0));
        }
    }

    /** What stores with transactions do beside that, at `url`. */
    private static List<DynamicTest> inSql(Callable<Opened> fresh, Callable<String> url) {
        List<DynamicTest> tests = new ArrayList<>();
        tests.add(test("work and event are one transaction", fresh, opened -> {
            assertThrows(IOException.class, () -> opened.receive("in order", 0, (event, check, connection) -> {
                Databases.work(connection);
                throw new IOException("after the work");
            }));
            assertEquals(0, Databases.count(opened.source));
            for (Result said : List.of(Result.OK, Result.DUPLICATE)) {
                assertEquals(said, opened.receive("in order", 0,
                        (event, check, connection) -> Databases.work(connection)).result());
            }
            assertEquals(1, Databases.count(opened.source));
        }));
        tests.add(test("joins the transaction of the caller", fresh, opened -> {
            Event event = opened.event("in order", 0);
            try (Connection own = opened.source.getConnection()) {
                assertThrows(IllegalArgumentException.class, () -> opened.receiver.check(event, own));
                own.setAutoCommit(false);
                assertEquals(Result.OK, opened.receiver.check(event, own).result());
                Databases.work(own);
                own.rollback();
                assertEquals(Result.OK, opened.receiver.check(event, own).result());
                Databases.work(own);
                own.commit();
                assertEquals(Result.DUPLICATE, opened.receiver.check(event, own).result());
                own.rollback();
            }
            assertEquals(1, Databases.count(opened.source));
        }));
        tests.add(test("a kill between work and commit leaves neither", fresh, opened -> {
            Process child = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
                    Databases.class.getName(), url.call()).inheritIO().start();
            assertEquals(Databases.DIED, child.waitFor());
            assertEquals(0, Databases.count(opened.source));
            assertEquals(Result.OK, opened.take("in order", 0));
        }));
        tests.add(test("an older event waits for the newer one", fresh, opened -> {
            String scenario = "a loss, sent again";
            opened.take(scenario, 0);
            try (Begun newer = new Begun(opened, scenario, 1)) {
                Future<Check> older = newer.also(opened, scenario, 3);
                assertTrue(waits(older));
                newer.go.countDown();
                assertEquals(Result.GAP_DETECTED, newer.first.get().result());
                assertEquals(Result.OLD_EVENT, older.get().result());
            }
        }));
        return tests;
    }

    private static Opened opened(String url, Transactions transactions, DataSource source) throws Exception {
        JdbcStore store = Databases.store(url, transactions);
        Databases.empty(source, store);
        return new Opened(store, source);
    }

    private static String file() {
        return "jdbc:sqlite:" + folder.resolve(files + ".db");
    }

    private static String server(String variable) {
        String url = System.getenv(variable);
        assumeTrue(url != null, variable + " is not set");
        return url;
    }

    @TestFactory
    List<DynamicTest> memory() {
        List<DynamicTest> tests = all(() -> new Opened(new MemoryStore(), null));
        Callable<Opened> brief = () -> new Opened(new MemoryStore(Duration.ofSeconds(100)), null);
        tests.add(test("forgets by itself", brief, opened -> {
            opened.take("a loss", 0);
            opened.clock.pass(101);
            opened.take("a loss", 3); // it forgets number 1
            assertEquals(Result.OLD_EVENT, opened.take("a loss", 0));
        }));
        tests.add(test("joins no transaction", () -> new Opened(new MemoryStore(), null),
                opened -> assertThrows(UnsupportedOperationException.class,
                        () -> opened.receiver.check(opened.event("in order", 0), null))));
        return tests;
    }

    @TestFactory
    List<DynamicTest> sqlite() {
        Callable<Opened> fresh = () -> {
            files++;
            DataSource source = Databases.source(file());
            return opened(file(), Transactions.of(source), source);
        };
        List<DynamicTest> tests = all(fresh);
        tests.addAll(inSql(fresh, StoresTest::file));
        return tests;
    }

    @TestFactory
    List<DynamicTest> postgresql() {
        String url = server("GRAPNEL_TEST_POSTGRES");
        DataSource source = Databases.source(url);
        Callable<Opened> fresh = () -> opened(url, Transactions.of(source), source);
        List<DynamicTest> tests = all(fresh);
        tests.addAll(inSql(fresh, () -> url));
        return tests;
    }

    @TestFactory
    List<DynamicTest> springInSqlite() {
        return inSpring(() -> {
            files++;
            return file();
        }, StoresTest::file);
    }

    @TestFactory
    List<DynamicTest> springInPostgresql() {
        String url = server("GRAPNEL_TEST_POSTGRES");
        return inSpring(() -> url, () -> url);
    }

    private static List<DynamicTest> inSpring(Callable<String> next, Callable<String> url) {
        Callable<Opened> fresh = () -> {
            DataSource source = Databases.source(next.call());
            return opened(url.call(), new SpringTransactions(new DataSourceTransactionManager(source), source), source);
        };
        List<DynamicTest> tests = whatCommits(fresh);
        tests.addAll(inSql(fresh, url));
        tests.add(test("JdbcTemplate joins the transaction", fresh, opened -> {
            JdbcTemplate jdbc = new JdbcTemplate(opened.source);
            assertThrows(IOException.class, () -> opened.receive("in order", 0, (event, check, connection) -> {
                jdbc.update("INSERT INTO work VALUES ('x')");
                throw new IOException("after the work");
            }));
            assertEquals(0, Databases.count(opened.source));
            opened.receive("in order", 0, (e, c, connection) -> jdbc.update("INSERT INTO work VALUES ('x')"));
            assertEquals(1, Databases.count(opened.source));
        }));
        tests.add(test("the manager of another source is refused", fresh, opened -> {
            DataSource other = Databases.source(url.call());
            Transactions wrong = new SpringTransactions(new DataSourceTransactionManager(other), opened.source);
            Opened apart = new Opened(Databases.store(url.call(), wrong), opened.source);
            assertThrows(IllegalStateException.class, () -> apart.receive("in order", 0, NOTHING));
            assertEquals(Result.OK, opened.take("in order", 0));
        }));
        return tests;
    }

    @TestFactory
    List<DynamicTest> redis() {
        JedisPooled jedis = new JedisPooled(URI.create(server("GRAPNEL_TEST_REDIS")));
        Callable<Opened> fresh = () -> {
            jedis.flushAll();
            return new Opened(new RedisStore(jedis::eval), null);
        };
        List<DynamicTest> tests = all(fresh);
        tests.add(test("a claim of a dead process ends, and the work is done twice", fresh, opened -> {
            RedisStore store = new RedisStore(jedis::eval).withLease(Duration.ofSeconds(1));
            store.claim(opened.event("in order", 0), "of a dead one", false);
            assertThrows(BusyException.class, () -> opened.take("in order", 0));
            Result said = null;
            while (said == null) {
                try {
                    said = opened.take("in order", 0);
                } catch (BusyException e) {
                    Thread.sleep(20);
                }
            }
            assertEquals(Result.OK, said);
            assertEquals(Result.DUPLICATE, opened.take("in order", 0));
        }));
        tests.add(test("another prefix is another memory", fresh, opened -> {
            opened.take("in order", 0);
            RedisStore store = new RedisStore(jedis::eval).withPrefix("{other}").withKeep(Duration.ofDays(1));
            Opened other = new Opened(store, null);
            assertEquals(Result.OK, other.take("in order", 0));
            assertFalse(jedis.keys("{other}:*").isEmpty());
            assertTrue(jedis.ttl("{other}:id:" + other.event("in order", 0).id()) <= 86400);
        }));
        return tests;
    }
}
