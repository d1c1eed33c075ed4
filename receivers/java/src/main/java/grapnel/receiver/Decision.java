package grapnel.receiver;

/**
 * The rule of docs/RECEIVING.md, and its result: a number that an event names as its previous one, and that has not
 * arrived, is missing. `floor` and `announced` are to be stored.
 */
record Decision(Check check, Long floor, boolean announced) {
    /**
     * What a store has about an event that is numbered, before it stores this one. `floor`: numbers up to it are not
     * checked; null: no event has set it. `announced`: an event of this series has been processed. `earlier`: another
     * series of this workspace is known. `holder`: the id of the event that has this number. `highest`: of the numbers
     * that have arrived; 0: none. `below`: the highest number that is lower than `previous`. `named`: an event has
     * named this number as its previous one. `inOther`: another series of this workspace has the number `previous`.
     */
    record Facts(Long floor, boolean announced, boolean earlier, String holder, long highest, boolean hasPrevious,
            long below, boolean named, boolean inOther) {}

    /** `first`: the id is new. An event that an operator sent again is old, so it does not begin the numbering. */
    static Decision of(Event event, boolean first, Facts facts) {
        Long floor = facts.floor == null && !event.replay() ? (Long) event.previous() : facts.floor;
        boolean missing = floor != null && event.previous() > floor && !facts.hasPrevious;
        Result result = missing ? Result.GAP_DETECTED : Result.OK;
        if (!first) {
            result = Result.DUPLICATE;
        } else if (facts.earlier && !facts.announced && !event.replay()) {
            result = Result.NEW_SERIES;
        } else if (floor == null || event.sequence() <= Math.max(floor, facts.highest)) {
            result = Result.OLD_EVENT;
        }
        Check check = new Check(result,
                missing ? (Long) event.previous() : null,
                missing ? (Long) Math.max(floor, facts.below) : null,
                missing && facts.inOther,
                facts.named && facts.holder == null && facts.floor != null && event.sequence() > facts.floor,
                event.id().equals(facts.holder) ? null : facts.holder);
        return new Decision(check, floor, facts.announced || (first && !event.replay()));
    }

    /** Of an event without a number, or if only duplicates matter. */
    static Decision plain(boolean first) {
        Result result = first ? Result.OK : Result.DUPLICATE;
        return new Decision(new Check(result, null, null, false, false, null), null, false);
    }
}
