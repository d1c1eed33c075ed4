package grapnel.receiver;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps ids and numbers in one Redis or a cluster, which cannot take part in the transaction of your database. If the
 * process dies after your work and before the event is stored as processed, Grapnel sends it again after the lease of
 * its claim, and your work is done twice.
 */
public final class RedisStore extends ClaimStore {
    // Keys have one prefix with braces, so that a cluster keeps them together. The libraries of other languages have
    // the same keys:
    //   PREFIX:id:ID                   "done", or the token of a claim
    //   PREFIX:series:WORKSPACE        the set of its series
    //   PREFIX:state:SERIES:WORKSPACE  hash: floor, announced
    //   PREFIX:numbers:…               sorted set of numbers, by number
    //   PREFIX:ids:…                   hash: number → id
    //   PREFIX:times:…                 sorted set of numbers, by time
    //   PREFIX:missing:…               hash: number → since
    //   PREFIX:spaces                  the set of SERIES:WORKSPACE
    // They expire when nothing has arrived for `keep`.
    private static final String CLAIM = """
            local p, id, token, lease, series, workspace, sequence, previous = unpack(ARGV)
            local new = redis.call('SET', p..':id:'..id, token, 'NX', 'EX', lease)
            if not new and redis.call('GET', p..':id:'..id) ~= 'done' then return {'busy'} end
            local out = {new and 'new' or 'done'}
            if series == '' then return out end
            local here = series..':'..workspace
            local state = redis.call('HMGET', p..':state:'..here, 'floor', 'announced')
            local numbers = p..':numbers:'..here
            local top = redis.call('ZREVRANGE', numbers, 0, 0)
            local below = redis.call('ZREVRANGEBYSCORE', numbers, '('..previous, '-inf', 'LIMIT', 0, 1)
            local earlier, other = '', ''
            for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
              if s ~= series then
                if redis.call('HGET', p..':state:'..s..':'..workspace, 'floor') then earlier = '1' end
                if redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, previous) then other = '1' end
              end
            end
            local holder = redis.call('HGET', p..':ids:'..here, sequence)
            for _, v in ipairs({state[1] or '', state[2] or '', earlier, holder or '', top[1] or '',
                redis.call('ZSCORE', numbers, previous) and '1' or '', below[1] or '',
                redis.call('HEXISTS', p..':missing:'..here, sequence) == 1 and '1' or '', other}) do
              table.insert(out, v)
            end
            return out
            """;
    private static final String FINISH = """
            local p, id, now, keep, series, workspace, sequence, previous, floor, announced = unpack(ARGV)
            redis.call('SET', p..':id:'..id, 'done', 'EX', keep)
            if series == '' then return 0 end
            local here = series..':'..workspace
            local state, numbers, ids = p..':state:'..here, p..':numbers:'..here, p..':ids:'..here
            local times, missing = p..':times:'..here, p..':missing:'..here
            if floor ~= '' then redis.call('HSETNX', state, 'floor', floor) end
            if announced == '1' then redis.call('HSET', state, 'announced', 1) end
            redis.call('HSETNX', state, 'known', 1)
            if redis.call('HSETNX', ids, sequence, id) == 1 then
              redis.call('ZADD', numbers, sequence, sequence)
              redis.call('ZADD', times, now, sequence)
            end
            redis.call('HDEL', missing, sequence)
            floor = tonumber(redis.call('HGET', state, 'floor') or '')
            if floor and tonumber(previous) > floor and not redis.call('ZSCORE', numbers, previous) then
              redis.call('HSETNX', missing, previous, now)
            end
            redis.call('SADD', p..':spaces', here)
            redis.call('SADD', p..':series:'..workspace, series)
            for _, key in ipairs({state, numbers, ids, times, missing, p..':series:'..workspace}) do
              redis.call('EXPIRE', key, keep)
            end
            return 0
            """;
    private static final String RELEASE = """
            local key = ARGV[1]..':id:'..ARGV[2]
            if redis.call('GET', key) == ARGV[3] then redis.call('DEL', key) end
            return 0
            """;
    // number, since, "1" if another series has it; and again
    private static final String MISSING = """
            local p, before, series, workspace = unpack(ARGV)
            local found = redis.call('HGETALL', p..':missing:'..series..':'..workspace)
            local out = {}
            for i = 1, #found, 2 do
              if tonumber(found[i + 1]) <= tonumber(before) then
                local other = ''
                for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
                  if s ~= series and redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, found[i]) then
                    other = '1'
                  end
                end
                table.insert(out, found[i])
                table.insert(out, found[i + 1])
                table.insert(out, other)
              end
            end
            return out
            """;
    // At most 1000 numbers at once; returns how many.
    private static final String FORGET = """
            local p, before, series, workspace = unpack(ARGV)
            local here = series..':'..workspace
            local state, numbers, times = p..':state:'..here, p..':numbers:'..here, p..':times:'..here
            if redis.call('EXISTS', state) == 0 then redis.call('SREM', p..':spaces', here) return 0 end
            local old = redis.call('ZRANGEBYSCORE', times, '-inf', '('..before, 'LIMIT', 0, 1000)
            local floor = tonumber(redis.call('HGET', state, 'floor') or '')
            for _, n in ipairs(old) do
              redis.call('ZREM', numbers, n)
              redis.call('ZREM', times, n)
              redis.call('HDEL', p..':ids:'..here, n)
              if floor and tonumber(n) > floor then
                floor = tonumber(n)
                redis.call('HSET', state, 'floor', n)
              end
            end
            if #old > 0 and floor then
              for _, n in ipairs(redis.call('HKEYS', p..':missing:'..here)) do
                if tonumber(n) <= floor then redis.call('HDEL', p..':missing:'..here, n) end
              end
            end
            return #old
            """;
    private static final String SPACES = "return redis.call('SMEMBERS', ARGV[1]..':spaces')";

    private final Eval redis;
    private final String prefix;
    private final Duration keep;
    private final Duration lease;

    /** Runs a script in Redis. With Jedis it is {@code jedis::eval}. */
    @FunctionalInterface
    public interface Eval {
        /**
         * Runs a script.
         *
         * @param script in Lua
         * @param keys KEYS of the script, which tell a cluster what node has the data
         * @param arguments ARGV of the script
         * @return what the script returned: an integer, or a list of texts (String or byte[])
         * @throws Exception of the client or the server
         */
        Object eval(String script, List<String> keys, List<String> arguments) throws Exception;
    }

    /**
     * Keys begin with {@code {grapnel}}, events are remembered for {@link Store#KEEP}, and a claim ends after 60 s.
     *
     * @param redis runs a script
     */
    public RedisStore(Eval redis) {
        this(redis, "{grapnel}", KEEP, Duration.ofSeconds(60));
    }

    private RedisStore(Eval redis, String prefix, Duration keep, Duration lease) {
        this.redis = redis;
        this.prefix = prefix;
        this.keep = keep;
        this.lease = lease;
    }

    /**
     * The same with other keys.
     *
     * @param prefix of all keys, with braces for a cluster
     * @return a new store
     */
    public RedisStore withPrefix(String prefix) {
        return new RedisStore(redis, prefix, keep, lease);
    }

    /**
     * The same with another memory.
     *
     * @param keep how long events are remembered
     * @return a new store
     */
    public RedisStore withKeep(Duration keep) {
        return new RedisStore(redis, prefix, keep, lease);
    }

    /**
     * The same with another lease.
     *
     * @param lease when the claim of a dead process ends: longer than your work takes
     * @return a new store
     */
    public RedisStore withLease(Duration lease) {
        return new RedisStore(redis, prefix, keep, lease);
    }

    private Object eval(String script, Object... values) throws Exception {
        List<String> arguments = new ArrayList<>();
        arguments.add(prefix);
        for (Object value : values) {
            arguments.add(value.toString());
        }
        return redis.eval(script, List.of(prefix + ":spaces"), arguments);
    }

    private List<String> list(String script, Object... values) throws Exception {
        if (eval(script, values) instanceof Iterable<?> entries) {
            List<String> texts = new ArrayList<>();
            for (Object entry : entries) {
                texts.add(entry instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : entry.toString());
            }
            return texts;
        }
        throw new IllegalStateException("the script returned a list, and Eval did not");
    }

    private static long integer(String text) {
        return text.isEmpty() ? 0 : Long.parseLong(text);
    }

    @Override
    Claim claim(Event event, String token, boolean counts) throws Exception {
        List<String> said = counts
                ? list(CLAIM, event.id(), token, lease.toSeconds(), event.series(), event.workspace(),
                        event.sequence(), event.previous())
                : list(CLAIM, event.id(), token, lease.toSeconds(), "", "", "", "");
        if (said.get(0).equals("busy")) {
            throw new BusyException(event.id());
        }
        boolean first = said.get(0).equals("new");
        if (!counts) {
            return new Claim(first, null);
        }
        Long floor = said.get(1).isEmpty() ? null : Long.valueOf(said.get(1));
        String holder = said.get(4).isEmpty() ? null : said.get(4);
        return new Claim(first, new Decision.Facts(floor, said.get(2).equals("1"), said.get(3).equals("1"), holder,
                integer(said.get(5)), said.get(6).equals("1"), integer(said.get(7)), said.get(8).equals("1"),
                said.get(9).equals("1")));
    }

    @Override
    void release(Event event, String token) throws Exception {
        eval(RELEASE, event.id(), token);
    }

    @Override
    void finish(Event event, boolean counts, Decision decision, long nowS) throws Exception {
        if (counts) {
            eval(FINISH, event.id(), nowS, keep.toSeconds(), event.series(), event.workspace(), event.sequence(),
                    event.previous(), decision.floor() == null ? "" : decision.floor(), decision.announced() ? 1 : 0);
        } else {
            eval(FINISH, event.id(), nowS, keep.toSeconds(), "", "", "", "", "", 0);
        }
    }

    @Override
    public List<Missing> missing(Instant before) throws Exception {
        List<Missing> found = new ArrayList<>();
        for (String space : list(SPACES)) {
            String[] of = space.split(":", 2); // series, workspace
            List<String> said = list(MISSING, before.getEpochSecond(), of[0], of[1]);
            for (int i = 0; i + 2 < said.size(); i += 3) {
                found.add(new Missing(of[0], of[1], integer(said.get(i)),
                        Instant.ofEpochSecond(integer(said.get(i + 1))), said.get(i + 2).equals("1")));
            }
        }
        found.sort(Missing.OLDEST_FIRST);
        return found;
    }

    /** Ids expire by themselves. */
    @Override
    public void forget(Instant before) throws Exception {
        for (String space : list(SPACES)) {
            String[] of = space.split(":", 2);
            Object count;
            do {
                count = eval(FORGET, before.getEpochSecond(), of[0], of[1]);
            } while (first(count).equals("1000"));
        }
    }

    /** An integer. Lettuce's MULTI has it in a list. */
    private static String first(Object said) {
        return String.valueOf(said instanceof List<?> list && !list.isEmpty() ? list.get(0) : said);
    }
}
