/* rig-standby FILE ENGINE SEED TURNS: one start of a replicated process, as tests of faults and power cuts need it: it makes FILE a beginning of the log (lib/replication/cut.h),
 * follows the log to its end, compares the content, and with TURNS above 0 it takes over and writes so many turns. ENGINE is a file, which stands for an engine
 * that loses nothing. It exits with 0 if all of it is right; a writer may kill itself. */
#include "replicated_host.h"

int main(int argc, char **argv)
{
    struct host host = {0};
    struct writer w = {.kill_pm = 4, .held_pm = 40, .snapshot_pm = 200};
    struct applied *a;

    if (argc != 5)
        return 64;
    host.engine = me_open(argv[2]);
    host.sealer = sealer_open(writer_key);
    w.path = argv[1];
    w.seed = strtoull(argv[3], NULL, 10);
    w.turns = (int)strtol(argv[4], NULL, 10);
    rig_seed = w.seed * 2 + 1;
    a = host_start(&host, w.path);
    host_follow(&host, a, host.engine->last);
    must(host_content_is(&host, w.path, host.engine->last));
    printf("turn=%lld kept=%d cut=%d restored=%d full=%d\n",
           (long long)host.engine->last, host.kept, host.cut, host.restored,
           host.full);
    fflush(stdout);
    if (w.turns) {
        host_take_over(&host, a, &w);
        writer_main(&w);
    } else {
        applied_close(a);
    }
    sealer_close(host.sealer);
    me_free(host.engine);
    return 0;
}
