package grapnel.receiver;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** For tests, and for one process whose work may be repeated after a restart. Threads may share it. */
public final class MemoryStore extends ClaimStore {
    private final long keepS;
    private final Map<String, Long> ids = new LinkedHashMap<>(); // when, in order of arrival
    private final Set<String> claimed = new HashSet<>();
    private final Map<String, Map<String, Numbers>> workspaces = new HashMap<>(); // by workspace and series

    private record Arrival(String id, long at) {}

    /** Of one series and workspace. */
    private static final class Numbers {
        private Long floor;
        private boolean announced;
        private long highest;
        private final Map<Long, Arrival> arrived = new LinkedHashMap<>(); // in order of arrival
        private final Map<Long, Long> missing = new HashMap<>(); // since when, by number
    }

    /** Remembers events for {@link Store#KEEP}. */
    public MemoryStore() {
        this(KEEP);
    }

    /**
     * Remembers events for another time.
     *
     * @param keep how long
     */
    public MemoryStore(Duration keep) {
        keepS = keep.toSeconds();
    }

    private Map<String, Numbers> workspace(Event event) {
        return workspaces.computeIfAbsent(event.workspace(), w -> new HashMap<>());
    }

    private Numbers numbers(Event event) {
        return workspace(event).computeIfAbsent(event.series(), s -> new Numbers());
    }

    @Override
    synchronized Claim claim(Event event, String token, boolean counts) throws BusyException {
        if (claimed.contains(event.id())) {
            throw new BusyException(event.id());
        }
        boolean first = !ids.containsKey(event.id());
        if (first) {
            claimed.add(event.id());
        }
        return new Claim(first, counts ? facts(event) : null);
    }

    private Decision.Facts facts(Event event) {
        Numbers own = numbers(event);
        boolean hasPrevious = own.arrived.containsKey(event.previous());
        long below = 0;
        if (!hasPrevious) {
            for (long n : own.arrived.keySet()) {
                below = n < event.previous() ? Math.max(n, below) : below;
            }
        }
        boolean earlier = false;
        boolean inOther = false;
        for (Numbers other : workspace(event).values()) {
            if (other != own) {
                earlier |= other.floor != null;
                inOther |= other.arrived.containsKey(event.previous());
            }
        }
        Arrival holder = own.arrived.get(event.sequence());
        return new Decision.Facts(own.floor, own.announced, earlier, holder == null ? null : holder.id, own.highest,
                hasPrevious, below, own.missing.containsKey(event.sequence()), inOther);
    }

    @Override
    synchronized void release(Event event, String token) {
        claimed.remove(event.id());
    }

    @Override
    synchronized void finish(Event event, boolean counts, Decision decision, long nowS) {
        claimed.remove(event.id());
        ids.putIfAbsent(event.id(), nowS);
        if (counts) {
            number(numbers(event), event, decision, nowS);
        }
        drop(nowS - keepS);
    }

    private static void number(Numbers own, Event event, Decision decision, long nowS) {
        own.floor = own.floor == null ? decision.floor() : own.floor;
        own.announced |= decision.announced();
        own.arrived.putIfAbsent(event.sequence(), new Arrival(event.id(), nowS));
        own.missing.remove(event.sequence());
        own.highest = Math.max(event.sequence(), own.highest);
        if (own.floor != null && event.previous() > own.floor && !own.arrived.containsKey(event.previous())) {
            own.missing.putIfAbsent(event.previous(), nowS);
        }
    }

    /** Entries are in order of arrival, so it ends at the first one that is young enough. */
    private void drop(long beforeS) {
        Iterator<Long> times = ids.values().iterator();
        while (times.hasNext() && times.next() < beforeS) {
            times.remove();
        }
        for (Map<String, Numbers> workspace : workspaces.values()) {
            workspace.values().forEach(own -> drop(own, beforeS));
        }
    }

    private static void drop(Numbers own, long beforeS) {
        Iterator<Map.Entry<Long, Arrival>> entries = own.arrived.entrySet().iterator();
        boolean dropped = false;
        while (entries.hasNext()) {
            Map.Entry<Long, Arrival> entry = entries.next();
            if (entry.getValue().at >= beforeS) {
                break;
            }
            if (own.floor != null) {
                own.floor = Math.max(own.floor, entry.getKey());
                dropped = true;
            }
            entries.remove();
        }
        if (dropped) {
            own.missing.keySet().removeIf(n -> n <= own.floor);
        }
    }

    @Override
    public synchronized List<Missing> missing(Instant before) {
        List<Missing> found = new ArrayList<>();
        workspaces.forEach((workspace, all) -> all.forEach((series, own) -> own.missing.forEach((number, since) -> {
            if (since <= before.getEpochSecond()) {
                boolean unsure = all.values().stream().anyMatch(o -> o != own && o.arrived.containsKey(number));
                found.add(new Missing(series, workspace, number, Instant.ofEpochSecond(since), unsure));
            }
        })));
        found.sort(Missing.OLDEST_FIRST);
        return found;
    }

    @Override
    public synchronized void forget(Instant before) {
        drop(before.getEpochSecond());
    }
}
