/* tenants: compares the workspace of a token with those of events and endpoints. */
#include "tenants.h"
#include "managed_endpoints.h"
#include "operational.h"
#include "operational_archive.h"
#include "sequencer.h"
#include "store.h"
#include <stdlib.h>
#include <string.h>

/* It tells the name, the error and the dead letter of its endpoint. One without a stored body is
 * about something unknown. */
static bool has_subject(struct sequencer *q, const char *tenant, int64_t event)
{
    json_t *data = operational_archive_data(q->operational_archive, event);
    const json_t *name = json_object_get(data, "endpoint");
    const struct endpoint *e = json_is_string(name)
                                   ? endpoint_find(q, json_string_value(name))
                                   : NULL;
    bool has = data && (!name || (e && tenant_has_endpoint(q, tenant, e->id)));

    json_decref(data);
    return has;
}

bool tenant_has_event(struct sequencer *q, const char *tenant,
                      const struct event_row *e)
{
    if (!tenant)
        return true;
    return strcmp(e->workspace, tenant) == 0 && e->status != EVENT_SPLIT &&
           !(e->status == EVENT_REFUSED && strcmp(tenant, "default") == 0) &&
           (strcmp(e->source, OPERATIONAL_SOURCE) != 0 ||
            has_subject(q, tenant, e->n));
}

bool tenant_has_endpoint(struct sequencer *q, const char *tenant,
                         int64_t endpoint)
{
    char *workspace = tenant ? managed_workspace(q, endpoint) : NULL;
    bool has = !tenant || (workspace && strcmp(workspace, tenant) == 0);

    free(workspace);
    return has;
}

const char *tenant_of(const json_t *args)
{
    return json_string_value(json_object_get(args, "tenant"));
}

json_t *tenants_check(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    const char *tenant = json_string_value(json_object_get(args, "workspace"));
    const char *id = json_string_value(json_object_get(args, "event"));
    json_t *own = json_array(), *name;
    struct event_row e = {0};
    bool event = !id;
    size_t i;

    (void)why;
    if (id) {
        event = store_event_by_id(q->store, wire_text(id), &e) &&
                tenant_has_event(q, tenant, &e);
        event_fini(&e);
    }
    json_array_foreach(json_object_get(args, "endpoints"), i, name)
    {
        const struct endpoint *to = endpoint_find(q, json_string_value(name));

        if (to && tenant_has_endpoint(q, tenant, to->id))
            json_array_append(own, name);
    }
    return json_pack("{s:b,s:o}", "event", (int)event, "endpoints", own);
}
